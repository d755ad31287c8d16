"""Defaults of a text encoder, taken from its pretrained model.

Private to the package: `base_hash`, `checked_max_length`, `checked_pooling`.

>>> checked_max_length.__name__
'checked_max_length'
"""

from typing import Any

from reldp._validate import POOLINGS, check_choice, check_integer
from reldp.encoders.architecture import is_decoder, num_positions
from reldp.encoders.folders import state_hash
from reldp.encoders.loading import Pretrained
from reldp.errors import EncoderError

__all__ = ["base_hash", "checked_max_length", "checked_pooling"]

_DEFAULT_MAX_LENGTH = 128


def base_hash(pretrained: Pretrained) -> str:
    """Return the hash of the weights before training: the model's and the dense layers'."""
    state = dict(pretrained.model.state_dict())
    for index, layer in enumerate(pretrained.dense):
        state |= {f"dense.{index}.{k}": v for k, v in layer.linear.state_dict().items()}
    return state_hash(state)


def checked_pooling(pooling: str | None, pretrained: Pretrained) -> str:
    """Return the given pooling, or the model's, or the usual one for its family."""
    config: Any = pretrained.model.config
    decoder = is_decoder(config.model_type)
    chosen = pooling or pretrained.pooling or ("last" if decoder else "mean")
    check_choice("pooling", chosen, POOLINGS, error=EncoderError)
    if decoder and chosen == "cls":
        raise EncoderError(
            f"`pooling` must be last or mean for {config.model_type}, got 'cls'. "
            "It reads from left to right, so its first token has seen nothing of the text."
        )
    return chosen


def checked_max_length(max_length: int | None, pretrained: Pretrained) -> int:
    """Return the given maximum length, or the model's; more positions than it has are refused."""
    limit = min(int(pretrained.tokenizer.model_max_length), num_positions(pretrained.model))
    if max_length is None:
        return min(pretrained.max_length or _DEFAULT_MAX_LENGTH, limit)
    rule = f"an integer from 1 to {limit} for this model"
    return check_integer("max_length", max_length, low=1, high=limit, rule=rule, error=EncoderError)
