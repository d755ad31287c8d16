"""Chunks of fixed, public shape: what a unit's gradient is does not depend on its company.

Kernels round differently for other shapes, and in bfloat16 that is a lot: were chunks cut and padded
by what happens to be in a batch, one unit more could move the gradients of all others, and the sum
by more than the unit's own threshold (theory.md section 2: a unit's part depends on that unit
alone). So every chunk is a *frame*. Its length follows from the unit's own longest row; how many
units it holds follows from that length and public settings. Units that fill a frame up repeat its
first unit with its loss times 0: their gradients are exactly 0, or not finite and left out. A frame
of several units always has such a one, and its last token is masked: models choose other kernels
where nothing is masked, and whether anything is must not depend on company either.

Private to the package: `Frame`, `Piece`, `Shapes`, `Summed`, `fixed_shape`, `most_units`.

>>> shapes = Shapes(rows_per_unit=6, most_units=80, max_length=64, kind="cpu")
>>> [(p.start, p.stop, p.length, p.units) for p in shapes.cut(np.array([20, 19, 18, 17, 9]))]
[(0, 4, 24, 10), (4, 5, 16, 16)]
>>> [(p.start, p.stop) for p in shapes.cut(np.full(12, 20))]  # the tenth fills up
[(0, 9), (9, 12)]
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Frame", "Piece", "Shapes", "Summed", "fixed_shape", "most_units"]

_TOKENS = frozenset({"input_ids", "attention_mask", "hidden"})  # (rows, tokens, ...), 0 is padding
# Tokens (or feature rows) of a frame: what fits the caches of a CPU, and the memory of a GPU.
_BUDGET = {"cpu": 1536, "cuda": 65536}


@dataclass(frozen=True)
class Piece:
    """Consecutive units of a batch and the frame they go into.

    Attributes:
        start: The first unit.
        stop: The unit after the last.
        length: Tokens of the frame's rows; 1 for rows without tokens.
        units: Units of the frame, with those that fill it up.
    """

    start: int
    stop: int
    length: int
    units: int


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """Which frames a run has: decided by public settings alone.

    Attributes:
        rows_per_unit: Rows of the forward that belong to one unit.
        most_units: Units that most batches do not exceed.
        max_length: Tokens that a text is cut to; None for rows without tokens.
        kind: ``"cpu"`` or ``"cuda"``.
        units: Units of every frame, if they are given; one of them fills up, unless it is alone.
    """

    rows_per_unit: int
    most_units: int
    max_length: int | None
    kind: str
    units: int | None = None

    def cut(self, longest: npt.NDArray[np.integer[Any]]) -> list[Piece]:
        """The frames of a batch, whose units are ordered by their longest row, longest first."""
        found: list[Piece] = []
        lengths = [self.length_of(int(own)) for own in longest]
        start = 0
        while start < len(lengths):
            length = lengths[start]
            stop, units = start + 1, self.units_of(length)
            while stop < len(lengths) and stop - start < units - 1 and lengths[stop] == length:
                stop += 1
            found.append(Piece(start, stop, length, units))
            start = stop
        return found

    def length_of(self, longest: int) -> int:
        """Tokens of the frame for a unit whose longest row has so many."""
        if self.max_length is None:
            return 1
        if self.kind == "cuda":
            length = 1 << max(longest - 1, 31).bit_length()
        else:
            step = 8 if longest <= 64 else 32
            length = -(-longest // step) * step
        return max(longest, min(length, self.max_length))

    def units_of(self, length: int) -> int:
        """Units of a frame of that length."""
        if self.units is not None:
            return self.units
        room = _BUDGET[self.kind] // (length * self.rows_per_unit)
        return max(3, min(self.most_units + 1, room))


def fixed_shape(name: str, value: Tensor) -> tuple[int, ...]:
    """The dimensions of rows that every chunk has: all but the rows and their tokens."""
    return tuple(value.shape[2 if name in _TOKENS else 1 :])


def most_units(expected_batch_size: float, units_per_tuple: int) -> int:
    """Units that a batch exceeds once in forty times, a multiple of 8."""
    tuples = expected_batch_size + 2 * math.sqrt(expected_batch_size)
    return 8 * math.ceil(tuples * units_per_tuple / 8)


@dataclass(frozen=True, eq=False)
class Summed:
    """What one chunk gives; nothing of it is private before noise.

    Attributes:
        total: Sum of clipped gradients, all parameters one after the other, (parameters,) float64.
        norms: Of each unit's gradient, (units,).
        losses: Of each unit, (units,).
        factors: What each unit was multiplied by, (units,).
    """

    total: Tensor
    norms: Tensor
    losses: Tensor
    factors: Tensor

    def first(self, units: int) -> "Summed":
        """Copies, without the units that filled the frame up."""
        return Summed(
            self.total.clone(),
            self.norms[:units].clone(),
            self.losses[:units].clone(),
            self.factors[:units].clone(),
        )

    def plus(self, other: "Summed") -> "Summed":
        """Both together, the other's units after this one's."""
        return Summed(
            self.total + other.total,
            torch.cat([self.norms, other.norms]),
            torch.cat([self.losses, other.losses]),
            torch.cat([self.factors, other.factors]),
        )


@dataclass(frozen=True, eq=False)
class Frame:
    """Buffers of fixed shape that hold one chunk.

    Attributes:
        rows: Inputs of the encoder by name, first dimension units times rows per unit.
        ends: See `reldp.clipping.ClipUnits`, (units, negatives) int64.
        mask: Likewise, (units, negatives) bool.
        weights: 1 for a unit of the chunk, 0 for one that fills the frame up, (units,).
        thresholds: Largest norm that each unit may keep, (units,) float64.
    """

    rows: Mapping[str, Tensor]
    ends: Tensor
    mask: Tensor
    weights: Tensor
    thresholds: Tensor

    @classmethod
    def like(cls, rows: Mapping[str, Tensor], ends: Tensor, *, units: int, length: int) -> "Frame":
        """Empty buffers for chunks of such rows.

        Args:
            rows: Rows of some units.
            ends: Of the same units.
            units: How many the frame holds.
            length: Tokens of its rows, where rows have tokens.
        """
        count, negatives = ends.shape
        device = next(iter(rows.values())).device
        buffers = {}
        for name, value in rows.items():
            tokens = (length,) if name in _TOKENS else ()
            rest = (*tokens, *fixed_shape(name, value))
            buffers[name] = value.new_zeros((value.shape[0] // count * units, *rest))
        return cls(
            rows=buffers,
            ends=torch.zeros((units, negatives), dtype=torch.int64, device=device),
            mask=torch.zeros((units, negatives), dtype=torch.bool, device=device),
            weights=torch.zeros(units, device=device),
            thresholds=torch.ones(units, dtype=torch.float64, device=device),
        )

    def fill(
        self, rows: Mapping[str, Tensor], ends: Tensor, mask: Tensor, thresholds: Tensor
    ) -> None:
        """Takes a chunk in; its first unit stands wherever there is room left."""
        units, size = ends.shape[0], self.weights.shape[0]
        for name, value in rows.items():
            buffer = self.rows[name]
            own = value.shape[0] // units  # rows per unit
            if name in _TOKENS:
                buffer.zero_()
                buffer = buffer[:, : value.shape[1]]
            buffer[: value.shape[0]].copy_(value)
            if size > units:
                places = buffer[value.shape[0] :].view(size - units, own, *buffer.shape[1:])
                places.copy_(value[:own].expand(places.shape))
                if name == "attention_mask" and self.rows[name].shape[1] > 1:
                    self.rows[name][value.shape[0] :, -1] = 0
        for buffer, value in ((self.ends, ends), (self.mask, mask)):
            buffer[:units].copy_(value)
            buffer[units:].copy_(value[:1].expand(size - units, -1))
        self.weights[:units].fill_(1.0)
        self.weights[units:].fill_(0.0)
        self.thresholds[:units].copy_(thresholds)
        self.thresholds[units:].fill_(1.0)
