"""The modules of a sentence-transformers folder, which modules.json lists: pooling, dense layers and normalization.

What a few bytes of JSON list takes no more memory than the files that are there: the list is short, each folder is
read once, and a layer's width is compared with that of the layer before it ahead of its weights.

Private to the package: `DenseLayer`, `sentence_settings`, `MAX_MODULES`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     _ = (Path(home) / "modules.json").write_text('[{"path": "1_Normalize", "type": "Normalize"}]')
...     sentence_settings(Path(home), 8)["normalize"]
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must list Transformer, one pooling, any Dense and Normalize in modules.json, in \
this order, got Normalize. Copy the file from the original model.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from reldp._validate import cut, is_integer, shown
from reldp.encoders.attention_pooling import read_attention_pooling
from reldp.encoders.folders import read_json
from reldp.encoders.model_files import check_weights_file
from reldp.encoders.soundness import refuse_non_finite
from reldp.encoders.tokenizer_settings import check_entries
from reldp.errors import EncoderError

__all__ = ["MAX_MODULES", "DenseLayer", "sentence_settings"]

MAX_MODULES = 32  # models have 2 to 5
_MAX_BYTES = 2**16  # of modules.json: about 600 in models
_PLACES = {"Transformer": 0, "Pooling": 1, "AttentionPooling": 1, "Dense": 2, "Normalize": 3}
_READ = ("Transformer", "Pooling", "AttentionPooling", "Dense")  # modules whose folders are read

_POOLING_KEYS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_POOLING_NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


@dataclass(frozen=True, kw_only=True)
class DenseLayer:
    """One linear layer after pooling, with the activation that follows it."""

    linear: nn.Linear
    activation: nn.Module = field(default_factory=nn.Identity)


def sentence_settings(folder: Path, dim: int) -> dict[str, Any]:
    """Return pooling, maximum length, dense layers, normalization and trained pooling of a folder with modules.json.

    Args:
        folder: The folder.
        dim: Hidden size of the model.

    Raises:
        EncoderError: A module is unknown, damaged, listed twice or in another order than it is computed in here, or
            does not fit the one before it.
    """
    settings: dict[str, Any] = {"pooling": None, "max_length": None, "normalize": False}
    dense: list[DenseLayer] = []
    modules = _listed(folder)
    _check_kinds([kind for kind, _ in modules])
    for kind, place in modules:
        if kind in _READ and place.is_dir():
            check_entries(place, folder)
        if kind == "Transformer":
            settings["max_length"] = _stated_max_length(place)
        elif kind == "Pooling":
            settings["pooling"] = _stated_pooling(read_json(place / "config.json", "source"))
        elif kind == "AttentionPooling":
            settings |= {"pooling": "mean", "attention": read_attention_pooling(place, dim)}
        elif kind == "Dense":
            width = dense[-1].linear.out_features if dense else dim
            dense.append(_read_dense(place, width))
        else:
            settings["normalize"] = True
    return {**settings, "dense": tuple(dense)}


def _check_kinds(kinds: list[str]) -> None:
    """Refuse unknown modules, and an order in which they compute something else than an encoder does."""
    for kind in kinds:
        if kind not in _PLACES:
            raise EncoderError(
                f"`source` must be made of Transformer, Pooling, Dense and Normalize, got {cut(kind)}."
            )
    places = [_PLACES[kind] for kind in kinds]
    if places != sorted(places) or (places.count(0), places.count(1)) != (1, 1):
        raise EncoderError(
            "`source` must list Transformer, one pooling, any Dense and Normalize in modules.json, in this order, got "
            f"{cut(' then '.join(kinds)) or 'none'}. Copy the file from the original model."
        )


def _listed(folder: Path) -> list[tuple[str, Path]]:
    """Return kind and folder of each module that modules.json lists, no folder twice."""
    entries = read_json(folder / "modules.json", "source", _MAX_BYTES)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise EncoderError("`source` must list its modules in modules.json, got something else.")
    if len(entries) > MAX_MODULES:
        raise EncoderError(
            f"`source` must have at most {MAX_MODULES} modules in modules.json, got {len(entries):,}. "
            "Copy the file from the original model."
        )
    modules = []
    places = set()
    for entry in entries:
        kind, path = str(entry["type"]).rsplit(".", 1)[-1], str(entry["path"])
        if os.path.isabs(path) or os.path.normpath(path).split(os.sep)[0] == os.pardir:
            raise EncoderError(
                f"`source` must have its modules in folders of its own, got {path[:80]!r} in modules.json."
            )
        place = (folder / path).resolve()
        if kind in _READ and place in places:
            raise EncoderError(
                f"`source` must list each folder once in modules.json, got {path[:80]!r} twice. "
                "Give each module a folder of its own."
            )
        if kind in _READ:
            places.add(place)
        modules.append((kind, folder / path))
    return modules


def _stated_max_length(folder: Path) -> int | None:
    """Return the maximum length that the folder states, if it does."""
    path = folder / "sentence_bert_config.json"
    stated = read_json(path, "source").get("max_seq_length") if path.is_file() else None
    return stated if isinstance(stated, int) and stated > 0 else None


def _stated_pooling(config: dict[str, Any]) -> str:
    """Return the name of the pooling that the folder states, in the old format or the new."""
    stated = config.get("pooling_mode")
    if stated is None:
        modes = [word for key, word in _POOLING_KEYS.items() if config.get(key)]
        unknown = [
            key
            for key, value in config.items()
            if key.startswith("pooling_mode_") and value is True and key not in _POOLING_KEYS
        ]
        stated_words = modes + unknown
    else:
        stated_words = [_POOLING_NAMES.get(str(stated), f"unknown:{cut(str(stated))}")]
    if len(stated_words) != 1 or stated_words[0] not in _POOLING_NAMES.values():
        got = cut(", ".join(stated_words)) or "none"
        raise EncoderError(f"`pooling` of the source must be mean, cls or last token, got {got}.")
    return stated_words[0]


def _read_dense(folder: Path, width: int) -> DenseLayer:
    """Return one sentence-transformers Dense module, from safetensors.

    Args:
        folder: Its folder.
        width: Length of the vectors that it gets.
    """
    from safetensors.torch import load_file

    config = read_json(folder / "config.json", "source")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    known = {"Identity": nn.Identity, "ReLU": nn.ReLU, "Tanh": nn.Tanh, "GELU": nn.GELU}
    word = activation.rsplit(".", 1)[-1]
    weights = folder / "model.safetensors"
    if word not in known or config.get("use_residual") or not weights.is_file():
        raise EncoderError(
            f"`source` must have dense layers in safetensors with one of {', '.join(known)} "
            f"and no residual, got {word[:80]} in {folder.name!r}."
        )
    sides = (config["out_features"], config["in_features"])
    if not all(map(is_integer, sides)) or sides[0] < 1 or sides[1] != width:
        raise EncoderError(
            f"`source` must have dense layers that fit the module before them, got {str(sides[1])[:20]} in_features "
            f"and {str(sides[0])[:20]} out_features in {folder.name!r} after vectors of length {width:,}."
        )
    shapes = {
        name.removeprefix("linear."): s
        for name, s in check_weights_file(weights, is_small=True).items()
    }
    if shapes.get("weight") != sides or shapes.get("bias", sides[:1]) != sides[:1]:
        raise EncoderError(
            f"`source` must have dense layers of the size in their config.json, {shown(sides)}, got "
            f"{shown(shapes.get('weight'))} in {folder.name!r}: size mismatch."
        )
    values = {name.removeprefix("linear."): value for name, value in load_file(weights).items()}
    refuse_non_finite(values)
    linear = nn.Linear(width, sides[0], bias="bias" in values)
    linear.load_state_dict(values)
    return DenseLayer(linear=linear, activation=known[word]())
