"""Batches of tuples: Poisson positives and negatives without replacement; needs no torch.

Public: ``TupleSampler`` (reldp.sampling.sampler) and ``TupleBatch`` (reldp.sampling.batch).
``indices`` draws from sizes alone; ``binomial`` and ``distinct`` are its two parts
(theory.md 1).

>>> from reldp.sampling import TupleBatch, TupleSampler
"""

from reldp.sampling.batch import TupleBatch
from reldp.sampling.sampler import TupleSampler

__all__ = ["TupleBatch", "TupleSampler"]
