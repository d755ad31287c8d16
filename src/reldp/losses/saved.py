"""Files of a trained loss: its weights, and for a typed loss what they mean.

``loss.safetensors`` holds the parameters and buffers of any loss that was trained. ``loss.json``, beside it, holds the
settings of a typed loss and the names of its types, so that `load` can make the loss again.

Public: `load`; inside the package `save`, `typed_part`, `LOSS_WEIGHTS`, `LOSS_SETTINGS`.

>>> load("no/such/folder")
Traceback (most recent call last):
reldp.errors.ConfigError: `folder` must hold a typed loss, loss.json, got 'folder' without one. \
Runs with an untyped loss have none.
"""

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from reldp.errors import ConfigError
from reldp.losses.matryoshka import MatryoshkaLoss
from reldp.losses.named import make_typed_loss
from reldp.losses.typed import TypedLoss

__all__ = ["LOSS_SETTINGS", "LOSS_WEIGHTS", "load", "save", "typed_part"]

LOSS_WEIGHTS = "loss.safetensors"
"""The file of a loss's parameters and buffers, in the folder of the model."""
LOSS_SETTINGS = "loss.json"
"""The file of a typed loss's settings and names of types."""
_MODEL = "model"
_LARGEST = 2**24  # bytes


def typed_part(loss: Any) -> TypedLoss | None:
    """Return a typed loss, or the one inside a Matryoshka loss; None for others."""
    inner = loss.loss if isinstance(loss, MatryoshkaLoss) else loss
    return inner if isinstance(inner, TypedLoss) else None


def save(loss: nn.Module, folder: str | Path) -> None:
    """Write the parameters and buffers of a loss into a folder, and the settings of a typed one."""
    from safetensors.torch import save_file

    values = {n: v.detach().cpu().contiguous() for n, v in loss.state_dict().items()}
    save_file(values, Path(folder) / LOSS_WEIGHTS)
    typed = typed_part(loss)
    if typed is not None:
        settings = {"type_names": list(typed.type_names), **typed.describe()}
        if isinstance(loss, MatryoshkaLoss):
            settings["matryoshka"] = {"dims": list(loss.dims), "weights": list(loss.weights)}
        text = json.dumps(settings, indent=2, ensure_ascii=False)
        (Path(folder) / LOSS_SETTINGS).write_text(text + "\n", encoding="utf-8")


def load(folder: str | Path) -> TypedLoss:
    """Return the typed loss that a run has trained; of a Matryoshka loss, the one inside.

    Args:
        folder: The run folder, or the folder of its model.

    Raises:
        ConfigError: There is no typed loss, or its files do not fit each other.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    place = Path(folder)
    place = place / _MODEL if (place / _MODEL).is_dir() else place
    if not (place / LOSS_SETTINGS).is_file():
        raise ConfigError(
            f"`folder` must hold a typed loss, {LOSS_SETTINGS}, got {place.name!r} without one. Runs with an "
            "untyped loss have none."
        )
    try:
        settings = json.loads(_read(place / LOSS_SETTINGS))
        prefix = "loss." if settings.pop("matryoshka", None) else ""
        num_types, name = settings.pop("num_types"), settings.pop("score")
        weights = place / LOSS_WEIGHTS
        values = load_file(weights) if weights.is_file() else {}  # a named pipe would block
        _check_shape(values[f"{prefix}relations.weight"], settings)
        loss = make_typed_loss(name, **settings)
        loss.load_state_dict({name.removeprefix(prefix): value for name, value in values.items()})
        fits = num_types == loss.num_types
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RuntimeError,
        OSError,
        SafetensorError,
    ):
        fits = False  # messages of torch have many lines
    if not fits:
        raise ConfigError(
            f"`folder` must hold {LOSS_SETTINGS} and {LOSS_WEIGHTS} as a run wrote them, got others in "
            f"{place.name!r}. Take them from the run again."
        )
    return loss.eval()


def _check_shape(stored: Tensor, settings: dict[str, Any]) -> None:
    """Refuse settings of another size than the stored vectors, before memory is used for them."""
    if stored.shape != (len(settings["type_names"]), settings["dim"]):
        raise ValueError


def _read(path: Path) -> str:
    """Return the text of a file of limited size."""
    if path.stat().st_size > _LARGEST:
        raise ValueError
    return path.read_text(encoding="utf-8")
