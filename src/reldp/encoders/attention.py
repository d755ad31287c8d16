"""The attention setting of text encoders: which implementation a transformers model runs.

``None`` leaves the choice to transformers; ``"short"`` selects `reldp.gradients.short_attention`; other names are
passed on to transformers if their code is installed or was registered in this process. transformers would look on a
hub for any other, and a recipe must not choose code to fetch and run. It is a performance setting: results differ by
rounding, epsilon does not. A run records the implementation, and continues in a new branch if it has changed.

Models that need more than scores, a scale and a mask of padding (relative positions, windows,
caps on scores) are refused: the public sentences are embedded with both implementations, and the
embeddings must agree.

Private to the package: `attention_options`, `use_short_attention`.

>>> attention_options("eager"), attention_options("short")
({'attn_implementation': 'eager'}, {})
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from reldp.errors import EncoderError
from reldp.gradients.short_attention import MAX_TOKENS, NAME, register

__all__ = ["attention_options", "use_short_attention"]

# Relative distance of embeddings that rounding explains, by type of the weights.
_TOLERANCE = {"float32": 0.01, "bfloat16": 0.05}


def attention_options(attention: str | None) -> dict[str, str]:
    """Return what ``from_pretrained`` needs; short attention is set after loading."""
    if attention is None or attention == NAME:
        return {}
    known = sorted(name for name in ("eager", *_registered()) if _is_installed(name))
    if attention not in known:
        raise EncoderError(
            f"`attention` must be one of {', '.join(known)} or {NAME}, got {attention[:80]!r}. Others would be "
            "code from a hub, or need a package that is not installed."
        )
    return {"attn_implementation": attention}


def _registered() -> list[str]:
    """Return the names that transformers or the user has registered."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    return [str(name) for name in ALL_ATTENTION_FUNCTIONS.keys()]  # noqa: SIM118  # older ones are no mappings


def _is_installed(name: str) -> bool:
    """Return whether the code of an implementation is here, so that transformers does not look for it on a hub."""
    from transformers import utils

    version = name.removeprefix("flash_attention_")
    if version != name:
        is_available = getattr(utils, f"is_flash_attn_{version}_available", lambda: False)
        return bool(is_available())
    return name.replace("_", "").isalnum()  # paths and repositories are not


def use_short_attention(
    model: nn.Module,
    embeddings: Callable[[], npt.NDArray[np.float32]],
    *,
    max_length: int,
    dtype: str,
) -> None:
    """Switch a loaded model to attention for short texts.

    Args:
        model: A transformers model.
        embeddings: Embeds public texts with the model, whichever its attention.
        max_length: Maximum number of tokens of a text.
        dtype: Type of the frozen weights.

    Raises:
        EncoderError: The model cannot use it, or gives other embeddings with it.
    """
    switched: Any = model
    kind = type(model).__name__
    if max_length > MAX_TOKENS:
        raise EncoderError(
            f"`max_length` must be at most {MAX_TOKENS} for attention='short', got {max_length}. "
            "Lower it, or leave `attention` out."
        )
    if not getattr(model, "_supports_attention_backend", False):
        raise EncoderError(
            "`attention` must be left out for a model with its own attention code, got 'short' for "
            f"{kind}."
        )
    expected = embeddings()
    register()
    switched.set_attn_implementation(NAME)
    distance = float(np.linalg.norm(embeddings() - expected))
    if not distance <= _TOLERANCE[dtype] * float(np.linalg.norm(expected)):
        raise EncoderError(
            f"`attention` 'short' must give {kind}'s own embeddings up to rounding, got others. The "
            "model needs more than a mask of padding; leave `attention` out."
        )
