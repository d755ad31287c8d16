"""Rows of clip units, each a function of that unit alone.

The rows that a custom encoder makes of several entities may depend on all of them: its ``rows`` may
center features, or cut them to the longest. Public random rows do not pass through ``rows``, so no
check would see this. A custom encoder is therefore called once per unit; encoders of this package are
called once for all units. So that rows depend on no unit before them, those of a few units are made again in another
order, before the first step and in every step: random numbers, counters and running means differ.

Private to the package: `UnitRows`.

>>> from reldp.encoders import FeatureEncoder
>>> from reldp.encoders.features import FeatureTable
>>> table = FeatureTable(features=np.ones((5, 2), np.float32))
>>> UnitRows(FeatureEncoder(2), table).of(np.array([[0, 1, 2], [3, 4, 0]]))["features"].shape
torch.Size([6, 2])
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from reldp.encoders import Encoder
from reldp.errors import InputError
from reldp.gradients.microbatches import fixed_shape
from reldp.training.bits import bits_of
from reldp.training.encoder_contract import checked_rows

__all__ = ["UnitRows"]

_FEW = 4  # units whose rows are made twice
_Entities = npt.NDArray[np.integer[Any]]


class UnitRows:
    """The rows of clip units.

    Attributes:
        encoder: The encoder.
        table: The result of ``encoder.table``. Sensitive.
        tokens: Lengths of its rows.
    """

    def __init__(self, encoder: Encoder, table: Any) -> None:
        self.encoder, self.table = encoder, table
        self.tokens = encoder.token_rows(table)
        if len(self.tokens.lengths) != len(table):
            raise InputError(
                f"`token_rows` must give the length of every row of the table, got {type(encoder).__name__} "
                "with another number of lengths."
            )

    @property
    def is_known(self) -> bool:
        """Whether the encoder's class is one of this package, whose rows are made independently of each other."""
        is_included = type(self.encoder).rows.__module__.startswith("reldp.")
        return is_included and "rows" not in vars(self.encoder)

    def longest(self, entities: _Entities) -> npt.NDArray[np.integer[Any]]:
        """Return the length of each unit's longest row, (units,), of entities (units, rows per unit)."""
        longest: npt.NDArray[np.integer[Any]] = self.tokens.lengths[entities].max(axis=1, initial=1)
        return longest

    def order(self, entities: _Entities) -> npt.NDArray[np.int64]:
        """Return units in the order of their longest row, longest first.

        Microbatches cut from this order waste the least padding, and the first needs the most memory.
        """
        return np.argsort(-self.longest(entities), kind="stable")

    def of(self, entities: _Entities) -> dict[str, Tensor]:
        """Return the inputs of ``encoder.embed``, unit after unit.

        Args:
            entities: Entity of every row, (units, rows per unit).

        Raises:
            InputError: Units have rows of different shapes.
        """
        if self.is_known:
            return self.encoder.rows(self.table, entities.reshape(-1))
        units = [self._rows(unit) for unit in entities]
        self._refuse_changed(entities, units)
        return {
            name: _joined(name, [rows[name] for rows in units], self.tokens.padding.get(name))
            for name in units[0]
        }

    def _rows(self, unit: npt.NDArray[np.int64]) -> dict[str, Tensor]:
        """Return the rows of one unit's entities, as an encoder must give them."""
        return checked_rows(self.encoder.rows(self.table, unit), len(unit), self.encoder)

    def check(self) -> None:
        """Make rows of the first entities, and refuse ones that are others when they are made again.

        A custom encoder may keep something when it is first asked, such as the table as tensors.
        """
        if not self.is_known and len(self.table):
            self.of(np.arange(min(_FEW, len(self.table)))[:, None])

    def _refuse_changed(self, entities: _Entities, units: list[dict[str, Tensor]]) -> None:
        """Refuse rows of units that are others when they are made again, the last ones first."""
        for unit, before in list(zip(entities, units, strict=True))[: -_FEW - 1 : -1]:
            again = self._rows(unit)
            if set(again) != set(before) or any(
                bits_of([again[name]]) != bits_of([before[name]]) for name in before
            ):
                raise InputError(
                    "`rows` must give an entity the same rows whenever it is asked, got "
                    f"{type(self.encoder).__name__}, whose rows change: they would depend on the rows before "
                    "them. Use no random numbers, counters or running statistics, and leave the table as it is."
                )


def _joined(name: str, parts: list[Tensor], padding: int | None) -> Tensor:
    """Return the rows of all units; rows of tokens are padded to the longest."""
    shapes = {fixed_shape(part, has_tokens=padding is not None) for part in parts}
    if len(shapes) > 1:
        raise InputError(
            f"`rows` must give {name!r} one shape for all entities, got several. Shapes of "
            "microbatches must not depend on what is in them."
        )
    if padding is not None:
        longest, fixed = max(part.shape[1] for part in parts), len(next(iter(shapes)))
        parts = [
            functional.pad(part, (0, 0) * fixed + (0, longest - part.shape[1]), value=padding)
            for part in parts
        ]
    return torch.cat(parts)
