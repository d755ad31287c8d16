"""Statistics of a step are those of its units."""

import math

import numpy as np
import torch

from reldp.gradients import ClippedSum
from reldp.sampling import TupleBatch
from reldp.training.step_report import StepReport

SHAPES = {"weight": torch.Size([1])}


def batch(size, **changes):
    empty = np.zeros((size, 2), dtype=np.int64)
    ids = np.arange(size)
    return TupleBatch(
        positives=empty, negatives=empty, endpoints=empty, relation_ids=ids, **changes
    )


def test_a_report_by_hand():
    clipped = ClippedSum(
        total=torch.zeros(1),
        shapes=SHAPES,
        norms=torch.tensor([1.0, 3.0, 2.0, math.inf, math.nan]),
        losses=torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]),
        factors=torch.tensor([1.0, 0.5, 1.0, 0.0, 0.0]),
    )
    report = StepReport.of(batch(5), clipped)
    assert (report.num_tuples, report.overflow, report.loss) == (5, False, 3.0)
    assert (report.clipped_share, report.num_nonfinite) == (3 / 5, 2)


def test_without_clipping_norms_are_not_known_and_not_counted():
    clipped = ClippedSum(
        total=torch.zeros(1),
        shapes=SHAPES,
        norms=torch.full((2,), math.nan),
        losses=torch.ones(2),
        factors=torch.ones(2),
    )
    report = StepReport.of(batch(2), clipped)
    assert (report.clipped_share, report.num_nonfinite) == (0.0, 0)


def test_an_empty_batch_has_no_loss():
    report = StepReport.of(batch(0, overflow=True), ClippedSum.of_nothing(SHAPES))
    assert math.isnan(report.loss)
    assert math.isnan(report.median_norm)
    assert (report.num_tuples, report.overflow, report.clipped_share) == (0, True, 0.0)
