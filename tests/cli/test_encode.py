"""``reldp encode`` on runs, saved models and bare encoders."""

import json
import re
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from reldp.cli import progress
from reldp.cli.main import main
from reldp.encoders import Column, ModuleEncoder, embedding_file
from reldp.graph import EntityGraph
from reldp.training import Trainer
from tests.encoders.modules import tabular
from tests.encoders.tiny import TEXTS, write_model
from tests.training.small import small_encoder, small_graph, small_parts

torch.set_num_threads(1)


@pytest.fixture
def graph(tmp_path):
    small_graph(seed=3).write(tmp_path / "graph")
    return str(tmp_path / "graph")


def test_a_run_encodes_another_graph(tmp_path, graph, capsys):
    result = Trainer(*small_parts()).fit(tmp_path / "run")
    file = tmp_path / "x.parquet"
    command = ["encode", str(tmp_path / "run"), "--graph", graph, "-o", str(file)]
    command += ["--device", "cpu"]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = result.encoder.encode_graph(small_graph(seed=3))
    assert printed["num_entities"] == len(expected)
    assert (printed["dim"], printed["file"]) == (expected.shape[1], "x.parquet")
    assert printed["privacy"].startswith("sensitive: ")
    table = pq.read_table(file)
    written = np.array(table.column("embedding").to_pylist())
    untrained = small_encoder().encode_graph(small_graph(seed=3))
    assert np.allclose(written, expected, atol=1e-5)
    assert not np.allclose(written, untrained, atol=1e-4)
    assert table.column("id").to_pylist() == small_graph(seed=3).ids.to_pylist()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.startswith("reldp: --output must be a new file, got 'x.parquet'")
    assert "--overwrite" in said
    assert main([*command, "--overwrite"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"x.parquet: {len(expected)} embeddings of length")
    assert "Sensitive" in said
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_bare_text_encoder_with_another_pooling(tmp_path, capsys):
    EntityGraph.from_lists(list(range(len(TEXTS))), [], text=TEXTS).write(tmp_path / "graph")
    model = str(write_model("bert", tmp_path / "model"))
    for pooling in ("mean", "cls"):
        command = ["encode", model, "--graph", str(tmp_path / "graph"), "--pooling", pooling]
        assert main([*command, "-o", str(tmp_path / f"{pooling}.parquet")]) == 0
    tables = [pq.read_table(tmp_path / f"{name}.parquet") for name in ("mean", "cls")]
    assert tables[0].column("embedding") != tables[1].column("embedding")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["MODEL", "--graph", "GRAPH"], "--output must be given"),
        (["MODEL", "-o", "FILE"], "--graph must be given"),
        (["MODEL", "--graph", "nowhere", "-o", "FILE"], "nowhere"),
        (["nowhere/at/all", "--graph", "GRAPH", "-o", "FILE"], "SOURCE must be a model's folder"),
        (["MODEL", "--graph", "GRAPH", "-o", "x.csv"], "--output must end in .parquet"),
        (["MODEL", "--graph", "GRAPH", "-o", "no/x.parquet"], "in a folder that exists"),
        (["MODEL", "--graph", "GRAPH", "-o", "FILE", "--batch-size", "0"], "--batch-size must be"),
        (["MODEL", "--graph", "GRAPH", "-o", "FILE", "--pooling", "cls"], "--pooling must be left"),
        (["MODEL", "--graph", "TEXTS", "-o", "FILE"], "features"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, graph, capsys, arguments, words):
    small_parts()[0].save(tmp_path / "model")
    EntityGraph.from_lists([1, 2], [], text=["x", "y"]).write(tmp_path / "texts")
    places = {"MODEL": str(tmp_path / "model"), "GRAPH": graph, "TEXTS": str(tmp_path / "texts")}
    places["FILE"] = str(tmp_path / "x.parquet")
    assert main(["encode", *(places.get(word, word) for word in arguments)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert words in said[0]
    assert not (tmp_path / "x.parquet").exists()


def test_a_module_s_run_is_refused_in_one_line_since_its_code_is_not_saved(tmp_path, graph, capsys):
    _, capped, plan = small_parts(num_steps=2)
    encoder = ModuleEncoder(tabular(), Column("features", shape=6))
    Trainer(encoder, capped, plan).fit(tmp_path / "run")
    command = ["encode", str(tmp_path / "run"), "--graph", graph, "-o", str(tmp_path / "x.parquet")]
    assert main([*command, "--device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "whose code is not saved. In Python: reldp.ModuleEncoder.load(" in said
    assert main(["evaluate", str(tmp_path / "run"), "--graph", graph, "--device", "cpu"]) == 2
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_without_a_terminal_lines_say_how_far_it_is(tmp_path, graph, capsys, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 0.05)
    Trainer(*small_parts()).fit(tmp_path / "run")
    run = str(tmp_path / "run")
    write = embedding_file.write_embeddings

    def slow(*given, progress, **more):
        def advance(done, total):
            progress(done, total)
            time.sleep(0.2)

        time.sleep(0.2)
        return write(*given, progress=advance, **more)

    monkeypatch.setattr(embedding_file, "write_embeddings", slow)
    assert main(["encode", run, "--graph", graph, "-o", str(tmp_path / "x.parquet")]) == 0
    said = capsys.readouterr().err
    assert "reldp: (sensitive) encoding, for " in said
    assert re.search(r"reldp: \(sensitive\) encoding \d+ %, for ", said)
