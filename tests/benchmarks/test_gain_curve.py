"""Rows of the gain curve from cells: what is compared with what, and what the package is given."""

import json

import pytest
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store

from benchmarks import gain_curve
from reldp._gain_curve import GainTable

TRAIN, TEST = gain_curve.SELECTION


def result(score, *, sigma=None, relations=51_200, tests=None, **fields):
    cell = Cell(
        train=fields.pop("train", TRAIN), tests=(TEST,), pooling="mean", batch=256, **fields
    )
    scores = dict.fromkeys(tests or cell.tests, score)
    return {
        "id": cell.id,
        "cell": cell.to_dict(),
        "evaluations": {
            test: {"mrr": mrr, "intervals": {"mrr": [mrr - 0.01, mrr + 0.01]}}
            for test, mrr in scores.items()
        },
        "noise_multiplier": sigma,
        "epsilon": fields.get("epsilon"),
        "num_relations": relations,
    }


def cells(base=0.5, plain=0.6, **fields):
    """An encoder that gains ten points without privacy, and keeps 6, 5 and 2 of them."""
    return [
        result(base, method="base", **fields),
        result(plain - 0.05, method="nonprivate", learning_rate=1e-2, **fields),
        result(plain, method="nonprivate", **fields),
        result(plain, method="nonprivate", seed=1, **fields),
        *(result(0.56 + d, epsilon=4.0, sigma=0.512, seed=s, **fields) for s, d in ((0, 0.002), (1, -0.002))),
        result(0.55, epsilon=4.0, sigma=0.512, num_negatives=8, **fields),
        result(0.52, epsilon=1.0, sigma=1.024, **fields),
    ]  # fmt: skip


def test_the_gain_is_that_of_the_best_training_without_privacy():
    rows = gain_curve.gain_rows(cells())
    (row,) = [r for r in rows if r["seeds"] == 2]
    assert (row["base"], row["nonprivate"], row["private"]) == (0.5, 0.6, 0.56)
    assert row["share"] == pytest.approx(0.6)
    assert row["low"] < 0.6 < row["high"]
    assert row["noise"] == pytest.approx(0.002)
    choice = {
        "max_degree": 5,
        "num_negatives": 4,
        "batch": 256,
        "passes": 5.0,
        "batch_share": 0.005,
        "negatives": "entities",
    }
    assert row["choice"] == choice
    assert len(rows) == 3


def test_other_rules_poolings_and_evaluations_at_other_scales_are_left_out():
    extra = [
        result(0.9, epsilon=4.0, sigma=0.5, clipping="frequency", accountant="rdp"),
        result(0.9, epsilon=4.0, sigma=0.5, warm_graph="x", warm_steps=3),
    ]
    cls = {**result(0.9, epsilon=4.0, sigma=0.5)}
    cls["cell"] = {**cls["cell"], "pooling": "cls"}
    scaled = result(0.5, method="base", tests=[TEST, f"{TEST} x 0.5"])
    rows = gain_curve.gain_rows([*cells(), *extra, cls, scaled])
    assert rows == gain_curve.gain_rows(cells())


def test_a_graph_without_a_gain_is_named_and_not_on_a_curve():
    rows = gain_curve.gain_rows(cells(plain=0.505, train="other"))
    assert all(row["share"] is None for row in rows)
    table = gain_curve.package_table([*rows, *gain_curve.gain_rows(cells())])
    assert table["without_gain"] == [f"other to {TEST}"]
    assert {curve["train"] for curve in table["curves"]} == {TRAIN}


def test_choices_are_the_configurations_that_were_measured_on_the_selection():
    table = gain_curve.package_table(gain_curve.gain_rows(cells()))
    made = GainTable.from_json(table)
    assert {choice.num_negatives for choice in made.choices} == {4, 8}
    assert len(made.curves) == 2
    few = next(choice for choice in made.choices if choice.num_negatives == 4)
    assert 0.2 < made.on_selection(few, 0.003).share < 0.6
    elsewhere = gain_curve.package_table(gain_curve.gain_rows(cells(train="other")))
    assert elsewhere["choices"] == []


def test_other_settings_than_those_of_most_graphs_are_not_on_a_curve():
    tried = result(0.59, epsilon=4.0, sigma=0.512, temperature=0.1)
    rows = gain_curve.gain_rows([*cells(), *cells(train="other"), tried])
    assert any(row["private"] == 0.59 for row in rows)
    table = gain_curve.package_table(rows)
    assert all(p["share"] < 0.7 for curve in table["curves"] for p in curve["points"])


def test_committed_rows_and_the_table_of_the_package_follow_from_the_committed_cells():
    rows = gain_curve.gain_rows(Store().results.values())
    again = f"run {gain_curve.COMMAND} again"
    assert json.loads(gain_curve.ROWS.read_text())["rows"] == rows, again
    assert json.loads(gain_curve.TABLE.read_text()) == gain_curve.package_table(rows), again
