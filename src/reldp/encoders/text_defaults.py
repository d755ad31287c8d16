"""Defaults of a text encoder, taken from its pretrained model.

Private to the package: `base_hash`, `checked_max_length`, `checked_pooling`, `frozen_kind`.

>>> checked_max_length.__name__
'checked_max_length'
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reldp._validate import POOLINGS, check_choice, check_integer
from reldp.encoders.architecture import is_decoder, num_positions
from reldp.encoders.folders import state_hash
from reldp.encoders.loading import Pretrained
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.encoders.text import TextEncoder

__all__ = ["base_hash", "checked_max_length", "checked_pooling", "frozen_kind"]

_DEFAULT_MAX_LENGTH = 128
_NO_LIMIT = 10**9  # tokens


def base_hash(pretrained: Pretrained) -> str:
    """Return the hash of the weights before training: the model's, the dense layers' and those of trained pooling."""
    state = dict(pretrained.model.state_dict())
    for index, layer in enumerate(pretrained.dense):
        state |= {f"dense.{index}.{k}": v for k, v in layer.linear.state_dict().items()}
    if pretrained.attention is not None:
        state |= {f"attention.{k}": v for k, v in pretrained.attention.state_dict().items()}
    return state_hash(state)


def checked_pooling(pooling: str | None, pretrained: Pretrained) -> str:
    """Return the given pooling, or the model's, or the usual one for its family."""
    config: Any = pretrained.model.config
    decoder = is_decoder(config.model_type)
    chosen = pooling or pretrained.pooling or ("last" if decoder else "mean")
    check_choice("pooling", chosen, POOLINGS, error=EncoderError)
    if pretrained.attention is not None and chosen != "mean":
        raise EncoderError(
            f"`pooling` must be left out for a model with attention pooling, got {chosen!r}."
        )
    if decoder and chosen == "cls":
        raise EncoderError(
            f"`pooling` must be last or mean for {config.model_type}, got 'cls'. "
            "It reads from left to right, so its first token has seen nothing of the text."
        )
    return chosen


def checked_max_length(max_length: int | None, pretrained: Pretrained) -> int:
    """Return the given maximum length, or the model's; more positions than it has are refused."""
    stated = min(pretrained.tokenizer.model_max_length, _NO_LIMIT)  # infinity is no integer
    limit = min(int(stated), num_positions(pretrained.model))
    if max_length is None:
        return min(pretrained.max_length or _DEFAULT_MAX_LENGTH, limit)
    # Each text has special tokens; without room for a word, all texts would be equal, or too long.
    low = min(pretrained.tokenizer.num_special_tokens_to_add() + 1, limit)
    rule = f"an integer from {low} to {limit} for this model"
    return check_integer(
        "max_length", max_length, low=low, high=limit, rule=rule, error=EncoderError
    )


def frozen_kind(
    train: str, head_hidden: Sequence[int], head_dim: int | None
) -> "tuple[type[TextEncoder], dict[str, Any]] | None":
    """Return the encoder that trains a part after a frozen model, with its settings; None for other encoders."""
    if train == "head":
        from reldp.encoders.head import HeadEncoder

        return HeadEncoder, {"hidden": head_hidden, "dim": head_dim}
    if head_hidden or head_dim is not None:
        raise EncoderError(f"`train` must be head for a head's settings, got {train!r}.")
    if train == "pooling":
        from reldp.encoders.pooling_encoder import PoolingEncoder

        return PoolingEncoder, {}
    return None
