"""Steps are counted before they run."""

import pytest
import torch

from reldp.errors import RunError
from reldp.training.advice import PoorPlanWarning
from reldp.training.counted_steps import CountedSteps, warn_about_plan
from reldp.training.step import PrivateStep
from tests.training.small import small_parts

torch.set_num_threads(1)


class _Ledger:
    next_uncounted_step = 3

    def reserve(self, first, stop):
        self.reserved = (first, stop)


class _Session:
    stream_number, stop = 0, 12

    def __init__(self):
        self.ledger = _Ledger()


def test_a_step_that_is_not_counted_does_not_run():
    parts = small_parts()
    steps = CountedSteps(PrivateStep(*parts), _Session(), parts[2])
    with pytest.raises(RunError, match="Step 3 must be counted before it runs"):
        steps.take(3)


@pytest.mark.parametrize(
    ("number", "block", "reserved"), [(2, 8, None), (3, 8, (3, 11)), (3, 20, (3, 12))]
)
def test_steps_are_reserved_in_blocks_up_to_the_last(number, block, reserved):
    parts, session = small_parts(), _Session()
    CountedSteps(PrivateStep(*parts), session, parts[2]).reserve(number, block)
    assert getattr(session.ledger, "reserved", None) == reserved


def test_a_poor_plan_is_warned_about():
    encoder, _, plan = small_parts(noise_multiplier=0.3)
    with pytest.warns(PoorPlanWarning):
        warn_about_plan(plan, encoder, stacklevel=1)
