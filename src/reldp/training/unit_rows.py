"""Rows of clip units, each a function of its own unit.

What an encoder from outside of the package makes of several entities may depend on all of them:
``rows`` may center features, or cut them to the longest. Public random rows do not pass through it,
so no check would see this. Such an encoder is asked unit by unit; the package's own are asked at once.

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
from reldp.training.frames import fixed_shape

__all__ = ["unit_rows"]


def unit_rows(
    encoder: Encoder, table: Any, entities: npt.NDArray[np.integer[Any]]
) -> dict[str, Tensor]:
    """Inputs of ``encoder.embed``, unit after unit.

    Args:
        encoder: Whose inputs.
        table: What ``encoder.table`` gave.
        entities: Of every unit, (units, rows per unit).

    Raises:
        InputError: Units have rows of different shapes.
    """
    if type(encoder).rows.__module__.startswith("reldp."):
        return encoder.rows(table, entities.reshape(-1))
    found = [encoder.rows(table, unit) for unit in entities]
    return {name: _joined(name, [rows[name] for rows in found], table) for name in found[0]}


def _joined(name: str, parts: list[Tensor], table: Any) -> Tensor:
    """The rows of all units; those of tokens are as long as the longest."""
    shapes = {fixed_shape(name, part) for part in parts}
    if len(shapes) > 1:
        raise InputError(
            f"`rows` must give {name!r} one shape for all entities, got several. Shapes of "
            "microbatches must not depend on what is in them."
        )
    if parts[0].shape[1:] != fixed_shape(name, parts[0]):
        longest, fixed = max(part.shape[1] for part in parts), len(next(iter(shapes)))
        value = getattr(table, "pad_id", 0) if name == "input_ids" else 0
        room = [(0, 0) * fixed + (0, longest - part.shape[1]) for part in parts]
        parts = [
            functional.pad(part, own, value=value) for part, own in zip(parts, room, strict=True)
        ]
    return torch.cat(parts)
