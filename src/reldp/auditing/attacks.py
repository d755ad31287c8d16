"""Scores that tell two neighboring graphs apart from the outputs of a few steps.

The best score is the likelihood ratio (Neyman and Pearson). The auditor sees the sums of pilot trials before the noise
and so knows both densities: mixtures of Gaussians around those sums. That works for any mechanism whose noise is
as stated. Mistakes in the noise itself need no model, only a suspicion, so simple scores are tried as well:

* ``likelihood ratio``: sum over steps of the log ratio of the two fitted mixtures;
* ``projection``: sum of the outputs along the entity's direction;
* ``smallest output``: the smallest absolute output of a step (noise left out, or scaled by the batch);
* ``range of outputs``: largest minus smallest output (noise used twice).

A score is chosen on pilot trials alone; whatever it is, the bounds of `reldp.auditing.bounds` hold for it.

Public to `reldp.auditing`: `LikelihoodRatio`, `scores`.

>>> ratio = LikelihoodRatio.fit(np.array([1.0]), np.array([0.0]), deviation=1.0)
>>> ratio(np.array([[2.0]])).round(6).tolist()  # (2^2 - 1^2) / 2
[1.5]
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

__all__ = ["LikelihoodRatio", "scores"]

Array = npt.NDArray[np.float64]

_RESOLUTION = 50  # sums closer than a deviation / 50 count as one
_MAX_CENTERS = 1000
_CELLS = 4_000_000
_FLOOR = -700.0  # log density below which a double is 0


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Gaussians of one deviation around weighted centers."""

    centers: Array
    log_weights: Array
    deviation: float

    @classmethod
    def fit(cls, sums: Array, deviation: float) -> "_Mixture":
        width = deviation / _RESOLUTION
        while True:
            _, cell, counts = np.unique(
                np.round(sums / width), return_inverse=True, return_counts=True
            )
            if counts.size <= _MAX_CENTERS:
                break
            width *= 2
        centers = np.bincount(cell, weights=sums) / counts
        return cls(centers, np.log(counts / sums.size), deviation)

    def log_density(self, outputs: Array) -> Array:
        """Log density up to a constant that all mixtures of one deviation share."""
        rows = max(1, _CELLS // self.centers.size)
        parts = []
        for start in range(0, outputs.size, rows):
            gap = (outputs[start : start + rows, None] - self.centers) / self.deviation
            parts.append(logsumexp(self.log_weights - 0.5 * gap**2, axis=1))
        return np.asarray(np.maximum(np.concatenate(parts), _FLOOR))


@dataclass(frozen=True, eq=False)
class LikelihoodRatio:
    """Log of the density with the entity over the density without it, summed over steps."""

    with_entity: _Mixture
    without_entity: _Mixture

    @classmethod
    def fit(cls, with_entity: Array, without_entity: Array, deviation: float) -> "LikelihoodRatio":
        """From sums of pilot steps before noise, and the noise's standard deviation."""
        return cls(
            _Mixture.fit(with_entity.ravel(), deviation),
            _Mixture.fit(without_entity.ravel(), deviation),
        )

    def __call__(self, outputs: Array) -> Array:
        """(N, T) outputs along the direction -> (N,) scores."""
        flat = outputs.ravel()
        ratio = self.with_entity.log_density(flat) - self.without_entity.log_density(flat)
        total: Array = ratio.reshape(outputs.shape).sum(axis=1)
        return total


def scores(outputs: Array, ratio: LikelihoodRatio) -> dict[str, Array]:
    """Every score of every trial.

    Args:
        outputs: Outputs along the entity's direction.  (N, T)
        ratio: Fitted on pilot trials.
    """
    by_name = {
        "likelihood ratio": ratio(outputs),
        "projection": outputs.sum(axis=1),
        "smallest output": np.abs(outputs).min(axis=1),
    }
    if outputs.shape[1] > 1:
        by_name["range of outputs"] = outputs.max(axis=1) - outputs.min(axis=1)
    return by_name
