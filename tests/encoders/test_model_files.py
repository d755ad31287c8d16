"""Damaged model folders: one line that names the file and exit code 2, never a traceback."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from reldp.cli.main import main
from reldp.encoders.features import FeatureEncoder
from reldp.encoders.model_files import (
    as_encoder_error,
    check_model_files,
    check_vocabulary_files,
    check_weights_file,
)
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError, PlanError
from reldp.training.trained import load_trained

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"
QUERY = "encoder.layer.1.attention.self.query.weight"

Damage = Callable[[Path], Any]


def write(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text)


def config(**values: Any) -> Damage:
    """Changes config.json; an ellipsis removes the entry."""
    return _edited("config.json", values)


def tokenizer_config(**values: Any) -> Damage:
    return _edited("tokenizer_config.json", values)


def _edited(name: str, values: dict[str, Any]) -> Damage:
    def damage(folder: Path) -> None:
        both = json.loads((folder / name).read_text()) | values
        kept = {key: value for key, value in both.items() if value is not ...}
        (folder / name).write_text(json.dumps(kept))

    return damage


def cut(name: str, size: int) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    def damage(folder: Path) -> None:
        state = load_file(folder / "model.safetensors")
        change(state)
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def without(*names: str) -> Damage:
    return lambda folder: [(folder / name).unlink() for name in names]


def shards(folder: Path) -> None:
    """An index that names a file which is not there."""
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    places = {QUERY: "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def renamed(name: str) -> Damage:
    return lambda folder: (folder / "model.safetensors").rename(folder / name)


def index(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / name)
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {QUERY: name}})
        )

    return damage


# Each: what is done to a good folder, and what the one line must say.
DAMAGE: dict[str, tuple[Damage, str]] = {
    "weights cut short": (cut("model.safetensors", -100), r"model\.safetensors with [\d,]+ of"),
    "weights of five bytes": (cut("model.safetensors", 5), "beginning is cut short or damaged"),
    "weights of zero bytes": (cut("model.safetensors", 0), "beginning is cut short or damaged"),
    "weights cut in the header": (cut("model.safetensors", 900), "cut short or damaged"),
    "weights that are a pointer": (write("model.safetensors", POINTER), "LFS pointer in model"),
    "weights that are text": (write("model.safetensors", "hello " * 99), "cut short or damaged"),
    "no weights": (without("model.safetensors"), "safetensors"),
    "a shard that is missing": (shards, "got no model-00002-of-00002"),
    "an index that is a list": (
        lambda f: (
            (f / "model.safetensors").unlink(),
            write("model.safetensors.index.json", "[]")(f),
        ),
        "weight_map",
    ),
    "a weight that is missing": (weights(lambda s: s.pop(QUERY)), "layer.1.attention.self.query"),
    "a weight of another name": (
        weights(lambda s: s.update(other=s.pop("embeddings.word_embeddings.weight"))),
        "word_embeddings",
    ),
    "a weight of another size": (
        weights(lambda s: s.update({QUERY: torch.zeros(3, 3)})),
        r"weights of the sizes in its config\.json.*layer\.1\.attention\.self\.query",
    ),
    "weights of another name": (config(transformers_weights="x.bin"), "transformers_weights in co"),
    "a part with other weights": (
        config(parts=[{"x": {"transformers_weights": "x.safetensors"}}]),
        "files of the usual names, got transformers_weights",
    ),
    "a config of another name": (config(configuration_files=["config.4.0.0.json"]), "usual names"),
    "a tokenizer of another name": (
        tokenizer_config(fast_tokenizer_files=["tokenizer.4.0.0.json"]),
        r"usual names, got fast_tokenizer_files in tokenizer_config\.json",
    ),
    "weights that are a pickle": (renamed("pytorch_model.bin"), "or in files that .* without eith"),
    "weights without a known name": (
        renamed("x.safetensors"),
        "or in files that .* without either",
    ),
    "a distributed checkpoint": (
        write("shard-00001-model-00001-of-00001.safetensors", ""),
        "of a distributed checkpoint",
    ),
    "a shard that is no safetensors": (index("model.bin"), "safetensors files of its own"),
    "a shard elsewhere": (index("../x.safetensors"), r"safetensors files of its own .* '\.\./x"),
    "attention from the hub": (
        config(attn_implementation="kernels-community/flash-attn2"),
        "eager, sdpa or flex_attention as attn_implementation .* Remove the entry",
    ),
    "attention of a part from the hub": (
        config(text_config={"_attn_implementation": {"": "sdpa", "x": {"y": "a/b"}}}),
        "as _attn_implementation .* got 'a/b'",
    ),
    "a NaN": (weights(lambda s: s[QUERY][0].fill_(float("nan"))), "NaN or infinity in 'encoder.l"),
    "an infinity": (weights(lambda s: s[QUERY][0].fill_(float("inf"))), "NaN or infinity in"),
    "a NaN in a word that no sentence here has": (
        weights(lambda s: s["embeddings.word_embeddings.weight"][39].fill_(float("nan"))),
        "NaN or infinity in 'embeddings.word_embeddings.weight'",
    ),
    "weights that overflow": (
        weights(lambda s: [value.mul_(1e25) for name, value in s.items() if "layer" in name]),
        "finite embeddings, got NaN or infinity for",
    ),
    "an empty config": (write("config.json", ""), r"got a damaged config\.json"),
    "a config that is no JSON": (write("config.json", "{"), r"got a damaged config\.json"),
    "a config that is a list": (write("config.json", "[1]"), "one JSON object.*got a list"),
    "a config that is a number": (write("config.json", "7"), "one JSON object.*got a number"),
    "a config of deep brackets": (write("config.json", "[" * 99_999), r"damaged config\.json"),
    "a config that is a pointer": (write("config.json", POINTER), r"LFS pointer in config\.json"),
    "a quantized model": (
        config(quantization_config={"load_in_8bit": True}),
        "weights of 8 or 4 bit are not supported",
    ),
    "a config without a type": (config(model_type=...), r"must name a model_type in config\.json"),
    "a config of an unknown type": (config(model_type="zzz"), "zzz"),
    "a config whose type is a number": (config(model_type=5), "model_type"),
    "a hidden size that is a word": (config(hidden_size="abc"), "hidden_size .* got 'abc'"),
    "a hidden size that is negative": (config(hidden_size=-4), "hidden_size .* got -4"),
    "a hidden size that is a fraction": (config(hidden_size=3.5), r"hidden_size .* got 3\.5"),
    "another hidden size": (config(hidden_size=64), r"sizes in its config\.json"),
    "heads that do not divide": (config(num_attention_heads=5), "multiple of the number"),
    "another vocabulary": (config(vocab_size=50), r"sizes in its config\.json.*word_embeddings"),
    "fewer layers than weights": (config(num_hidden_layers=1), "layer.1.*1 layers in config"),
    "more layers than weights": (config(num_hidden_layers=9), "without 96 of them"),
    "no layers": (config(num_hidden_layers=0), "num_hidden_layers .* got 0"),
    "a billion layers": (config(num_hidden_layers=10**9), "at most 2048 as num_hidden_layers"),
    "an unknown activation": (config(hidden_act="foo"), "foo"),
    "an epsilon that is a word": (config(layer_norm_eps="x"), "layer_norm_eps"),
    "a padding token beyond the table": (config(pad_token_id=4000), "transformers can load"),
    "no tokenizer": (
        without("tokenizer.json", "tokenizer_config.json"),
        r"the files of its tokenizer, got .* without tokenizer\.json or vocab\.txt",
    ),
    "half a tokenizer": (without("tokenizer.json"), "okenizer"),
    "a damaged tokenizer": (write("tokenizer.json", "{"), r"damaged tokenizer\.json"),
    "a tokenizer of something else": (write("tokenizer.json", '{"a": 1}'), "transformers can load"),
    "a tokenizer that is a pointer": (
        write("tokenizer.json", POINTER),
        r"pointer in tokenizer\.js",
    ),
    "tokenizer settings that are a list": (write("tokenizer_config.json", "[]"), "can load"),
    "a length that is a word": (tokenizer_config(model_max_length="abc"), "can load|max_length"),
    "a length that is negative": (tokenizer_config(model_max_length=-3), "model_max_length.*-3"),
    "adapters": (write("adapter_config.json", "{}"), r"whole model, got adapters.*Merge them"),
    "damaged adapters": (write("adapter_config.json", "{"), r"whole model, got adapters"),
    "modules that are an object": (write("modules.json", '{"a": 1}'), r"modules\.json"),
    "modules that are numbers": (write("modules.json", "[1]"), r"modules\.json"),
    "modules without a type": (write("modules.json", '[{"path": ""}]'), "KeyError: 'type'"),
    "an encoder.json that is a list": (write("encoder.json", "[]"), "one JSON object"),
    "a damaged encoder.json": (write("encoder.json", "{"), r"damaged encoder\.json"),
}
BY_ENCODER_JSON = {"an encoder.json that is a list", "a damaged encoder.json"}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_model_is_one_line_and_exit_2(
    kind: str, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, message = DAMAGE[kind]
    folder = shutil.copytree(folders["bert"], tmp_path / "copy")
    load_trained(folder)
    damage(folder)
    load = load_trained if kind in BY_ENCODER_JSON else TextEncoder.load
    with pytest.raises(ValueError, match=message) as caught:
        load(folder)
    assert str(tmp_path) not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert main(["evaluate", str(folder), "--graph", "wordnet-adjectives"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("reldp: ")
    assert output.err.count("\n") == 1


def test_no_cut_and_no_flipped_byte_of_a_models_files_is_a_traceback(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """Each file cut and changed at many places is loaded or refused; nothing else happens."""
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        folder = shutil.copytree(folders["bert"], tmp_path / name)
        whole = (folder / name).read_bytes()
        places = range(0, min(len(whole), 4000), max(1, min(len(whole), 4000) // 12))
        refused = 0
        for at in places:
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xA5]) + whole[at + 1 :]):
                (folder / name).write_bytes(damaged)
                try:
                    TextEncoder.load(folder)
                except EncoderError:
                    refused += 1
        assert refused >= len(places)  # every cut at least


@pytest.mark.parametrize("kind", ["mpnet", "llama"])
def test_other_architectures_need_their_tokenizer_too(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(folders[kind], tmp_path / "copy")
    without("tokenizer.json", "tokenizer_config.json")(folder)
    with pytest.raises(EncoderError, match="okenizer"):
        TextEncoder.load(folder)


def test_a_gguf_file_that_is_a_pointer_or_cut_is_one_line(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    path = Path(shutil.copy(folders["gguf"], tmp_path))
    whole = path.read_bytes()
    path.write_text(POINTER)
    with pytest.raises(EncoderError, match="LFS pointer"):
        TextEncoder.load(path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(EncoderError, match="got adapters"):
        TextEncoder.load(path)
    (tmp_path / "adapter_config.json").unlink()
    for size in (0, 3, 200, len(whole) // 2, len(whole) - 50):
        path.write_bytes(whole[:size])
        with pytest.raises(EncoderError):
            TextEncoder.load(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("encoder.json", "[]", "must hold a feature encoder"),
        ("encoder.json", "", "damaged encoder.json"),
        ("encoder.json", '{"kind": "features"}', "in_dim"),
        ("encoder.json", '{"kind": "features", "in_dim": "x"}', "in_dim"),
        (
            "encoder.json",
            '{"kind": "features", "in_dim": 3, "hidden": null}',
            "`hidden` must be a list",
        ),
        ("encoder.json", '{"kind": "features", "in_dim": 3, "bias": "no"}', "`bias` must be true"),
        ("encoder.json", '{"kind": "features", "in_dim": 4}', "size mismatch|state_dict"),
        ("encoder.json", '{"kind": "features", "in_dim": 3, "zzz": 1}', "zzz"),
        ("model.safetensors", "", "cut short or damaged"),
        ("model.safetensors", POINTER, "LFS pointer"),
    ],
)
def test_a_damaged_feature_encoder_is_one_line(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    FeatureEncoder(3).save(folder)
    assert FeatureEncoder.load(folder).dim == 3
    (folder / name).write_text(text)
    with pytest.raises(EncoderError, match=message):
        FeatureEncoder.load(folder)


def test_a_good_folder_passes_and_libraries_errors_become_ours(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    check_model_files(folders["bert"])
    check_weights_file(folders["bert"] / "model.safetensors")
    check_vocabulary_files(tmp_path, SimpleNamespace(vocab_files_names={}))  # letters need none
    expected = f"got '{tmp_path.name}'. It said: Exception: bad."
    with pytest.raises(EncoderError, match=re.escape(expected)), as_encoder_error(tmp_path):
        raise Exception("bad\n")  # tokenizers raise it bare
    with pytest.raises(PlanError, match="ours"), as_encoder_error(tmp_path):
        raise PlanError("ours")
