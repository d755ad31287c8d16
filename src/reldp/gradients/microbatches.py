"""Microbatches of fixed shape: the one place where a batch is split and padded.

Kernels round differently for other shapes, and in bfloat16 the differences are large. If the
content of a batch decided how microbatches are split and padded, one more unit could change the
gradients of all others, and the sum by more than that unit's threshold (theory.md 2: a unit's
contribution depends on that unit alone). So the shape in which a unit is computed depends only on
public settings and on the length of that unit's longest row, never on other units: that length
decides the length of the microbatch in tokens, which decides its number of units and its layout.
Shapes are sensitive, because texts are; what matters is that they are local. Padding units repeat
the first unit with the weight 0: the engine multiplies clip factors by weights, so that padding
contributes nothing. A microbatch of several units always has a padding unit, whose last token is
masked: models choose other kernels where nothing is masked, and whether anything is masked must not
depend on the batch either.

Layouts, from fast to slow; `reldp.training.locality` selects the first in which a unit's bits depend
on nothing but the unit: ``"rows"``, matrix products over all rows of the microbatch; ``"apart"``, a
separate matrix product per unit; ``"single"``, microbatches of one unit.

Private to the package: `Microbatch`, `MicrobatchShape`, `MicrobatchShapes`, `UnitInputs`, `fixed_shape`,
`typical_units`, `LAYOUTS`.

>>> shapes = MicrobatchShapes(rows_per_unit=6, typical_units=80, max_length=64, device_type="cpu")
>>> for units, shape in shapes.split(np.array([20, 19, 18, 17, 9])):
...     print(units.start, units.stop, shape.length, shape.units)
0 4 24 10
4 5 16 16
>>> [(units.start, units.stop) for units, _ in shapes.split(np.full(12, 20))]  # the tenth is padding
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

__all__ = [
    "LAYOUTS",
    "Microbatch",
    "MicrobatchShape",
    "MicrobatchShapes",
    "UnitInputs",
    "fixed_shape",
    "typical_units",
]

LAYOUTS = ("rows", "apart", "single")

# Tokens (or feature rows) of a microbatch: what fits the caches of a CPU, and the memory of a GPU.
_BUDGET = {"cpu": 1536, "cuda": 65536}
# Where texts may have several lengths, the last microbatch of each is half empty, and every one has a padding
# unit: the best size grows with the root of the batch. A GPU also loses time with small ones.
_SIZE = {"cpu": 1.0, "cuda": 2.0}
_USUAL_LENGTH = 32
# From this width of embeddings on, a GPU is busy with few rows, and every padding unit costs time.
_WIDE = 2048


@dataclass(frozen=True, kw_only=True)
class MicrobatchShape:
    """The shape of a microbatch: follows from public settings and one unit's length, never from other units.

    Attributes:
        units: Number of units, padding included.
        length: Tokens of a row; 1 for rows without tokens.
        apart: Whether each unit has separate matrix products.
    """

    units: int
    length: int
    apart: bool = False

    @property
    def capacity(self) -> int:
        """Largest number of units that are not padding: all but one, unless there is only one."""
        return max(1, self.units - 1)


@dataclass(frozen=True, kw_only=True)
class MicrobatchShapes:
    """The shapes of a run's microbatches, one for each length: decided by public settings alone.

    Attributes:
        rows_per_unit: Rows of the forward pass that belong to one unit.
        typical_units: Number of units that few batches exceed, which limits the size of a microbatch.
        max_length: Tokens to which a text is cut; None for rows without tokens.
        device_type: ``"cpu"`` or ``"cuda"``.
        width: Length of the encoder's embeddings, as a sign of its size.
        units: Units of every microbatch; None chooses them by length. One of several is padding.
        layouts: Layout by length; ``"rows"`` unless given.
    """

    rows_per_unit: int
    typical_units: int
    max_length: int | None
    device_type: str
    width: int = 0
    units: int | None = None
    layouts: Mapping[int, str] = field(default_factory=dict)

    def split(self, longest: npt.NDArray[np.integer[Any]]) -> list[tuple[slice, MicrobatchShape]]:
        """Split a batch into microbatches.

        Args:
            longest: Length of each unit's longest row, (units,), in descending order.

        Returns:
            The consecutive units of each microbatch, and its shape.
        """
        microbatches = []
        lengths = [self.length_of(int(length)) for length in longest]
        start = 0
        while start < len(lengths):
            shape = self.shape_of(lengths[start])
            stop = start + 1
            while (
                stop < len(lengths)
                and stop - start < shape.capacity
                and lengths[stop] == shape.length
            ):
                stop += 1
            microbatches.append((slice(start, stop), shape))
            start = stop
        return microbatches

    def lengths(self) -> list[int]:
        """Return every length that a microbatch can have, shortest first."""
        return sorted({self.length_of(longest) for longest in range(1, (self.max_length or 1) + 1)})

    def shape_of(self, length: int) -> MicrobatchShape:
        """Return the shape of microbatches of a length."""
        apart = self.layouts.get(length) == "apart"
        return MicrobatchShape(units=self.units_of(length), length=length, apart=apart)

    def with_layout(self, length: int, layout: str) -> "MicrobatchShapes":
        """Return these shapes with another layout of the microbatches of a length."""
        return replace(self, layouts={**self.layouts, length: layout})

    def length_of(self, longest: int) -> int:
        """Return the length of the microbatch for a unit whose longest row has so many tokens."""
        if self.max_length is None:
            return 1
        if self.device_type == "cuda":
            length = 1 << max(longest - 1, 31).bit_length()
        else:
            step = 8 if longest <= 64 else 32
            length = -(-longest // step) * step
        return max(longest, min(length, self.max_length))

    def units_of(self, length: int) -> int:
        """Return the number of units of a microbatch of that length."""
        if self.layouts.get(length) == "single":
            return 1
        if self.units is not None:
            return self.units
        room = _BUDGET[self.device_type] // (length * self.rows_per_unit)
        max_units = self.typical_units
        is_wide = self.device_type == "cuda" and self.width >= _WIDE
        if self.max_length and (is_wide or self.length_of(1) < self.length_of(self.max_length)):
            size = 0.75 if is_wide else _SIZE[self.device_type]
            root = size * math.sqrt(2 * self.typical_units)
            max_units = min(max_units, math.ceil(root * _USUAL_LENGTH / length))
        return max(3, min(max_units + 1, room))


def fixed_shape(value: Tensor, *, has_tokens: bool) -> tuple[int, ...]:
    """Return the dimensions of an input that every microbatch has: all but rows and tokens."""
    return tuple(value.shape[2 if has_tokens else 1 :])


def typical_units(expected_batch_size: float, units_per_tuple: int) -> int:
    """Return a multiple of 8 that the number of units of a batch exceeds once in forty times."""
    tuples = expected_batch_size + 2 * math.sqrt(expected_batch_size)
    return 8 * math.ceil(tuples * units_per_tuple / 8)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitInputs:
    """Inputs of some units, before padding. Sensitive.

    Attributes:
        rows: Inputs of the encoder by name, first dimension units times rows per unit.
        endpoints: Endpoint (0 or 1) of the positive that each negative is paired with, (units, negatives) int64.
        mask: See `reldp.clipping.ClipUnits`, (units, negatives) bool.
        thresholds: Largest norm that each unit may keep, (units,) float64.
        grid: Spacing of the grid on which contributions are put; None for plain sums.
        weights: Weight of each unit, (units,); 1 unless given.
        types: See `reldp.clipping.ClipUnits`, (units,) int64; None where relations have no types.
    """

    rows: Mapping[str, Tensor]
    endpoints: Tensor
    mask: Tensor
    thresholds: Tensor
    grid: float | None
    weights: Tensor | None = None
    types: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Microbatch:
    """Buffers of fixed shape for the inputs of some units. Sensitive.

    Attributes:
        rows: See `UnitInputs`, with padding; so are `endpoints`, `mask`, `thresholds` and `types`.
        weights: 1 for a unit of the batch, 0 for padding, (units,).
        grid: Spacing of the grid, a float64 tensor without dimensions; None for plain sums.
        apart: Whether each unit has separate matrix products.
        witness: Whether to compute a number per unit that shows whether its bits changed
            (`reldp.gradients.witness`).
        padding: Value after the tokens of a short row, for each input that has tokens, (rows, tokens, ...). It
            does not depend on the batch, since models with convolutions or hashing look at it.
        token_mask: The input that is 1 for a token and 0 for padding; None if there is none.
    """

    rows: Mapping[str, Tensor]
    endpoints: Tensor
    mask: Tensor
    weights: Tensor
    thresholds: Tensor
    grid: Tensor | None
    apart: bool = False
    witness: bool = False
    padding: Mapping[str, int] = field(default_factory=dict)
    token_mask: str | None = None
    types: Tensor | None = None

    @property
    def rows_per_unit(self) -> int:
        """Number of consecutive rows that belong to one unit."""
        return next(iter(self.rows.values())).shape[0] // len(self.weights)

    @classmethod
    def like(
        cls,
        inputs: UnitInputs,
        shape: MicrobatchShape,
        *,
        witness: bool = False,
        padding: Mapping[str, int] | None = None,
        token_mask: str | None = None,
    ) -> "Microbatch":
        """Allocate empty buffers for units with such inputs.

        Args:
            inputs: Inputs of some units, of which only shapes and types are used.
            shape: Shape of the microbatch.
            witness: Whether to give witnesses.
            padding: Value that fills short rows, for each input with tokens.
            token_mask: The input that marks tokens.
        """
        padding = {} if padding is None else padding
        units, length = shape.units, shape.length
        count, negatives = inputs.endpoints.shape
        device = next(iter(inputs.rows.values())).device
        buffers = {}
        for name, value in inputs.rows.items():
            tokens = (length,) if name in padding else ()
            rest = (*tokens, *fixed_shape(value, has_tokens=name in padding))
            buffers[name] = value.new_zeros((value.shape[0] // count * units, *rest))
        return cls(
            rows=buffers,
            endpoints=torch.zeros((units, negatives), dtype=torch.int64, device=device),
            mask=torch.zeros((units, negatives), dtype=torch.bool, device=device),
            weights=torch.zeros(units, device=device),
            thresholds=torch.ones(units, dtype=torch.float64, device=device),
            grid=None
            if inputs.grid is None
            else torch.ones((), dtype=torch.float64, device=device),
            apart=shape.apart,
            witness=witness,
            padding=padding,
            token_mask=token_mask,
            types=None if inputs.types is None else inputs.types.new_zeros(units),
        )

    def fill(self, inputs: UnitInputs) -> None:
        """Copy some units into the buffers, and repeat the first of them as padding."""
        units, size = inputs.endpoints.shape[0], self.weights.shape[0]
        thresholds, weights = inputs.thresholds, inputs.weights
        if self.grid is not None and inputs.grid is not None:
            self.grid.fill_(inputs.grid)
        for name, value in inputs.rows.items():
            buffer = self.rows[name]
            rows_per_unit = value.shape[0] // units
            if name in self.padding:
                buffer.fill_(self.padding[name])
                buffer = buffer[:, : value.shape[1]]
            buffer[: value.shape[0]].copy_(value)
            if size > units:
                places = buffer[value.shape[0] :].view(
                    size - units, rows_per_unit, *buffer.shape[1:]
                )
                places.copy_(value[:rows_per_unit].expand(places.shape))
                if name == self.token_mask and self.rows[name].shape[1] > 1:
                    self.rows[name][value.shape[0] :, -1] = 0
        for buffer, value in ((self.endpoints, inputs.endpoints), (self.mask, inputs.mask)):
            buffer[:units].copy_(value)
            buffer[units:].copy_(value[:1].expand(size - units, -1))
        if self.types is not None and inputs.types is not None:
            self.types[:units].copy_(inputs.types)
            self.types[units:].copy_(inputs.types[:1].expand(size - units))
        self.weights.zero_()
        self.weights[:units].copy_(torch.ones_like(thresholds) if weights is None else weights)
        self.thresholds[:units].copy_(thresholds)
        self.thresholds[units:].copy_(thresholds[:1].expand(size - units))
