"""Rows of clip units, each a function of that unit alone.

The rows that a custom encoder makes of several entities may depend on all of them: its ``rows`` may
center features, or cut them to the longest. Public random rows do not pass through ``rows``, so no
check would see this. A custom encoder is therefore called once per unit; encoders of this package are
called once for all units.

Private to the package: `unit_rows`.

>>> unit_rows.__name__
'unit_rows'
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

__all__ = ["unit_rows"]


def unit_rows(
    encoder: Encoder, table: Any, entities: npt.NDArray[np.integer[Any]]
) -> dict[str, Tensor]:
    """Return the inputs of ``encoder.embed``, unit after unit.

    Args:
        encoder: The encoder.
        table: The result of ``encoder.table``.
        entities: Entity of every row, (units, rows per unit).

    Raises:
        InputError: Units have rows of different shapes.
    """
    if type(encoder).rows.__module__.startswith("reldp."):
        return encoder.rows(table, entities.reshape(-1))
    units = [encoder.rows(table, unit) for unit in entities]
    return {name: _joined(name, [rows[name] for rows in units], table) for name in units[0]}


def _joined(name: str, parts: list[Tensor], table: Any) -> Tensor:
    """Return the rows of all units; rows of tokens are padded to the longest."""
    shapes = {fixed_shape(name, part) for part in parts}
    if len(shapes) > 1:
        raise InputError(
            f"`rows` must give {name!r} one shape for all entities, got several. Shapes of "
            "microbatches must not depend on what is in them."
        )
    if parts[0].shape[1:] != fixed_shape(name, parts[0]):
        longest, fixed = max(part.shape[1] for part in parts), len(next(iter(shapes)))
        value = getattr(table, "pad_id", 0) if name == "input_ids" else 0
        parts = [
            functional.pad(part, (0, 0) * fixed + (0, longest - part.shape[1]), value=value)
            for part in parts
        ]
    return torch.cat(parts)
