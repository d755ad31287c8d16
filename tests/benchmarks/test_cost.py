"""Every row of the tables leads to the short training that says what it costs."""

import pytest
from benchmarks.cross_domain import COLUMNS, ROWS, column_cells, noise_only, nonprivate, private
from benchmarks.experiments import cost
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables import cost_columns

from benchmarks import frontier
from tests.benchmarks.made_up import result

FIRST = COLUMNS[0]


def test_every_trained_row_of_the_tables_is_measured_and_beside_it_no_privacy():
    known = {cell.id for cell in cost.cells()}
    for cell in [*(c for col in COLUMNS for c in column_cells(col)), *frontier.frontier_cells()]:
        if cell.method in ("private", "nonprivate"):
            assert {cost.of(cell).id, cost.without_privacy(cell).id} <= known


def test_what_trains_on_nothing_costs_nothing():
    assert cost.of(FIRST.start) is None
    assert cost.of(noise_only(FIRST, 0)) is None


def test_short_trainings_are_named_once_and_evaluate_nothing():
    cells = cost.cells()
    assert len({cell.id for cell in cells}) == len(cells)
    assert all(cell.tests == () and cell.steps == cost.STEPS for cell in cells)


def test_the_cheapest_encoder_comes_first():
    encoders = [cell.encoder for cell in cost.cells()]
    assert encoders == sorted(encoders, key=[*cost.POOLINGS].index)


@pytest.mark.parametrize(
    "changes", [{"seed": 2}, {"clip_norm": 0.1}, {"learning_rate": 1e-2}, {"epsilon": 1.0}]
)
def test_what_changes_no_kernel_changes_no_cost(changes):
    cell = private(FIRST, "tuple", 4.0, 0)
    assert cost.of(cell.but(**changes)) == cost.of(cell)


@pytest.mark.parametrize(
    "changes", [{"batch": 256}, {"num_negatives": 8}, {"lora_rank": 2}, {"precision": "float32"}]
)
def test_what_changes_a_kernel_is_measured_apart(changes):
    cell = private(FIRST, "tuple", 4.0, 0)
    assert cost.of(cell.but(**changes)) != cost.of(cell)


def test_a_rule_keeps_its_own_way_of_training():
    for key in ROWS:
        cell = private(FIRST, key, 4.0, 0)
        short = cost.of(cell)
        for name in ("clipping", "loss", "negatives", "pool"):
            assert getattr(short, name) == getattr(cell, name)


def test_columns_beside_a_row_are_of_its_own_cost(tmp_path):
    cell = private(FIRST, "pair", 4.0, 1)
    store = Store(tmp_path)
    assert cost_columns.columns(store, cell) == ["-"] * len(cost_columns.HEADER)
    store.merge([result(cost.of(cell), seconds_per_step=0.03)])
    assert cost_columns.columns(store, cell) == ["30.0", "1,234", "30", "-"]
    store.merge([result(cost.of(nonprivate(FIRST, 0, 2)), seconds_per_step=0.012)])
    assert cost_columns.columns(store, cell) == ["30.0", "1,234", "30", "2.50"]


def test_steps_without_replay_are_compared_with_their_like(tmp_path):
    store = Store(tmp_path)
    slow = [cell for cell in cost.cells() if not cell.cuda_graphs]
    assert {cell.method for cell in slow} == {"private", "nonprivate"}
    store.merge(result(c, seconds_per_step=0.03 if c.method == "private" else 0.02) for c in slow)
    lines = [line for line in cost_columns.section(store).splitlines() if "float32 | no " in line]
    ratios = sorted(line.strip("| ").split(" | ")[-1] for line in lines)
    assert ratios == ["1.00"] * (len(slow) // 2) + ["1.50"] * (len(slow) // 2)
