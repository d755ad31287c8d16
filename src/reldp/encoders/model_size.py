"""Size of the model that a configuration asks for, against the weights that are stored.

A configuration of a few bytes can ask for any number of weights, and transformers uses memory for all of them
before it compares them with a file. So the model is first made without memory, on torch's meta device.

Private to the package: `refuse_oversized`.

>>> refuse_too_many(10**12, 10**6, "tiny")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have weights of the sizes in its config.json, got 'tiny' with 1,000,000 \
numbers for a model of 1,000,000,000,000. Copy both from the original model.
"""

import os
from typing import Any

import torch

from reldp.errors import EncoderError

__all__ = ["refuse_oversized", "refuse_too_many"]

# Heads that a checkpoint lacks, and small models: transformers names what is missing, in little memory.
_FREE = 2**24


def refuse_oversized(place: str, num_stored: int, options: dict[str, Any]) -> None:
    """Refuse a configuration whose model is far larger than the stored weights, before it is made.

    Args:
        place: The folder of the model.
        num_stored: How many numbers its files hold.
        options: Of the attention implementation.
    """
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(place, trust_remote_code=False)
    with torch.device("meta"):
        model = AutoModel.from_config(config, trust_remote_code=False, **options)
    wanted = sum(value.numel() for value in (*model.parameters(), *model.buffers()))
    refuse_too_many(wanted, num_stored, os.path.basename(place))


def refuse_too_many(num_wanted: int, num_stored: int, name: str) -> None:
    """Refuse a model of more than twice the stored numbers: weights that are shared are stored once."""
    if num_wanted > 2 * num_stored + _FREE:
        raise EncoderError(
            f"`source` must have weights of the sizes in its config.json, got {name!r} with {num_stored:,} numbers "
            f"for a model of {num_wanted:,}. Copy both from the original model."
        )
