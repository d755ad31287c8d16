import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, T5Config, T5Model

from reldp.encoders.loading import load_pretrained, quiet_transformers
from reldp.encoders.model_files import check_model_files
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError
from tests.encoders.tiny import TEXTS


@pytest.fixture
def copy(folders, tmp_path):
    """A copy of the BERT-type folder, to damage."""
    return shutil.copytree(folders["bert"], tmp_path / "copy")


def test_a_bare_model_brings_no_settings_of_its_own(folder):
    loaded = load_pretrained(folder)
    assert (loaded.pooling, loaded.max_length, loaded.normalize) == (None, None, False)
    assert loaded.name == folder.name
    assert not loaded.model.training
    assert loaded.tokenizer.pad_token is not None
    assert loaded.tokenizer.padding_side == "right"


def test_missing_weights_are_refused_and_never_random(copy):
    weights = load_file(copy / "model.safetensors")
    del weights["encoder.layer.1.attention.self.query.weight"]
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EncoderError, match=r"layer\.1\.attention\.self\.query"):
        load_pretrained(copy)


def test_a_missing_pooler_is_no_loss(copy):
    weights = load_file(copy / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "pooler" not in name}
    save_file(kept, copy / "model.safetensors", metadata={"format": "pt"})
    first, second = load_pretrained(copy), load_pretrained(copy)
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name])


def test_pickled_weights_are_never_read(copy):
    weights = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(weights, copy / "pytorch_model.bin")
    with pytest.raises(EncoderError, match="safetensors"):
        load_pretrained(copy)


def test_code_in_the_folder_is_never_run(copy, tmp_path):
    config = json.loads((copy / "config.json").read_text())
    config |= {"model_type": "strange", "auto_map": {"AutoModel": "evil.Model"}}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(EncoderError, match="`source`"):
        load_pretrained(copy)
    assert not (tmp_path / "ran").exists()


def test_sources_that_are_no_models_are_one_clear_line(tmp_path):
    with pytest.raises(EncoderError, match="does not exist"):
        load_pretrained(tmp_path / "absent")
    with pytest.raises(EncoderError, match=r"config\.json"):
        load_pretrained(tmp_path)
    (tmp_path / "model.bin").write_text("x")
    with pytest.raises(EncoderError, match=r"\.gguf"):
        load_pretrained(tmp_path / "model.bin")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match="model_type") as caught:
        load_pretrained(tmp_path)
    assert str(tmp_path) not in str(caught.value)


def test_a_folder_without_a_model_says_what_it_holds_instead(tmp_path):
    (tmp_path / "checkpoint-best").mkdir()
    for number in (500, 1000, 90, 1500):
        (tmp_path / f"checkpoint-{number}").mkdir()
    with pytest.raises(
        EncoderError, match="such as checkpoint-500, checkpoint-1000, checkpoint-1500"
    ):
        load_pretrained(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"got adapters for another one.*merge_and_unload"):
        load_pretrained(tmp_path)


def test_long_words_of_a_model_s_files_are_cut(copy):
    path = copy / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_max_length": "A" * 10**5}))
    with pytest.raises(EncoderError) as refused:
        load_pretrained(copy)
    assert len(str(refused.value)) < 400
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "hidden_size": "A" * 10**5}))
    with pytest.raises(EncoderError, match="a whole number above 0 as hidden_size") as refused:
        load_pretrained(copy)
    assert len(str(refused.value)) < 200
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "model.safetensors").unlink()
    index = {"weight_map": {"x": "A" * 10**5 + ".safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(EncoderError, match="safetensors files of its own") as refused:
        load_pretrained(copy)
    assert len(str(refused.value)) < 300


def test_a_model_of_two_halves_is_refused(folders, tmp_path):
    config = T5Config(
        vocab_size=40,
        d_model=8,
        d_kv=4,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=0,
    )
    T5Model(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folders["bert"]).save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match="got T5Model"):
        load_pretrained(tmp_path)


def test_an_unknown_dtype_is_refused(folders):
    with pytest.raises(EncoderError, match="`dtype`"):
        load_pretrained(folders["bert"], dtype="float16")


def test_transformers_is_quiet_inside_and_as_before_outside():
    from transformers.utils import logging

    logging.enable_progress_bar()
    before = logging.get_verbosity()
    with quiet_transformers():
        assert not logging.is_progress_bar_enabled()
    assert logging.is_progress_bar_enabled()
    assert logging.get_verbosity() == before


def test_a_gguf_file_loads_plain_or_packed_as_nearly_the_same_model(folders):
    plain = TextEncoder.load(folders["gguf"], train="none")
    packed = TextEncoder.load(folders["packed"].parent, gguf_file="packed.gguf", train="none")
    first, second = plain.encode(TEXTS), packed.encode(TEXTS)
    assert plain.describe()["pooling"] == "last"
    assert plain.describe()["base_weights_sha256"] != packed.describe()["base_weights_sha256"]
    # Blocks of 8 bits keep about two digits.
    np.testing.assert_allclose(second, first, atol=0.1)
    assert np.abs(first).mean() > 0.3


@pytest.mark.parametrize("name", ["../plain.gguf", "/etc/passwd", "a/b.gguf"])
def test_a_gguf_file_elsewhere_is_refused(folders, name):
    with pytest.raises(
        EncoderError, match="`gguf_file` must be the name of a file in the model's folder"
    ):
        load_pretrained(folders["bert"], gguf_file=name)


def test_a_checkpoint_in_several_files_is_the_same_model(folders, tmp_path):
    whole = folders["bert"]
    parts = shutil.copytree(whole, tmp_path / "parts")
    state = load_file(parts / "model.safetensors")
    (parts / "model.safetensors").unlink()
    places = {
        name: f"model-0000{1 + number % 2}-of-00002.safetensors"
        for number, name in enumerate(sorted(state))
    }
    for place in set(places.values()):
        part = {name: value for name, value in state.items() if places[name] == place}
        save_file(part, parts / place, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": places}
    (parts / "model.safetensors.index.json").write_text(json.dumps(index))
    assert check_model_files(parts) == check_model_files(whole)
    for path in sorted(parts.glob("*.safetensors")):  # as a cache links files of equal content
        (parts / f"again-{path.name}").symlink_to(path.name)
    index = json.loads((parts / "model.safetensors.index.json").read_text())
    names = {f"again {k}": f"again-{name}" for k, name in index["weight_map"].items()}
    index["weight_map"] |= names
    (parts / "model.safetensors.index.json").write_text(json.dumps(index))
    assert check_model_files(parts) == check_model_files(whole)
    one, other = (TextEncoder.load(place, train="none") for place in (whole, parts))
    np.testing.assert_array_equal(one.encode(TEXTS), other.encode(TEXTS))
    described = [encoder.describe()["base_weights_sha256"] for encoder in (one, other)]
    assert described[0] == described[1]


@pytest.mark.parametrize("dtype", ["int8", "8bit", "4-bit", "nf4", "float8_e4m3fn"])
def test_weights_of_few_bits_are_refused_by_name(folders, dtype):
    with pytest.raises(EncoderError, match="8 or 4 bit are not supported"):
        load_pretrained(folders["bert"], dtype=dtype)
