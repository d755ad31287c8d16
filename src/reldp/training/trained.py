"""Loading an encoder from a run folder, from a saved encoder, or from any text model; and the typed loss of a run.

Public inside the package: `load_base`, `load_described`, `load_trained`, `load_trained_loss`.

>>> load_trained("no/such/folder")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must be a model's folder, got 'no/such/folder', which does not exist.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.errors import ConfigError, EncoderError
from reldp.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.losses import TypedLoss

__all__ = ["load_base", "load_described", "load_trained", "load_trained_loss"]

_BASE_HASHES = {"base_weights_sha256": "set of weights", "tokenizer_sha256": "tokenizer"}


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
        ConfigError: There is no run, it did not start from a text model, or it started from another one.
        EncoderError: The model is not found, or cannot be loaded.
    """
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
    return load_described(
        description, model, argument="base_model", train="none", **recorded | settings
    )


def load_described(
    description: Mapping[str, Any], model: str | None, *, argument: str, **settings: Any
) -> "Encoder":
    """Return the text model that a run started from, and no other one.

    The ledger has the name of its folder only, and a folder of that name may hold another model here, such as the
    trained one of a run.

    Args:
        description: What the ledger of the run says about its encoder.
        model: Folder or hub name of the model; the name in the ledger if None.
        argument: The argument that names it, for messages.
        **settings: Of `TextEncoder.load`.

    Raises:
        ConfigError: It is another model.
        EncoderError: It is not found, or cannot be loaded.
    """
    from reldp.encoders import TextEncoder
    from reldp.runs.start_entry import as_ledger_error

    with as_ledger_error("encoder"):
        given = description["base_model"] if model is None else model
        recorded = {name: description[name] for name in _BASE_HASHES}
    try:
        encoder = TextEncoder.load(given, **settings)
    except EncoderError as error:
        raise EncoderError(str(error).replace("`source`", f"`{argument}`")) from error
    loaded = encoder.describe()
    for name, part in _BASE_HASHES.items():
        if loaded[name] != recorded[name]:
            raise ConfigError(
                f"`{argument}` must be the model that the run started from, got {Path(given).name!r} with another "
                f"{part}. Give the folder of that model, or its name on the hub."
            )
    return encoder


def load_trained_loss(source: str | Path) -> "TypedLoss | None":
    """Return the typed loss of a run folder or of a model's folder; None without one."""
    from reldp.losses.saved import LOSS_SETTINGS, load

    run = RunFolder(source)
    place = run.model if run.has_run else Path(source)
    return load(place) if (place / LOSS_SETTINGS).is_file() else None
