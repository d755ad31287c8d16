"""Rows of one input of a module, and the base of all kinds of inputs (`reldp.encoders.inputs`).

Public inside the package: `Input`, `Rows`.

>>> Rows(np.array([[1.0], [2.0]]), np.array([1, 0, 1])).take([0, 1]).tolist()
[[2.0], [1.0]]
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reldp._validate import check_integer, is_integer, shown
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import EntityGraph

__all__ = ["Input", "Rows"]

_Indices = npt.NDArray[np.int64]
_AT_ONCE = 4096  # rows that are checked at a time


@dataclass(frozen=True, eq=False)
class Rows:
    """One input of many entities: the row of entity i is ``values[places[i]]``. Sensitive.

    Attributes:
        values: Rows, (any number, *shape): float32, uint8, int32 or int64.
        places: (entities,) int64.
    """

    values: npt.NDArray[Any] = field(repr=False)
    places: _Indices = field(repr=False)

    def take(self, indices: Any) -> npt.NDArray[Any]:
        """Return a copy of the rows of some entities."""
        rows: npt.NDArray[Any] = self.values[self.places[indices]]
        return rows

    def join(self, other: "Rows") -> "Rows":
        """Return these rows, then those of other entities."""
        if self.values is other.values:
            return Rows(self.values, np.concatenate([self.places, other.places]))
        places = np.concatenate([self.places, other.places + len(self.values)])
        return Rows(np.concatenate([self.values, other.values]), places)


class Input(ABC):
    """What one argument of a module gets for each entity.

    Attributes:
        shape: Dimensions of one row.
        num_values: Integers lie in 0..num_values - 1; None for an input of floating-point numbers.
    """

    shape: tuple[int, ...]
    num_values: int | None
    _is_byte = (
        False  # whether values are whole numbers below 256 that become floating-point numbers
    )

    def _state(self, shape: Any, num_values: int | None) -> None:
        """Check and set what every input states."""
        sizes = (shape,) if is_integer(shape) else shape
        if not isinstance(sizes, Sequence) or not all(is_integer(s) and s > 0 for s in sizes):
            raise EncoderError(f"`shape` must be positive whole numbers, got {shown(shape)}.")
        if num_values is not None:
            check_integer("num_values", num_values, low=1, error=EncoderError)
        self.shape, self.num_values = tuple(int(size) for size in sizes), num_values

    @abstractmethod
    def rows(self, entities: "EntityGraph", indices: _Indices) -> Rows:
        """Return the rows of some entities, checked.

        Raises:
            EncoderError: The graph has no such rows.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the input's settings, which are public, as plain JSON values."""

    def tensor(self, values: npt.NDArray[Any]) -> Tensor:
        """Return rows as the module gets them: int64 with `num_values`, float32 without."""
        made = torch.from_numpy(np.ascontiguousarray(values))
        return made.float() if self.num_values is None else made.long()

    def random(self, count: int, generator: torch.Generator) -> Tensor:
        """Return public random rows, (count, *shape), on the CPU."""
        size = (count, *self.shape)
        if self.num_values is not None:
            return torch.randint(self.num_values, size, generator=generator)
        if self._is_byte:
            return torch.randint(256, size, generator=generator).float()
        return torch.randn(size, generator=generator)

    def _described(self, kind: str, **settings: Any) -> dict[str, Any]:
        stated = {"shape": list(self.shape), "num_values": self.num_values}
        return {"kind": kind, **settings, **stated}

    def _checked(self, values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        """Return values in the type that is stored, if they are whole numbers in range, or finite."""
        if self.num_values is None:
            return _finite(values, name)
        if not np.issubdtype(values.dtype, np.integer) and values.dtype != np.bool_:
            raise EncoderError(
                f"`num_values` must be left out for {name}, which holds no whole numbers, got "
                f"{self.num_values}."
            )
        stored = values.astype(np.int32 if self.num_values <= 1 << 31 else np.int64, copy=False)
        outside = (values < 0) | (values >= self.num_values)
        if outside.any():
            raise EncoderError(
                f"`num_values` must be above every value of {name}, got {self.num_values} and a value "
                f"outside of 0..{self.num_values - 1} in row {_first_row(outside)}."
            )
        return stored


def _finite(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return numbers as float32, bytes as they are; refuse what is not finite."""
    if values.dtype == np.uint8:
        return values
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        stored = values.astype(np.float32, copy=False)
    for start in range(0, len(stored), _AT_ONCE):
        bad = ~np.isfinite(stored[start : start + _AT_ONCE])
        if bad.any():
            raise EncoderError(
                f"`inputs` must be finite, got NaN or infinity in row {start + _first_row(bad)} of {name}."
            )
    return stored


def _first_row(mask: npt.NDArray[np.bool_]) -> int:
    """Return the first row in which a mask is true anywhere."""
    return int(np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))[0])
