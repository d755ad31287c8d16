"""Cells, compared settings and the order of work."""

import pytest
import torch
from benchmarks.ablations import cells as ablation_cells
from benchmarks.cross_domain import cells as cross_domain_cells
from benchmarks.experiments import tuning
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.optimizers import NoiseAwareAdam
from benchmarks.experiments.runner import _next as next_cell
from benchmarks.frontier import COMPARED, compared_cell, compared_cells, frontier_cells

from benchmarks import as_made, frontier
from reldp.errors import ConfigError


def test_an_id_depends_on_what_differs_from_the_defaults_only():
    cell = Cell(train="a", tests=("b",), epsilon=4.0)
    assert cell.id == "81a44327838c"
    assert cell.but(seed=1).id != cell.id
    assert cell.but(seed=0).id == cell.id


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "magic"},
        {"clipping": "none"},
        {"epsilon": 0.0},
        {"noise": 1.0},
        {"max_degree": 0},
        {"pool": "c"},
        {"warm_steps": 3},
    ],
)
def test_contradictions_are_refused(changes):
    with pytest.raises(ConfigError, match="must be"):
        Cell(**{"train": "a", "tests": ("b",), "epsilon": 4.0, **changes})


@pytest.mark.parametrize(
    "suite",
    [
        cross_domain_cells,
        ablation_cells,
        compared_cells,
        frontier_cells,
        as_made.gap_cells,
        as_made.cells,
        as_made.larger_cells,
        as_made.domain_cells,
    ],
)
def test_suites_are_valid_and_name_each_cell_once(suite):
    cells = suite()
    ids = [cell.id for cell in cells]
    assert ids
    if suite is not ablation_cells:  # axes meet in their common point
        assert len(set(ids)) == len(ids)
    assert all(Cell.from_dict(cell.to_dict()) == cell for cell in cells)


def test_no_setting_is_selected_on_the_test_graph():
    for name in COMPARED:
        assert compared_cell(name).tests == ("wordnet-adjectives",)


@pytest.mark.parametrize("variance", [0.0, 1e-2])
def test_noise_aware_adam_is_adam_only_without_noise(variance):
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(5)) for _ in range(2))
    mine = NoiseAwareAdam([ours], lr=0.1, betas=(0.9, 0.99), noise_variance=variance)
    adam = torch.optim.Adam([theirs], lr=0.1, betas=(0.9, 0.99))
    for _ in range(20):
        ours.grad = torch.randn(5)
        theirs.grad = ours.grad.clone()
        mine.step()
        adam.step()
    same = torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert same == (variance == 0.0)


def made_up(cell, mrr):
    return {"id": cell.id, "evaluations": {cell.tests[0]: {"mrr": mrr}}}


def test_tuning_chooses_by_the_validation_graph_for_every_rule_apart(tmp_path):
    results = [made_up(c, 0.5 + c.learning_rate - c.clip_norm / 1e3) for c in tuning.cells()]
    chosen = tuning.choose(results, tmp_path / "settings.json")
    assert {name: available["runs"] for name, available in chosen.items()} == {
        "nonprivate": 2,
        "tuple": 4,
        "frequency": 4,
        "pair": 4,
    }
    assert tuning.tuned("pair", tmp_path / "settings.json") == {
        "learning_rate": 3e-3,
        "clip_norm": 0.1,
    }


def combined(scores, tmp_path, starts=(0.500, 0.503, 0.497)):
    """What is selected of combinations with these scores; the baseline's deviation is 0.3 points."""
    results = [made_up(compared_cell("baseline", seed), score) for seed, score in enumerate(starts)]
    results += [made_up(frontier.combination_cell(name), score) for name, score in scores.items()]
    return frontier.choose(results, tmp_path / "frontier.json")


def test_the_cheapest_combination_as_good_as_the_best_is_selected(tmp_path):
    names = ("batch 64, 1000 steps", "batch 256, 1000 steps", "batch 1024, 500 steps")
    close = combined(dict(zip(names, (0.500, 0.519, 0.521), strict=True)), tmp_path)
    assert close["changes"] == {"batch": 256}
    apart = combined(dict(zip(names, (0.500, 0.517, 0.521), strict=True)), tmp_path)
    assert apart["changes"] == {"batch": 1024, "steps": 500}
    useless = combined(dict(zip(names, (0.500, 0.501, 0.499), strict=True)), tmp_path)
    assert useless["changes"] == {}


def test_nothing_is_selected_before_anything_was_run(tmp_path):
    with pytest.raises(ConfigError, match="must have been run first"):
        frontier.choose([], tmp_path / "frontier.json")


def test_large_cells_take_more_of_the_device():
    small = Cell(train="a", tests=("b",), epsilon=4.0)
    assert small.slots == 1
    assert small.but(batch=256).slots > 1
    assert small.but(encoder="smollm2").slots > small.but(encoder="mpnet").slots > 1
    assert small.but(encoder="smollm2", batch=4096).slots < 12  # it must fit somewhere


def test_cells_start_in_order_as_there_is_room():
    small = Cell(train="a", tests=("b",), epsilon=4.0)
    large = small.but(encoder="smollm2")
    waiting = [large, small]
    assert next_cell(waiting, [small] * 9, 12) is None  # the large one waits, and nobody overtakes
    assert next_cell(waiting, [small] * 8, 12) == large
    assert next_cell(waiting, [], 1) == small
    assert next_cell([large], [], 1) == large  # alone it may be larger than the device's share
    assert next_cell([], [], 12) is None
