"""Microbatches of fixed, public shape: a unit's gradient is independent of what else is in the batch.

Kernels round differently for other shapes, and in bfloat16 that is a lot: were microbatches cut and
padded by what happens to be in a batch, one unit more could move the gradients of all others, and
the sum by more than the unit's own threshold (theory.md section 2: a unit's part depends on that
unit alone). So every microbatch is a *frame*. Its length follows from the unit's own longest row;
how many units it holds, and its layout, follow from that length and public settings. Padding units
repeat the first unit with the weight 0: the engine multiplies clip factors by weights, so that they
contribute nothing. A frame of several units always has a padding unit, and its last token is
masked: models choose other kernels where nothing is masked, and whether anything is must not depend
on the batch either.

Layouts, from fast to slow; `reldp.training.locality` finds the first in which a unit's bits depend
on nothing but the unit: ``"rows"``, matrix products over all rows of the frame; ``"apart"``, every
unit has products of its own; ``"single"``, frames of one unit.

Private to the package: `Frame`, `Piece`, `Shapes`, `Summed`, `fixed_shape`, `most_units`, `LAYOUTS`.

>>> shapes = Shapes(rows_per_unit=6, most_units=80, max_length=64, kind="cpu")
>>> [(p.start, p.stop, p.length, p.units) for p in shapes.cut(np.array([20, 19, 18, 17, 9]))]
[(0, 4, 24, 10), (4, 5, 16, 16)]
>>> [(p.start, p.stop) for p in shapes.cut(np.full(12, 20))]  # the tenth fills up
[(0, 9), (9, 12)]
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["LAYOUTS", "Frame", "Piece", "Shapes", "Summed", "fixed_shape", "most_units"]

LAYOUTS = ("rows", "apart", "single")

_TOKENS = frozenset({"input_ids", "attention_mask", "hidden"})  # (rows, tokens, ...)
# Tokens (or feature rows) of a frame: what fits the caches of a CPU, and the memory of a GPU.
_BUDGET = {"cpu": 1536, "cuda": 65536}


@dataclass(frozen=True)
class Piece:
    """Consecutive units of a batch and the frame they go into.

    Attributes:
        start: The first unit.
        stop: The unit after the last.
        length: Tokens of the frame's rows; 1 for rows without tokens.
        units: Units of the frame, padding included.
        apart: Whether every unit has matrix products of its own.
    """

    start: int
    stop: int
    length: int
    units: int
    apart: bool = False


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """Which frames a run has: decided by public settings alone.

    Attributes:
        rows_per_unit: Rows of the forward that belong to one unit.
        most_units: Units that most batches do not exceed.
        max_length: Tokens that a text is cut to; None for rows without tokens.
        kind: ``"cpu"`` or ``"cuda"``.
        units: Units of every frame, if they are given; one of them is padding, unless it is alone.
        layouts: Layout of the frames of a length; ``"rows"`` unless given.
    """

    rows_per_unit: int
    most_units: int
    max_length: int | None
    kind: str
    units: int | None = None
    layouts: Mapping[int, str] = field(default_factory=dict)

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
            found.append(Piece(start, stop, length, units, self._is_apart(length)))
            start = stop
        return found

    def lengths(self) -> list[int]:
        """Every length that a frame can have, shortest first."""
        return sorted({self.length_of(longest) for longest in range(1, (self.max_length or 1) + 1)})

    def whole(self, length: int) -> Piece:
        """The frame of a length with as many units as it holds, padding left aside."""
        units = self.units_of(length)
        return Piece(0, max(1, units - 1), length, units, self._is_apart(length))

    def laid_out(self, length: int, layout: str) -> "Shapes":
        """The same shapes, but for the layout of the frames of a length."""
        return replace(self, layouts={**self.layouts, length: layout})

    def _is_apart(self, length: int) -> bool:
        return self.layouts.get(length) == "apart"

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
        if self.layouts.get(length) == "single":
            return 1
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
    """What one chunk gives. Sensitive: never release this before noise has been added.

    Attributes:
        total: Sum of clipped gradients, all parameters one after the other, (parameters,) float64;
            in steps of the frame's grid, if it has one.
        norms: Of each unit's gradient, (units,).
        losses: Of each unit, (units,).
        factors: What each unit was multiplied by, (units,).
        witness: See `reldp.gradients.ClippedSum`.
    """

    total: Tensor
    norms: Tensor
    losses: Tensor
    factors: Tensor
    witness: Tensor | None = None

    def first(self, units: int) -> "Summed":
        """Copies, without the padding units."""
        return Summed(
            self.total.clone(),
            self.norms[:units].clone(),
            self.losses[:units].clone(),
            self.factors[:units].clone(),
            None if self.witness is None else self.witness[:units].clone(),
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
        endpoints: See `reldp.clipping.ClipUnits`, (units, negatives) int64.
        mask: Likewise, (units, negatives) bool.
        weights: 1 for a unit of the chunk, 0 for padding, (units,).
        thresholds: Largest norm that each unit may keep, (units,) float64.
        grid: The step of the grid that contributions are put on, a float64 tensor without
            dimensions; None for plain sums.
        apart: Whether every unit has matrix products of its own.
        witness: Whether to give witnesses of the units' bits (`reldp.training.locality`).
        pad_id: What stands after the tokens of a row: the same however long other rows are, since
            models with convolutions or hashing look at it.
    """

    rows: Mapping[str, Tensor]
    endpoints: Tensor
    mask: Tensor
    weights: Tensor
    thresholds: Tensor
    grid: Tensor | None
    apart: bool = False
    witness: bool = False
    pad_id: int = 0

    @classmethod
    def like(
        cls,
        rows: Mapping[str, Tensor],
        endpoints: Tensor,
        piece: Piece,
        *,
        has_grid: bool,
        witness: bool = False,
        pad_id: int = 0,
    ) -> "Frame":
        """Empty buffers for chunks of such rows.

        Args:
            rows: Rows of some units.
            endpoints: Of the same units.
            piece: The frame's shape and layout.
            has_grid: Whether contributions are put on a grid.
            witness: Whether to give witnesses.
            pad_id: The token that fills short rows.
        """
        units, length = piece.units, piece.length
        count, negatives = endpoints.shape
        device = next(iter(rows.values())).device
        buffers = {}
        for name, value in rows.items():
            tokens = (length,) if name in _TOKENS else ()
            rest = (*tokens, *fixed_shape(name, value))
            buffers[name] = value.new_zeros((value.shape[0] // count * units, *rest))
        return cls(
            rows=buffers,
            endpoints=torch.zeros((units, negatives), dtype=torch.int64, device=device),
            mask=torch.zeros((units, negatives), dtype=torch.bool, device=device),
            weights=torch.zeros(units, device=device),
            thresholds=torch.ones(units, dtype=torch.float64, device=device),
            grid=torch.ones((), dtype=torch.float64, device=device) if has_grid else None,
            apart=piece.apart,
            witness=witness,
            pad_id=pad_id,
        )

    def fill(
        self,
        rows: Mapping[str, Tensor],
        endpoints: Tensor,
        mask: Tensor,
        thresholds: Tensor,
        *,
        grid: float | None,
        weights: Tensor | None = None,
    ) -> None:
        """Takes a chunk in; its first unit stands, as padding, wherever there is room left.

        Args:
            rows: Rows of the chunk's units.
            endpoints: See `reldp.clipping.ClipUnits`.
            mask: Likewise.
            thresholds: Largest norm of each of these units.
            grid: The grid's step; given just when the frame has a grid.
            weights: Of these units; 1 unless given.
        """
        units, size = endpoints.shape[0], self.weights.shape[0]
        if self.grid is not None and grid is not None:
            self.grid.fill_(grid)
        for name, value in rows.items():
            buffer = self.rows[name]
            own = value.shape[0] // units  # rows per unit
            if name in _TOKENS:
                buffer.fill_(self.pad_id if name == "input_ids" else 0)
                buffer = buffer[:, : value.shape[1]]
            buffer[: value.shape[0]].copy_(value)
            if size > units:
                places = buffer[value.shape[0] :].view(size - units, own, *buffer.shape[1:])
                places.copy_(value[:own].expand(places.shape))
                if name == "attention_mask" and self.rows[name].shape[1] > 1:
                    self.rows[name][value.shape[0] :, -1] = 0
        for buffer, value in ((self.endpoints, endpoints), (self.mask, mask)):
            buffer[:units].copy_(value)
            buffer[units:].copy_(value[:1].expand(size - units, -1))
        self.weights.zero_()
        self.weights[:units].copy_(torch.ones_like(thresholds) if weights is None else weights)
        self.thresholds[:units].copy_(thresholds)
        self.thresholds[units:].copy_(thresholds[:1].expand(size - units))
