"""The whole way from a column to its page, run for real: cells, results, store, tables, figures."""

import re

import pytest
import torch
from benchmarks.cross_domain import column_cells, nonprivate, private
from benchmarks.experiments import cost, figures, tables, tuning
from benchmarks.experiments.runner import RunSettings, run_cells
from benchmarks.experiments.store import Store, read_lines
from benchmarks.experiments.tables import compared, summary

from benchmarks import ablations, cross_domain, frontier
from tests.benchmarks.miniature import LittleColumn, prepare_place

EPSILONS = (10.0, 4.0, 1.0)
LITTLE = LittleColumn(
    "little-train",
    "little-test",
    "tiny",
    "cls",
    {"tuple": EPSILONS, "frequency": EPSILONS, "pair": (4.0,)},
    uncapped=True,
    noise_only=True,
    seeds=(0, 1),
    steps=6,
)


@pytest.fixture(scope="module")
def little():
    """Every suite over the little column."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (cross_domain, tables, summary, figures, frontier):
            patch.setattr(module, "COLUMNS", (LITTLE,))
        patch.setattr(compared, "COLUMN", LITTLE)
        patch.setattr(ablations, "COLUMN", LITTLE)
        patch.setattr(cross_domain, "TRIED", (LITTLE,))
        for module in (tuning, frontier):
            patch.setattr(module, "VALIDATION", "little-train")
        patch.setattr(compared, "_VALIDATION", "little-train")
        patch.setattr(frontier, "SEEDS", (0, 1))
        selected = {"batch": 16, "pairing": "all"}
        patch.setattr(frontier, "COMBINATIONS", {"batch 16, all pairs": selected})
        patch.setattr(frontier, "selected", lambda: selected)
        patch.setattr(frontier, "PUBLIC", {"negatives": "public", "pool": "little-test"})
        patch.setattr(frontier, "ELSEWHERE_COLUMN", LITTLE)
        patch.setattr(frontier, "ELSEWHERE_STEPS", 5)
        patch.setattr(cost, "STEPS", 4)
        patch.setattr(cost, "BATCHES", (8,))
        yield


@pytest.fixture(scope="module")
def store(little, tmp_path_factory):
    torch.set_num_threads(1)
    axis = ablations.AXES[0]
    cells = [
        *column_cells(LITTLE),
        private(LITTLE, "tuple", 4.0, 7),
        nonprivate(LITTLE, 5, 7),
        *(frontier.compared_cell("baseline", seed) for seed in (0, 1)),
        frontier.compared_cell("temperature 0.1"),
        *frontier.combination_cells(),
        *frontier.frontier_cells(),
        *frontier.elsewhere_cells()[:2],
        *(ablations.axis_cell(axis, value, 0) for value in axis.values[:3]),
        *cost.cells(),
    ]
    cells = list({cell.id: cell for cell in cells}.values())
    place = prepare_place(tmp_path_factory.mktemp("laboratory"), cells)
    output = tmp_path_factory.mktemp("results") / "cells.jsonl"
    settings = RunSettings(workers=1, seconds=3000.0, output=output, command="a test")
    assert run_cells(cells, place, settings) == 0
    store = Store(output.parent / "cells")
    assert store.merge(read_lines(output)) == len(cells)
    return store


@pytest.fixture(scope="module")
def text(store):
    return tables.page(store)


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The table under a heading, without its first two lines."""
    part = text.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def test_every_row_of_the_column_has_a_score_and_every_training_a_cost(text):
    rows = rows_of(text, "little-train to little-test, tiny, cls pooling")
    assert len(rows) == 4 + 3 + 3 + 1
    for label, _epsilon, *scores in rows:
        assert "±" in scores[0] or label == "the pretrained model"
        assert ("-" in scores[4:]) == (label.startswith(("the pretrained", "noise only")))


def test_the_page_begins_with_the_result_in_words_and_one_line(text):
    assert "**little-train to little-test, tiny, cls pooling.** MRR is" in text
    (row,) = rows_of(text, "All results")
    assert len(row) == 10
    assert "-" not in row


def test_every_section_is_there(text):
    headings = re.findall(r"^## (.*?)$", text, re.MULTILINE)
    last = [
        "Also tried",
        "Ablations",
        "Settings compared",
        "Selected configuration",
        "Cost",
        "Reproduction",
    ]
    assert headings[3:] == last


def test_settings_are_compared_on_the_validation_graph_and_targets_are_reported(text):
    shown = {row[0] for row in rows_of(text, "Settings compared")}
    assert shown >= {
        "baseline",
        "temperature 0.1",
        "batch 16, all pairs",
        *list(frontier.ELSEWHERE)[:2],
    }
    assert len(rows_of(text, "Selected configuration")) == 9
    assert "The selected configuration (batch 16, all pairs) on the test graph" in text
    assert "One result came in after the selection" not in text
    assert "**Limits.** With clipping and almost no noise" in text
    assert "**Epsilon 4.** Our target" in text
    assert "**Epsilon 1.** Our target" in text


def test_cells_that_were_run_again_are_beside_what_was_reported(text):
    rows = rows_of(text, "Reproduction")
    assert len(rows) == 2
    assert all(row[-1] in ("yes", "**no**") for row in rows)


def test_figures_are_drawn(store, tmp_path):
    tables.write_page(store, tmp_path / "page.md")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "ablations.svg",
        "frontier.svg",
    }
