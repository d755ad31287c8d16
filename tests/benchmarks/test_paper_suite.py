"""The suite of the paper on stand-ins: tiny graphs, tiny models with random weights, every line of every table."""

import gzip
import json
import math

import numpy as np
import pytest
import torch
from benchmarks.experiments import paper_suite
from benchmarks.experiments.__main__ import main
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.paper_models import MODELS, hours
from benchmarks.experiments.paper_suite import DIRECTIONS, PAPER, Sizes, Suite

from reldp.graph.recipes.amazon import amazon
from reldp.graph.recipes.mag import mag
from tests.encoders.tiny import SENTENCE, write_model

SMALL = Sizes(
    batch=8, candidates=16, passes=0.12, test_relations=32, negatives=(1,), degrees=(2,), noises=(2.0,)
)  # fmt: skip
NUM_RECORDS = 240


def product(name, title, related, kind):
    """A product in the form of 2014; some are in both categories."""
    tops = ["Sports & Outdoors", "Clothing, Shoes & Jewelry"]
    paths = [[top] for top in (tops if kind == 2 else tops[kind : kind + 1])]
    return {"asin": name, "title": title, "related": {"also_bought": related}, "categories": paths}


def paper(name, title, related, kind):
    countries = (["USA"], ["P.R. China"], ["USA", "China"])[kind]
    authors = [{"org": f"Institute, {country}"} for country in countries]
    return {"id": name, "title": title, "references": related, "authors": authors}


def rows(generator, letter, make):
    """Invented records whose relations are between neighbors, and with one hub."""
    for i in range(NUM_RECORDS):
        title = " ".join(generator.choice(SENTENCE.split(), 5))
        related = [f"{letter}{j}" for j in (0, i + 1, i + 2, i + 3)]
        yield make(f"{letter}{i}", title, related, 2 if i % 24 == 0 else i % 2)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("paper")
    generator = np.random.default_rng(0)
    products = [repr(row) for row in rows(generator, "B", product)]
    with gzip.open(folder / "metadata.json.gz", "wt") as file:
        file.write("\n".join(products))
    papers = [json.dumps(row) for row in rows(generator, "p", paper)]
    (folder / "papers.jsonl").write_text("\n".join(papers))
    for name in ("sports", "cloth"):
        graph = amazon([folder / "metadata.json.gz"], categories=[name])
        graph.write(folder / "data" / f"amaz-{name}")
    for name in ("usa", "chn"):
        mag([folder / "papers.jsonl"], countries=[name]).write(folder / "data" / f"mag-{name}")
    for name in MODELS:
        write_model("llama" if "llama" in name else "bert", folder / "models" / name)
    return folder


def words(place, output, model, *more):
    folders = ["--data", str(place / "data"), "--models", str(place / "models")]
    return ["run", "--suite", "paper", "--model", model, "--output", str(output), *folders, *more]


def test_one_command_runs_every_line_and_runs_nothing_twice(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paper_suite, "PAPER", SMALL)
    monkeypatch.setattr(paper_suite, "DIRECTIONS", DIRECTIONS[3:])
    monkeypatch.setattr(paper_suite, "EPSILONS", (10.0,))
    monkeypatch.setattr(paper_suite, "ABLATED_AT", 10.0)
    output = tmp_path / "cells.jsonl"
    assert main(words(place, output, "bert-base")) == 0
    printed = capsys.readouterr().out
    first, _, tables = printed.partition("\ntable1: PREC@1")
    assert "hours on an H200" in first.partition("1/")[0]
    assert "10 ids are in both graphs" in first
    assert "open" not in tables
    assert tables.count("\n| ") == (1 + 5) + (1 + 2) + (1 + 3)
    results = [json.loads(line) for line in output.read_text().splitlines()]
    cells = [Cell.from_dict(result["cell"]) for result in results]
    assert len({cell.id for cell in cells}) == len(cells) == 5 + 1 + 3
    assert all(cell.encoder == "bert-base" and cell.temperature == 1.0 for cell in cells)
    for result, cell in zip(results, cells, strict=True):
        if cell.epsilon:
            assert 0.9 * cell.epsilon < result["epsilon"] <= cell.epsilon
            assert result["delta"] == 1 / result["num_relations"]
    kept = output.read_text().splitlines(keepends=True)
    output.write_text("".join(kept[:-1]) + kept[-1][:30])  # killed while it wrote
    assert main(words(place, output, "bert-base")) == 0
    printed = capsys.readouterr().out
    assert "table1: 0 cells to run, about 0.0 hours" in printed
    assert "ablations: 1 cells to run" in printed
    assert "\n1/1 " in printed


@pytest.mark.parametrize("model", ["bert-large", "llama-2-7b"])
def test_the_other_models_run_too(place, tmp_path, monkeypatch, capsys, model):
    monkeypatch.setattr(paper_suite, "PAPER", SMALL)
    monkeypatch.setattr(paper_suite, "DIRECTIONS", DIRECTIONS[3:])
    output = tmp_path / "cells.jsonl"
    assert main(words(place, output, model, "--table", "capping")) == 0
    assert "open" not in capsys.readouterr().out
    poolings = {json.loads(line)["cell"]["pooling"] for line in output.read_text().splitlines()}
    assert poolings == {"last" if "llama" in model else "cls"}


def test_steps_and_sizes_are_the_papers(place):
    suite = Suite(Inputs(place / "data", place / "models"), "bert-base", PAPER)
    for line in suite.lines():
        for direction in suite.directions:
            if direction.label not in line.cells:
                assert line.table == "ablations"
                continue
            cell = line.cells[direction.label]
            assert (cell.batch, cell.learning_rate, cell.clip_norm) == (32, 5e-5, 1.0)
            assert cell.lora_scale * cell.lora_rank == 16
            assert cell.max_length == 32
            kept = suite.inputs.capped(cell.train, cell.max_degree).num_relations
            passes = 2 if cell.train.startswith("mag") else 1
            if cell.method != "base":
                assert cell.steps == math.ceil(passes * kept / 32)


def test_hours_grow_with_steps_rows_and_the_model():
    one = {"steps": 1000, "batch": 32, "num_negatives": 4}
    assert hours("bert-base", **one) < hours("bert-large", **one) < hours("llama-2-7b", **one)
    assert hours("bert-base", **{**one, "steps": 2000}) == 2 * hours("bert-base", **one)
    # The measured step itself: 1000 steps of 584.8 ms.
    assert hours("llama-2-7b", **one) == pytest.approx(0.1624, rel=1e-3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "bert"], "`model` must be one of bert-base, bert-large, llama-2-7b"),
        (["--table", "table2"], "`table` must be one of table1, capping, ablations"),
        (["--data", "nowhere"], "`data` must hold two of the folders"),
    ],
)
def test_a_wrong_word_is_one_line(place, tmp_path, capsys, more, said):
    assert main([*words(place, tmp_path / "cells.jsonl", "bert-base"), *more]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_suite_stands_alone(capsys):
    for arguments in (["list", "--suite", "paper"], ["run", "--suite", "paper", "--suite", "cost"]):
        with pytest.raises(SystemExit):
            main(arguments)
    assert "must stand alone" in capsys.readouterr().err
