"""Loading an encoder from a run folder, from a saved encoder, or from any text model; and the typed loss of a run.

Public inside the package: `load_trained`, `load_trained_loss`.

>>> load_trained("no/such/folder")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must be a model's folder, got 'no/such/folder', which does not exist.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.errors import ConfigError
from reldp.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.losses import TypedLoss

__all__ = ["load_base", "load_trained", "load_trained_loss"]


def load_trained(source: str | Path, **settings: Any) -> "Encoder":
    """Return the encoder of a run folder, a saved encoder, or a text model as it is.

    Args:
        source: A run folder, a model's folder, or a hub name.
        **settings: Of `TextEncoder.load`, such as another pooling; for text models only.
    """
    from reldp.encoders import FeatureEncoder, TextEncoder
    from reldp.encoders.folders import read_json

    run = RunFolder(source)
    if run.has_run:
        run.refuse_links()
    if run.has_run and not run.model.is_dir():
        raise ConfigError(
            f"The run in {run.path.name!r} must be complete, got one without a model. "
            "Run reldp train again to finish it."
        )
    place = run.model if run.has_run else Path(source)
    described = place / "encoder.json"
    kind = read_json(described, "source") if described.is_file() else {}
    if not isinstance(kind, dict):
        raise ConfigError("The model's encoder.json must hold one JSON object, got something else.")
    if kind.get("kind") == "features":
        if settings:
            raise ConfigError(f"`{min(settings)}` must be left out for an encoder of features.")
        return FeatureEncoder.load(place)
    if kind.get("kind", "text") != "text":
        code = kind.get("module", kind["kind"])
        raise ConfigError(
            f"`source` must be an encoder of texts or features here, got {place.name!r} with the module {code}, "
            "whose code is not saved. In Python: reldp.ModuleEncoder.load(folder, module, inputs)."
        )
    return TextEncoder.load(place if place.exists() else str(source), train="none", **settings)


def load_base(source: str | Path, model: str | None = None, **settings: Any) -> "Encoder":
    """Return the text model that a run started from, as it was before training.

    Args:
        source: A run folder.
        model: Folder or hub name of the model; the name in the ledger if None.
        **settings: Of `TextEncoder.load`, such as another pooling.

    Raises:
        ConfigError: There is no run, or it did not start from a text model.
    """
    from reldp.encoders import TextEncoder
    from reldp.runs.start_entry import as_ledger_error, read_start

    run = RunFolder(source)
    description = read_start(run.ledger)["encoder"] if run.has_run else {}
    if description.get("kind") != "text":
        raise ConfigError(
            f"`before` must be used with a run that started from a text model, got {run.path.name!r}. Leave it out."
        )
    with as_ledger_error("encoder"):
        names = ("pooling", "normalize", "max_length", "dtype")
        recorded = {name: description[name] for name in names}
        name = model or description["base_model"]
        return TextEncoder.load(name, train="none", **recorded | settings)


def load_trained_loss(source: str | Path) -> "TypedLoss | None":
    """Return the typed loss of a run folder or of a model's folder; None without one."""
    from reldp.losses.saved import LOSS_SETTINGS, load

    run = RunFolder(source)
    place = run.model if run.has_run else Path(source)
    return load(place) if (place / LOSS_SETTINGS).is_file() else None
