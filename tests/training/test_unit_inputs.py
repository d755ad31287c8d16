"""The inputs of some clip units are those of the batch, in its order."""

import numpy as np
import torch

from reldp.training.unit_inputs import unit_inputs
from tests.training.small import make_step, small_parts


def test_the_inputs_are_the_units_of_the_part():
    from reldp.noise import Streams

    step = make_step(*small_parts(), threads=1)
    step.open(Streams(bytes(32)))
    units = step.clip_units(step.draw(0))
    thresholds = torch.arange(units.num_units, dtype=torch.float64)
    inputs = unit_inputs(units, slice(2, 5), step._rows, thresholds, 0.5)
    assert inputs.thresholds.tolist() == [2.0, 3.0, 4.0]
    assert inputs.grid == 0.5
    assert inputs.types is None
    assert inputs.endpoints.dtype == torch.int64
    assert np.array_equal(inputs.endpoints.numpy(), units.endpoints[2:5])
    assert np.array_equal(inputs.mask.numpy(), units.mask[2:5])
    features = step._capped.graph.features[units.entities[2:5].reshape(-1)]
    assert np.array_equal(inputs.rows["features"].numpy(), features)
