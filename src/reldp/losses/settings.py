"""Settings of a relation loss, with their defaults; readable without torch.

Public inside the package: `LossSettings`, the base of `reldp.losses.RelationLoss`.

>>> LossSettings(loss="hinge").margin
1.0
"""

from dataclasses import dataclass

from reldp._validate import LOSSES, PAIRINGS, SCORES, check_choice, check_number
from reldp.errors import ConfigError

__all__ = ["LossSettings"]


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """Settings of a relation loss.

    `reldp.losses.RelationLoss` documents them.
    """

    loss: str = "infonce"
    score: str = "cosine"
    temperature: float = 0.05
    margin: float = 1.0
    pairing: str = "one"

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES, error=ConfigError)
        check_choice("score", self.score, SCORES, error=ConfigError)
        check_choice("pairing", self.pairing, PAIRINGS, error=ConfigError)
        check_number("temperature", self.temperature, above=0, error=ConfigError)
        check_number("margin", self.margin, above=0, error=ConfigError)
