"""Settings of the included losses, with their defaults; readable without torch.

Public inside the package: `LossSettings`; `reldp.losses.make_loss` makes a loss of them.

>>> LossSettings(loss="hinge").temperature
0.05
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reldp._validate import (
    DISTANCES,
    LOSSES,
    OBJECTIVES,
    SCORES,
    SOFTMAX_PAIRINGS,
    TYPED_LOSSES,
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
        score: ``"cosine"`` or ``"dot"``; of infonce, hinge, logistic and typed losses.
        temperature: Every score is divided by it; of infonce, hinge, logistic and typed losses.
        margin: Margin of hinge, triplet and cosine; None takes the default of the loss.
        pairing: Pairs of a tuple that are compared: ``"one"``, ``"both"`` or ``"all"``; of infonce also
            ``"relations"``.
        matryoshka_dims: Embedding sizes over which the loss is summed; None takes the full size only.
        objective: ``"infonce"``, ``"logistic"`` or ``"hinge"``; of typed losses, None takes infonce.
        distance: ``"l2"`` or ``"l1"``; of transe, None takes l2.
    """

    loss: str = "infonce"
    score: str = "cosine"
    temperature: float = 0.05
    margin: float | None = None
    pairing: str = "one"
    matryoshka_dims: Sequence[int] | None = None
    objective: str | None = None
    distance: str | None = None

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, (*LOSSES, *TYPED_LOSSES), error=ConfigError)
        check_choice("score", self.score, SCORES, error=ConfigError)
        check_choice("pairing", self.pairing, SOFTMAX_PAIRINGS, error=ConfigError)
        if self.pairing == "relations":
            rule = "infonce with pairing relations"
            check(self.loss == "infonce", "loss", rule, self.loss, error=ConfigError)
        check_number("temperature", self.temperature, above=0, error=ConfigError)
        if self.margin is not None:
            check_number("margin", self.margin, above=0, error=ConfigError)
        if self.matryoshka_dims is not None:
            _check_dims(self.matryoshka_dims)
        self._check_typed("objective", self.objective, TYPED_LOSSES, OBJECTIVES)
        self._check_typed("distance", self.distance, ("transe",), DISTANCES)

    def _check_typed(
        self, name: str, value: str | None, losses: Sequence[str], choices: Sequence[str]
    ) -> None:
        """Refuse an unknown choice, and one for a loss that has no such setting."""
        if value is None:
            return
        check_choice(name, value, choices, error=ConfigError)
        if self.loss not in losses:
            raise ConfigError(
                f"`{name}` must be left out for the loss {self.loss}, got {value!r}. "
                f"It is a setting of {', '.join(losses)}."
            )


def _check_dims(dims: Sequence[int]) -> None:
    """Refuse anything but a list of different sizes."""
    name = "matryoshka_dims"
    is_list = isinstance(dims, list | tuple) and len(dims) > 0
    check(is_list, name, "a list of sizes", dims, error=ConfigError)
    for dim in dims:
        check_integer(name, dim, low=1, error=ConfigError)
    check(len(set(dims)) == len(dims), name, "different sizes", dims, error=ConfigError)
