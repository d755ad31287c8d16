"""Settings of a tokenizer that would make a library read other files than the model's own.

transformers passes settings of tokenizer_config.json and special_tokens_map.json on to the class of the tokenizer. Some
classes open what they are given as `vocab`, `merges` or `vocab_file`, wherever it lies, and later save its content with
the model: a model folder could copy any text file of this machine into a published model. So settings that name a
vocabulary are refused, and so is every other one whose text is the path of something on this machine. For the same
reason links that lead out of the folder are refused, but for weights, and for those of a hub's cache into its blobs.

Private to the package: `check_entries`, `check_tokenizer_settings`.

>>> refuse_paths({"model_max_length": 512, "vocab": "/etc/hostname"}, "tokenizer_config.json")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have files of the usual names, got vocab in tokenizer_config.json. Rename the \
files and remove the entry.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reldp.encoders.folders import check_size, read_json
from reldp.errors import EncoderError

__all__ = ["check_entries", "check_tokenizer_settings", "refuse_paths"]

_FILES = ("tokenizer_config.json", "special_tokens_map.json")
_MAX_FILE = 2**26  # bytes
_MAX_ENTRIES = 100_000  # of a folder, with those of the folders in it
_READ_WHOLE = (".json", ".txt", ".model", ".jinja", ".spm", ".vocab", ".bpe", ".tiktoken")
_WEIGHTS = (".safetensors", ".gguf")  # their formats hold no text of other files
_VOCABULARIES = frozenset(
    {"vocab", "merges", "tokenizer_object", "init_inputs", "fast_tokenizer_files", "gguf_file"}
)
_NEVER_OPENED = frozenset({  # what they name is where the model came from, or no path
    "name_or_path", "special_tokens_map_file", "tokenizer_class", "processor_class", "chat_template", "padding_side",
    "truncation_side", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens",
    "model_specific_special_tokens", "model_input_names", "never_split", "backend",
})  # fmt: skip


def check_tokenizer_settings(folder: Path) -> None:
    """Refuse a folder whose tokenizer would read other files than those in it.

    Args:
        folder: The folder of the model.
    """
    check_entries(folder, folder)
    for name in _FILES:
        if os.path.lexists(folder / name):
            refuse_paths(read_json(folder / name, "source", _MAX_FILE, is_strict=False), name)


def check_entries(place: Path, folder: Path) -> None:
    """Refuse a folder of a model, at any depth, that holds links out of the model, no files, or far too large ones.

    Args:
        place: The folder; what is in it and in the folders in it is looked at.
        folder: The folder of the whole model.
    """
    _refuse_far_link(place, folder)
    for number, path in enumerate(_entries(place)):
        if number == _MAX_ENTRIES:
            raise EncoderError(
                f"`source` must hold at most {_MAX_ENTRIES:,} files and folders, got more in {place.name!r}. Give the "
                "model a folder of its own."
            )
        if path.is_symlink() and (path.suffix not in _WEIGHTS or path.is_dir()):
            _refuse_far_link(path, folder)
        # A pipe would block, a device never end.
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise EncoderError(f"`source` must hold files, got a {path.name} that is none.")
        if path.suffix in _READ_WHOLE and path.is_file():
            check_size(path, "source", _MAX_FILE)


def _entries(folder: Path) -> Iterator[Path]:
    """Yield what is in the folder and in the folders in it, such as that of chat templates."""
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from path.iterdir()


def _refuse_far_link(path: Path, folder: Path) -> None:
    target, home = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    blobs = [place.parent / "blobs" for place in home.parents if place.name == "snapshots"]
    near = [home] if target.is_dir() else [home, *blobs]  # a cache has files there, and no folders
    if not any(target.is_relative_to(place) for place in near):
        raise EncoderError(
            f"`source` must hold its files, got {path.name}, a link to a place outside of the folder. Copy the file "
            "there if it belongs to the model."
        )


def refuse_paths(settings: Any, name: str) -> None:
    """Refuse settings of a tokenizer that name a vocabulary, or anything that is on this machine.

    Args:
        settings: What the file holds.
        name: The file.
    """
    for key, value in settings.items() if isinstance(settings, dict) else ():
        named = key in _VOCABULARIES and value not in (None, [], {})
        if named or (not _is_no_path(key) and any(map(_is_there, _texts(value)))):
            raise EncoderError(
                f"`source` must have files of the usual names, got {key[:80]} in {name}. Rename the files and remove "
                "the entry."
            )


def _is_no_path(key: str) -> bool:
    return key in _NEVER_OPENED or key.endswith("_token")


def _is_there(text: str) -> bool:
    """Return whether a text is the path of anything, also of a link that leads nowhere."""
    try:
        return bool(text) and os.path.lexists(text)
    except ValueError:  # a null character
        return False


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
