"""What a run returns."""

import dataclasses

import pytest

from reldp.training import TrainResult
from reldp.training.result import TrainResult as Made


def test_a_result_is_frozen_and_has_no_held_out_results_unless_there_are_some():
    assert TrainResult is Made
    result = Made(certificate=None, encoder=None, loss=None, folder=None, metrics=[])
    assert result.holdout is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.holdout = {}
