"""Settings of the included losses, with their defaults; readable without torch.

Public inside the package: `LossSettings`; `reldp.losses.make_loss` makes a loss of them.

>>> LossSettings(loss="hinge").temperature
0.05
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reldp._validate import (
    LOSSES,
    PAIRINGS,
    SCORES,
    check,
    check_choice,
    check_integer,
    check_number,
)
from reldp.errors import ConfigError

__all__ = ["LossSettings"]


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """Settings of an included loss.

    Attributes:
        loss: Name of the loss.
        score: ``"cosine"`` or ``"dot"``; of infonce, hinge and logistic.
        temperature: Every score is divided by it; of infonce, hinge and logistic.
        margin: Margin of hinge, triplet and cosine; None takes the default of the loss.
        pairing: Pairs of a tuple that are compared: ``"one"``, ``"both"`` or ``"all"``.
        matryoshka_dims: Embedding sizes over which the loss is summed; None takes the full size only.
    """

    loss: str = "infonce"
    score: str = "cosine"
    temperature: float = 0.05
    margin: float | None = None
    pairing: str = "one"
    matryoshka_dims: Sequence[int] | None = None

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES, error=ConfigError)
        check_choice("score", self.score, SCORES, error=ConfigError)
        check_choice("pairing", self.pairing, PAIRINGS, error=ConfigError)
        check_number("temperature", self.temperature, above=0, error=ConfigError)
        if self.margin is not None:
            check_number("margin", self.margin, above=0, error=ConfigError)
        if self.matryoshka_dims is not None:
            _check_dims(self.matryoshka_dims)


def _check_dims(dims: Sequence[int]) -> None:
    """Refuse anything but a list of different sizes."""
    name = "matryoshka_dims"
    is_list = isinstance(dims, list | tuple) and len(dims) > 0
    check(is_list, name, "a list of sizes", dims, error=ConfigError)
    for dim in dims:
        check_integer(name, dim, low=1, error=ConfigError)
    check(len(set(dims)) == len(dims), name, "different sizes", dims, error=ConfigError)
