"""Scores that tell two neighboring graphs apart from what one training step released, without a model of it.

Which score is used is decided on pilot trials, so the bounds of `reldp.auditing.bounds` hold whatever the step does:

* ``projection``: the released value along the gradients' direction;
* ``distance from ... median``: how far it is from the median of the graph with the entity, or without it;
* ``orthogonal part``: the length of what is orthogonal to the direction, where there should be nothing but noise.

Public to `reldp.auditing`: `step_scores`.

>>> quiet = Outputs(np.zeros((50, 2)), np.ones(50, dtype=np.int64))
>>> sorted(step_scores(quiet, quiet)(quiet))
['distance from the median with', 'distance from the median without', 'orthogonal part', 'projection']
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from reldp.auditing.real_step import Outputs

__all__ = ["step_scores"]

Array = npt.NDArray[np.float64]


def step_scores(with_entity: Outputs, without: Outputs) -> Callable[[Outputs], dict[str, Array]]:
    """Return the scores of outputs; medians come from the pilot outputs of both graphs."""
    near, far = float(np.median(with_entity.along)), float(np.median(without.along))

    def score(outputs: Outputs) -> dict[str, Array]:
        along = outputs.along
        return {
            "projection": along,
            "distance from the median with": np.abs(along - near),
            "distance from the median without": np.abs(along - far),
            "orthogonal part": outputs.across,
        }

    return score
