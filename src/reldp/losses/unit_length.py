"""Vectors of length 1, with a floor under the length that they are divided by.

A cosine divides by the length of an embedding. Where that is next to nothing, as for a text that
the starting weights nearly map to zero, the quotient and its gradient would be rounding errors blown
up without bound. Divided by at least `NORM_FLOOR`, they are bounded; a vector that is longer is
divided by its own length as ever (theory.md 6).

Private to the package: `NORM_FLOOR`, `unit_length`.

>>> import torch
>>> unit_length(torch.tensor([[3.0, 4.0], [3e-6, 4e-6]]))
tensor([[0.6000, 0.8000],
        [0.0300, 0.0400]])
"""

from torch import Tensor
from torch.nn import functional

__all__ = ["NORM_FLOOR", "unit_length"]

NORM_FLOOR = 1e-4


def unit_length(vectors: Tensor) -> Tensor:
    """Return the vectors (..., dim), each divided by its length or by `NORM_FLOOR`."""
    return functional.normalize(vectors, dim=-1, eps=NORM_FLOOR)
