"""Settings of a recipe that the run would not use: they are refused, so that a mistake costs no epsilon.

Inside the package: `refuse_unused_encoder`, `refuse_unused_learning`.

>>> refuse_unused_learning({"loss": "infonce", "margin": 3.0, "objective": None})
Traceback (most recent call last):
reldp.errors.ConfigError: `margin` must be left out for the loss infonce, got 3.0. It is a setting of hinge, triplet, \
cosine and the hinge objective.
"""

from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from reldp.errors import ConfigError
from reldp.training.recipe_settings import SECTIONS

__all__ = ["refuse_unused_encoder", "refuse_unused_learning"]

_OF_FEATURES = ("hidden", "dim", "activation", "normalize", "seed")
_OF_HEAD = ("hidden", "dim")
_OF_ADAPTERS = ("lora_rank", "lora_alpha", "lora_targets", "lora_layers")
_WITH_MARGIN = ("hinge", "triplet", "cosine")


def refuse_unused_encoder(
    settings: Mapping[str, Any], given: Collection[str] = (), *, of_features: bool
) -> None:
    """Refuse settings of [encoder] that its encoder does not have, unless a file has their default.

    Args:
        settings: The settings by name.
        given: Names of those that were given outside of a file: they are refused whatever their value is.
        of_features: Whether an encoder of the graph's features is trained, and no text model.

    Raises:
        ConfigError: There is one, or nothing would be trained.
    """
    defaults = {name: setting.default for name, setting in SECTIONS["encoder"].items()}
    changed = [n for n, default in defaults.items() if n in given or settings[n] != default]
    train = settings["train"]
    if not of_features and train == "none":
        raise ConfigError(
            "`train` must name weights to train, got 'none'. Use lora, full, last:N, head or pooling."
        )
    for name in changed:
        if of_features:
            if name not in _OF_FEATURES:
                _refuse(
                    name, settings, "for a graph with features, whose encoder has no such setting"
                )
        elif name == "activation" or (name in _OF_HEAD and train != "head"):
            where = (
                "an encoder of features" if name == "activation" else "train = head, or of features"
            )
            _refuse(name, settings, f"with train = {train}", f"It is a setting of {where}.")
        elif name in _OF_ADAPTERS and train != "lora":
            _refuse(name, settings, f"with train = {train}", "It is a setting of train = lora.")


def refuse_unused_learning(settings: Mapping[str, Any]) -> None:
    """Refuse a margin for a loss without one.

    Raises:
        ConfigError: There is one.
    """
    loss = settings["loss"]
    if settings["margin"] is None or loss in _WITH_MARGIN or settings["objective"] == "hinge":
        return
    of = f"{', '.join(_WITH_MARGIN)} and the hinge objective"
    _refuse("margin", settings, f"for the loss {loss}", f"It is a setting of {of}.")


def _refuse(name: str, settings: Mapping[str, Any], where: str, fix: str = "") -> NoReturn:
    fix = f" {fix}" if fix else ""
    raise ConfigError(f"`{name}` must be left out {where}, got {settings[name]!r}.{fix}")
