"""Changes between steps are noticed, also of modules that no step uses."""

import pytest
import torch

from reldp.encoders import TextEncoder
from reldp.training.callbacks import WeightsChangedError
from reldp.training.objective import Objective
from reldp.training.weight_watch import WeightWatch
from tests.encoders.tiny import write_model
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_frozen_model_beside_a_head_is_compared_apart(tmp_path):
    """No step uses it, and every model that is released has it."""
    encoder = TextEncoder.load(write_model("bert", tmp_path / "model"), train="head")
    _, _, plan = small_parts()
    watch = WeightWatch(Objective(encoder, lambda rows, batch: rows.sum((1, 2)), plan), is_on=True)
    watch.check()
    watch.check_beside()
    next(encoder._text.parameters()).data[0, 0] += 1.0
    watch.check()
    with pytest.raises(WeightsChangedError, match="one that changed frozen weights or buffers"):
        watch.check_beside()
