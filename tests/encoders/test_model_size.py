"""Small model folders that ask for much memory are refused before any of it is used."""

import json
import os
import resource
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, FunnelConfig, FunnelModel

from reldp.encoders import TextEncoder, model_size
from reldp.encoders.features import FeatureEncoder
from reldp.encoders.loading import load_pretrained
from reldp.encoders.model_files import StoredWeights, check_weights_file
from reldp.encoders.model_size import refuse_oversized, refuse_too_many
from reldp.errors import ConfigError, EncoderError
from reldp.losses import make_loss
from reldp.losses.saved import load as load_loss
from reldp.losses.saved import save as save_loss
from reldp.training.trained import load_trained

ROOM = 300_000  # KiB


@pytest.fixture
def copy(folders, tmp_path):
    return shutil.copytree(folders["bert"], tmp_path / "copy")


@pytest.fixture(autouse=True)
def _little_memory():
    """Peak memory of the process hardly grows: a check that comes too late takes gigabytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < ROOM


def edit(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    "values",
    [
        {"vocab_size": 5_000_000},
        {"hidden_size": 2**15, "intermediate_size": 2**17},
        {"max_position_embeddings": 10**9},
        {"type_vocab_size": 10**9},
    ],
)
def test_a_configuration_larger_than_its_weights_is_refused_first(copy, values):
    edit(copy / "config.json", **values)
    with pytest.raises(EncoderError, match=r"sizes in its config\.json.* numbers for a model of"):
        load_pretrained(copy)


def test_weights_of_another_name_are_no_way_around_the_check(copy):
    (copy / "model.safetensors").rename(copy / "x.safetensors")
    edit(copy / "config.json", transformers_weights="x.safetensors", intermediate_size=2**24)
    with pytest.raises(EncoderError, match=r"got transformers_weights in config\.json"):
        load_pretrained(copy)


@pytest.mark.parametrize(
    "values",
    [
        {"n_layers": 10**9},
        {"num_labels": 10**9},
        {"text_config": {"num_experts": 10**9}},
        {"first_k_dense_replace": 10**9},
        {"attention_types": [[["global", "local"], 10**9]]},
    ],
)
def test_counts_that_cost_time_on_their_own_are_refused(copy, values):
    edit(copy / "config.json", **values)
    with pytest.raises(
        EncoderError, match=r"must have at most \d+ (as|in the list) .* got 1000000000\."
    ):
        load_pretrained(copy)


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("albert", "num_hidden_groups"),
        ("albert", "inner_group_num"),
        ("mobilebert", "num_feedforward_networks"),
        ("canine", "num_hash_functions"),
        ("perceiver", "num_self_attends_per_block"),
    ],
)
def test_modules_without_number_are_refused_while_they_are_made(tmp_path, kind, count):
    config = AutoConfig.for_model(kind)
    small = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 8}
    few = {name: value for name, value in small.items() if hasattr(config, name)}
    values = {**config.to_dict(), **few, "model_type": kind, count: 10**9}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with pytest.raises(EncoderError, match=r"its 7 tensors, got .* more than 20,028 modules"):
        refuse_oversized(str(tmp_path), StoredWeights(10**9, 7), {})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "embedding_length",
            2**15,
            r"sizes in its header, got 'plain\.gguf' with [\d,]+ numbers for",
        ),
        ("feed_forward_length", 2**27, r"sizes in its header.* for a model of"),
        ("block_count", 10**9, r"at most 2048 as num_hidden_layers in plain\.gguf, got 1000000000"),
        ("block_count", 2000, r"got 'plain\.gguf' with 21 tensors for 2,000 layers"),
    ],
)
def test_a_gguf_file_that_asks_for_more_than_it_holds_is_refused_first(
    folders, tmp_path, name, value, message
):
    path = tmp_path / "plain.gguf"
    content = folders["gguf"].read_bytes()
    place = content.index(f"llama.{name}".encode()) + len(f"llama.{name}") + 4  # after its type
    path.write_bytes(content[:place] + value.to_bytes(4, "little") + content[place + 4 :])
    with pytest.raises(EncoderError, match=message):
        load_pretrained(path)


def test_shared_weights_and_small_models_pass(folders):
    refuse_too_many(2 * 10**9, 10**9, "tied")
    refuse_too_many(10**6, 0, "small")
    with pytest.raises(EncoderError, match="'big'"):
        refuse_too_many(10**9, 10**8, "big")
    refuse_oversized(str(folders["llama"]), StoredWeights(1000, 1), {})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"in_dim": 2**17, "hidden": [2**13]}, "has 2 layers"),
        ({"in_dim": 2**17}, "size mismatch for layers.0.weight"),
        ({"dim": 2**17}, "size mismatch for layers.0.weight"),
        ({"in_dim": 2**40}, "in_dim"),
    ],
)
def test_wide_layers_that_are_not_stored_are_refused_first(tmp_path, values, message):
    FeatureEncoder(3).save(tmp_path / "model")
    edit(tmp_path / "model" / "encoder.json", **values)
    with pytest.raises(EncoderError, match=message):
        FeatureEncoder.load(tmp_path / "model")


@pytest.mark.parametrize("stored", ["linear.weight", "linear.bias"])
def test_a_dense_layer_that_is_not_stored_is_refused_first(copy, stored):
    parts = [("", "Transformer"), ("1", "Pooling"), ("2", "Dense")]
    listed = [{"path": path, "type": kind} for path, kind in parts]
    (copy / "modules.json").write_text(json.dumps(listed))
    for path, config in (
        ("1", {"pooling_mode": "mean"}),
        ("2", {"in_features": 32, "out_features": 2**26}),
    ):
        (copy / path).mkdir()
        (copy / path / "config.json").write_text(json.dumps(config))
    save_file({stored: torch.ones(5, 32)}, copy / "2" / "model.safetensors")
    with pytest.raises(EncoderError, match="size mismatch"):
        load_pretrained(copy)


def test_a_typed_loss_that_is_not_stored_is_refused_first(tmp_path):
    save_loss(make_loss("distmult", type_names=["a", "b"], dim=4), tmp_path)
    assert load_loss(tmp_path).dim == 4
    edit(tmp_path / "loss.json", dim=2**29)
    with pytest.raises(ConfigError, match=r"loss\.json and loss\.safetensors"):
        load_loss(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "encoder.json"])
def test_files_that_are_far_too_large_are_refused_unread(copy, name):
    with (copy / name).open("ab") as file:
        os.truncate(file.fileno(), 2**32)  # sparse: no disk is used
    with pytest.raises(EncoderError, match=rf"a {name} of at most [\d,]+ bytes, got 4,294,967,296"):
        load_trained(copy)


def test_a_header_as_long_as_the_file_is_refused_unread(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes((2**32 - 8).to_bytes(8, "little"))
    os.truncate(path, 2**32)
    with pytest.raises(
        EncoderError, match=r"headers of at most 16,777,216 bytes together.*, got 4,294,967"
    ):
        check_weights_file(path)


@pytest.mark.parametrize("link", [False, True])
def test_headers_of_many_files_count_together(copy, link):
    """A folder of a megabyte can name one file a thousand times."""
    tensors = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    many = {f"z{place}": torch.zeros(0) for place in range(60_000)}
    save_file({**tensors, **many}, copy / "first.safetensors", metadata={"format": "pt"})
    names = ["first.safetensors", *(f"other{place}.safetensors" for place in range(8))]
    for name in names[1:]:
        if link:
            (copy / name).symlink_to("first.safetensors")
        else:
            shutil.copy(copy / "first.safetensors", copy / name)
    weights = dict.fromkeys(tensors, names[0]) | {f"z{n}": name for n, name in enumerate(names)}
    index = json.dumps({"metadata": {}, "weight_map": weights})
    (copy / "model.safetensors.index.json").write_text(index)
    with pytest.raises(EncoderError, match=r"headers of at most 16,777,216 bytes together"):
        load_pretrained(copy)


def test_the_header_of_a_few_tensors_is_short(tmp_path):
    save_file(
        {f"z{place}": torch.zeros(0) for place in range(2_000)}, tmp_path / "model.safetensors"
    )
    assert len(check_weights_file(tmp_path / "model.safetensors")) == 2_000
    with pytest.raises(EncoderError, match=r"of 65,536 bytes where there are a few tensors"):
        check_weights_file(tmp_path / "model.safetensors", is_small=True)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**20, 2**20], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2, -1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [3], "data_offsets": [-4, 8]},
        {"dtype": "?", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2**32 - 1] * 200_000, "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [10**4000], "data_offsets": [0, 8]},
    ],
)
def test_a_header_that_describes_other_bytes_is_refused(tmp_path, entry):
    path = tmp_path / "model.safetensors"
    header = json.dumps({"weight": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(EncoderError, match="cut short or damaged"):
        check_weights_file(path)


def test_every_type_of_number_is_read(tmp_path):
    names = (
        "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int64 int8 uint8 bool complex64"
    )
    values = {name: torch.zeros(3, 2).to(getattr(torch, name)) for name in names.split()}
    save_file(values, tmp_path / "x.safetensors", metadata={"format": "pt"})
    assert check_weights_file(tmp_path / "x.safetensors") == dict.fromkeys(values, (3, 2))
    assert set(load_file(tmp_path / "x.safetensors")) == set(values)


def test_tables_of_any_size_in_every_layer_are_refused(copy):
    """FNet makes them by SciPy, which knows nothing of a device without memory."""
    edit(
        copy / "config.json",
        model_type="fnet",
        use_tpu_fourier_optimizations=True,
        tpu_short_seq_length=14000,
    )
    with pytest.raises(EncoderError, match="use_tpu_fourier_optimizations false"):
        load_pretrained(copy)


def test_a_model_that_takes_long_to_make_is_given_up(copy, monkeypatch):
    def busy(*_, **__):
        while True:
            sum(range(1000))

    monkeypatch.setattr(model_size, "_SECONDS", 0.3)
    with monkeypatch.context() as patch:
        patch.setattr("transformers.AutoModel.from_config", busy)
        with pytest.raises(EncoderError, match=r"takes more than 0\.3 seconds or 4 GiB before"):
            load_pretrained(copy)
    monkeypatch.setattr(model_size, "_SECONDS", 30.0)
    load_pretrained(copy)


def test_layers_that_repeat_without_end_are_given_up(tmp_path, folders, monkeypatch):
    """A number in config.json says how often they do, and takes no weights."""
    folder = shutil.copytree(folders["bert"], tmp_path / "funnel")
    (folder / "model.safetensors").unlink()
    config = FunnelConfig(
        vocab_size=json.loads((folder / "config.json").read_text())["vocab_size"],
        d_model=32,
        n_head=2,
        d_head=16,
        d_inner=32,
        block_sizes=[1, 1],
    )
    FunnelModel(config).save_pretrained(folder)
    monkeypatch.setattr(model_size, "_SECONDS", 3.0)
    TextEncoder.load(folder, train="full")
    edit(folder / "config.json", block_repeats=[100_000, 100_000])
    with pytest.raises(EncoderError, match=r"weights that take more than 3 seconds or 4\.0 GiB"):
        TextEncoder.load(folder, train="full")


def test_lists_that_a_configuration_makes_of_a_few_numbers_are_bounded(copy, monkeypatch):
    """GPT-Neo repeats a list as often as it says."""
    attention = [[["global"] * 100, 2**20]] * 20
    config = {"model_type": "gpt_neo", "hidden_size": 32, "attention_types": attention}
    (copy / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(model_size, "_MEMORY", 50 * 2.0**20)
    with pytest.raises(EncoderError, match=r"takes more than 8 seconds or 0\.0488281 GiB before"):
        load_pretrained(copy)
