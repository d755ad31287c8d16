"""What an encoder class of a user's own gives: rows, embeddings and a description, each as its documentation says.

A mistake there would otherwise end deep in a step, in an error of torch that does not name the method.
docs/extending.md lists the methods.

Private to the package: `checked_rows`, `checked_embeddings`, `checked_description`.

>>> import torch
>>> from reldp.encoders import FeatureEncoder
>>> checked_embeddings(torch.ones(3, 2), 3, FeatureEncoder(4, dim=2)).shape
torch.Size([3, 2])
"""

import json
from contextlib import suppress
from typing import Any

from torch import Tensor

from reldp.encoders import Encoder
from reldp.errors import ConfigError, InputError

__all__ = ["checked_description", "checked_embeddings", "checked_rows"]


def checked_rows(rows: Any, count: int, encoder: Encoder) -> dict[str, Tensor]:
    """Return what `rows` gave, if it is a dictionary of tensors with one row per entity.

    Args:
        rows: What it gave.
        count: Number of entities that it was asked for.
        encoder: The encoder.

    Raises:
        InputError: It is something else.
    """
    values = rows.values() if isinstance(rows, dict) else ()
    if values and all(isinstance(v, Tensor) and v.dim() and len(v) == count for v in values):
        return dict(rows)
    raise InputError(
        "`rows` must give a dictionary of tensors with one row per entity, got something else from "
        f"{type(encoder).__name__} for {count} entities."
    )


def checked_embeddings(embeddings: object, count: int, encoder: Encoder) -> Tensor:
    """Return what `embed` gave, if it is one vector of the encoder's length for each row.

    Args:
        embeddings: What it gave.
        count: Number of rows that it was given.
        encoder: The encoder.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(embeddings, Tensor) and embeddings.shape == (count, encoder.dim):
        return embeddings
    shape = f" {tuple(embeddings.shape)}" if isinstance(embeddings, Tensor) else ""
    raise ConfigError(
        f"`embed` must return a tensor of shape (rows, dim), ({count}, {encoder.dim}) here, got "
        f"{type(embeddings).__name__}{shape} from {type(encoder).__name__}."
    )


def checked_description(encoder: Encoder) -> dict[str, Any]:
    """Return what an encoder says of itself, as plain values.

    Raises:
        ConfigError: It says nothing, or what JSON cannot hold.
    """
    given: Any = encoder.describe()
    with suppress(TypeError, ValueError):
        described = json.loads(json.dumps(given, allow_nan=False))
        if isinstance(described, dict):
            return described
    raise ConfigError(
        "`describe` must return a dictionary of plain values, which JSON can hold, got something else from "
        f"{type(encoder).__name__}."
    )
