"""A run without finite gradients stops; nothing else does."""

import dataclasses

import numpy as np
import pytest
import torch

from reldp.errors import RunError
from reldp.graph import EntityGraph
from reldp.training import Trainer
from reldp.training.nonfinite import NonfiniteWatch
from reldp.training.step_report import StepReport
from tests.training.small import DIM, NUM_ENTITIES, small_encoder, small_graph, small_plan

torch.set_num_threads(1)
GOOD = StepReport(
    num_tuples=4, overflow=False, loss=1.0, median_norm=1.0, clipped_share=0.5, num_nonfinite=0
)
BAD = dataclasses.replace(GOOD, num_nonfinite=4, loss=np.nan, median_norm=np.inf)
EMPTY = dataclasses.replace(GOOD, num_tuples=0, loss=np.nan, median_norm=np.nan)


def watch(**plan):
    return NonfiniteWatch(small_plan(small_graph().promise_degrees(4), **plan))


def test_five_bad_steps_in_a_row_stop_the_run():
    seen = watch()
    for _ in range(4):
        seen.see(BAD)
    with pytest.raises(RunError, match="none in 5 steps in a row"):
        seen.see(BAD)


def test_empty_batches_neither_count_nor_excuse():
    seen = watch()
    for report in (EMPTY, BAD, EMPTY, BAD, BAD, EMPTY, EMPTY, BAD):
        seen.see(report)
    with pytest.raises(RunError):
        seen.see(BAD)
    seen = watch()
    for _ in range(20):
        seen.see(EMPTY)


@pytest.mark.parametrize(
    "better", [{"num_nonfinite": 3}, {"num_nonfinite": 3, "median_norm": np.nan}]
)
def test_one_finite_unit_begins_the_count_anew(better):
    seen = watch()
    for _ in range(3):
        for _ in range(4):
            seen.see(BAD)
        seen.see(dataclasses.replace(BAD, **better))


def test_pairs_are_counted_as_pairs():
    seen = watch(clipping="pair", num_negatives=3)
    for _ in range(10):
        seen.see(dataclasses.replace(BAD, num_nonfinite=11))
    for _ in range(4):
        seen.see(dataclasses.replace(BAD, num_nonfinite=12))
    with pytest.raises(RunError):
        seen.see(dataclasses.replace(BAD, num_nonfinite=12))


@pytest.mark.parametrize("settings", [{}, {"clip": False}])
def test_a_run_that_learns_nothing_does_not_spend_the_budget(tmp_path, settings):
    """On 0.3.0 all steps ran on noise alone, and the certificate said nothing."""
    graph = small_graph()
    huge = np.full((NUM_ENTITIES, DIM), 3e38, np.float32)  # finite; what becomes of it is not
    capped = EntityGraph.from_lists(
        range(NUM_ENTITIES), graph.relations.tolist(), features=huge
    ).promise_degrees(4)
    plan = small_plan(capped, noise_multiplier=0.0 if settings else 2.0)
    with pytest.raises(RunError, match="finite gradients"):
        Trainer(small_encoder(), capped, plan, score="dot", checkpoint_every=3, **settings).fit(
            tmp_path / "run"
        )
    assert not (tmp_path / "run" / "certificate.json").exists()
    for name in ("ledger.jsonl", "metrics.jsonl"):
        assert "finite" not in (tmp_path / "run" / name).read_text()
