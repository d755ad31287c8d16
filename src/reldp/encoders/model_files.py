"""Checks of the files of a model folder, before any library opens them.

A Git LFS pointer, a file that was cut short and a configuration of the wrong shape are refused in
one line that names the file. What a library raises all the same becomes one line too. Settings that
would make a library read other files than those that are checked here are refused.

Headers of weights are read within limits and must describe the bytes that follow them, so that shapes
can be compared before memory is used for them.

Private to the package: `StoredWeights`, `check_model_files`, `check_counts`, `check_weights_file`,
`check_vocabulary_files`, `refuse_adapters`, `as_encoder_error`, `as_reading_error`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     path = Path(home) / "model.safetensors"
...     _ = path.write_text("version https://git-lfs.github.com/spec/v1")
...     check_weights_file(path)
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must hold whole files, got a Git LFS pointer in model.safetensors. ...
"""

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from reldp._validate import is_integer, shown
from reldp.encoders.folders import read_json
from reldp.encoders.gguf_words import FEWEST_BITS, refuse_long_words
from reldp.encoders.tokenizer_settings import check_tokenizer_settings
from reldp.errors import EncoderError, ReldpError

__all__ = [
    "StoredWeights",
    "as_encoder_error",
    "as_reading_error",
    "check_counts",
    "check_model_files",
    "check_vocabulary_files",
    "check_weights_file",
    "refuse_adapters",
    "refuse_panic",
]

_POINTER = b"version https://git-lfs"
_INDEX = "model.safetensors.index.json"
_OTHER_FILES = {  # settings by which transformers reads files of other names
    "config.json": ("configuration_files", "transformers_weights", "use_pretrained_backbone"),
}
_DISTRIBUTED = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors")
_ATTENTION = ("attn_implementation", "_attn_implementation")
_KNOWN_ATTENTION = (None, "eager", "sdpa", "flex_attention")  # others may fetch code from the hub
_SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
)
_MAX_LAYERS = 2048  # an empty model is built before its weights are looked at, layer by layer
_MAX_LABELS = 2**16  # transformers names each of them
_MAX_LISTED = 2**20  # a number in a list may say how often something is repeated
_COUNTED = re.compile(r"(?:^|_)(?:layers?|experts?|blocks|depth|dense_replace|(labels))(?:_|$)")
# Bytes that describe a tensor of a GGUF file: length of its name, dimensions, type, place.
_SMALLEST_ENTRY = 24
_MAX_TEXT = 2**26  # bytes of a tokenizer's file
_MAX_HEADER = 2**24  # bytes that name and describe the tensors of a model
_MAX_SIDES = 32  # of a tensor
_MAX_SMALL_HEADER = 2**16  # of a file with a few tensors
_MAX_NAME = 255  # bytes of a file name
_LONGEST_REASON = 200


class StoredWeights(NamedTuple):
    """What the files of a model hold: numbers and tensors, at most so many for a GGUF file."""

    numbers: int
    tensors: int


def check_model_files(folder: Path, *, gguf_file: str | None = None) -> StoredWeights:
    """Refuse a model folder whose files are pointers, cut short, or no configuration.

    Args:
        folder: The folder.
        gguf_file: The one file that holds everything, in place of the others.

    Returns:
        What the files of weights hold.
    """
    refuse_adapters(folder)
    check_tokenizer_settings(folder)
    if gguf_file is not None:
        _refuse_pointer(folder / gguf_file)
        refuse_long_words(folder / gguf_file)
        return _gguf_weights(folder / gguf_file)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".txt", ".model") and path.is_file():
            _refuse_pointer(path)
    _check_config(folder / "config.json")
    shapes: dict[str, tuple[int, ...]] = {}
    left = _MAX_HEADER
    for path in _weight_files(folder):
        described, used = _read_header(path, left)
        shapes |= described  # a file under many names (links) holds its tensors once
        left -= used
    return StoredWeights(sum(map(math.prod, shapes.values())), len(shapes))


def refuse_adapters(folder: Path) -> None:
    """Refuse a folder of PEFT's, which holds adapters and no model."""
    if (folder / "adapter_config.json").exists():
        raise EncoderError(
            f"`source` must be a whole model, got adapters for another one in {folder.name!r} (adapter_config.json). "
            "Merge them into their model first, with PEFT's merge_and_unload, and save the result."
        )


def check_weights_file(path: Path, *, is_small: bool = False) -> dict[str, tuple[int, ...]]:
    """Refuse a safetensors file that is a pointer, cut short or no safetensors at all.

    Args:
        path: The file.
        is_small: Whether it holds a few tensors, so that its header is short.

    Returns:
        The shape of each tensor by its name. The file holds as many numbers as the shapes say.
    """
    return _read_header(path, _MAX_SMALL_HEADER if is_small else _MAX_HEADER)[0]


def _read_header(path: Path, limit: int) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return the shapes that the header of a safetensors file states, and its length, up to a limit."""
    _refuse_pointer(path)
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if 8 + length <= size and length > limit:
            raise EncoderError(
                f"`source` must hold safetensors files with headers of at most {_MAX_HEADER:,} bytes together, and of "
                f"{_MAX_SMALL_HEADER:,} bytes where there are a few tensors, got {length:,} in {path.name}."
            )
        header = stream.read(length) if 8 + length <= size else b""
    try:
        shapes, num_bytes = _described(header)
        wanted = 8 + length + num_bytes
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise EncoderError(
            f"`source` must hold whole safetensors files, got {path.name} whose beginning is cut "
            "short or damaged. Copy or download it again."
        ) from None
    if wanted != size:
        raise EncoderError(
            f"`source` must hold whole safetensors files, got {path.name} with {size:,} of "
            f"{wanted:,} bytes. Copy or download it again."
        )
    return shapes, 8 + length


def check_vocabulary_files(folder: Path, tokenizer: Any) -> None:
    """Refuse a tokenizer that was made without its files: it would know no word."""
    names = [str(name) for name in (getattr(tokenizer, "vocab_files_names", None) or {}).values()]
    if names and not any((folder / name).is_file() for name in names):
        raise EncoderError(
            f"`source` must hold the files of its tokenizer, got {folder.name!r} without "
            f"{' or '.join(sorted(set(names)))}. Copy them from the original model."
        )


@contextmanager
def as_encoder_error(place: str | Path) -> Iterator[None]:
    """Turn whatever a library raises for a bad source into one clear line.

    Everything is caught: transformers, tokenizers, safetensors and PEFT raise errors of many kinds
    for a damaged file, some of them bare `Exception`.
    """
    where = str(place)
    name = os.path.basename(where) if os.path.isdir(where) else where
    try:
        yield
    except (ReldpError, MemoryError):
        raise
    except BaseException as error:
        refuse_panic(error)
        if not isinstance(error, Exception):
            raise
        reason = " ".join(str(error).split()).rstrip(".") or "nothing"
        reason = reason.replace(where, name)
        shown = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "..."
        raise EncoderError(
            f"`source` must be a text model that transformers can load, got {name!r}. "
            f"It said: {type(error).__name__}: {shown}."
        ) from error


@contextmanager
def as_reading_error() -> Iterator[None]:
    """Turn what a model raises for a text of the user's into one line, which says nothing about the text.

    A configuration may suit some lengths of texts only, and no check can try all texts. Too little memory is no
    mistake of a model's.
    """
    try:
        yield
    except (ReldpError, MemoryError, OSError):
        raise
    except Exception as error:
        words = str(error).lower()
        if isinstance(error, RuntimeError) and ("out of memory" in words or "allocate" in words):
            raise
        raise EncoderError(
            f"`source` must be a model that can read every text, got {type(error).__name__} for some. Copy config.json "
            "and the tokenizer's files from the original model."
        ) from error


def refuse_panic(error: BaseException) -> None:
    """Turn what a tokenizer in Rust raises when it gives up, which is no `Exception`, into one line without a text."""
    if type(error).__name__ == "PanicException":
        raise EncoderError(
            "`source` must have a tokenizer that can read the texts, got one that gave up, mostly because of a slow "
            "regular expression. Copy the tokenizer's files from the original model."
        ) from None


def _gguf_weights(path: Path) -> StoredWeights:
    """Return the most that a GGUF file can hold; its header states the number of tensors after magic and version."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stated = int.from_bytes(stream.read(16)[8:], "little")
    return StoredWeights(int(size * 8 / FEWEST_BITS), min(stated, size // _SMALLEST_ENTRY))


def _refuse_pointer(path: Path) -> None:
    if path.exists() and not path.is_file():  # a named pipe would block, a device never end
        raise EncoderError(f"`source` must hold files, got a {path.name} that is none.")
    with path.open("rb") as stream:
        if stream.read(len(_POINTER)) == _POINTER:
            raise EncoderError(
                f"`source` must hold whole files, got a Git LFS pointer in {path.name}. "
                "Fetch the file itself, for example with git lfs pull."
            )


def _described(header: bytes) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return the shapes that a header states, and the number of bytes that must follow it."""
    entries = {name: entry for name, entry in json.loads(header).items() if name[:2] != "__"}
    shapes = {name: _shape(entry["shape"]) for name, entry in entries.items()}
    spans = [entry["data_offsets"] for entry in entries.values()]
    num_bytes = max((stop for _, stop in spans), default=0)
    fits = all(
        math.prod(shapes[name]) * _bits(entry["dtype"]) == 8 * (stop - start)
        for (name, entry), (start, stop) in zip(entries.items(), spans, strict=True)
    )
    if not fits or sum(stop - start for start, stop in spans) != num_bytes:
        raise ValueError
    return shapes, num_bytes


def _shape(given: list[int]) -> tuple[int, ...]:
    """Return a shape of whole numbers that are not negative."""
    if len(given) > _MAX_SIDES or not all(is_integer(side) and 0 <= side < 2**63 for side in given):
        raise ValueError
    return tuple(given)


def _bits(dtype: str) -> int:
    """Return how many bits a number of a type takes: its name has them, except for truth values."""
    return 8 if dtype == "BOOL" else int(re.findall(r"\d+", dtype)[0])


def _check_config(path: Path) -> None:
    """Return a JSON object with a model type, and sizes that are positive whole numbers."""
    config = read_json(path, "source")
    if not isinstance(config, dict):
        raise EncoderError(
            f"`source` must hold one JSON object in {path.name}, got {_kind(config)}."
        )
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise EncoderError(f"`source` must name a model_type in {path.name}, got none.")
    if config.get("quantization_config"):
        raise EncoderError(
            f"`source` must hold weights in float32 or bfloat16, got a quantization_config in {path.name}. Frozen "
            "weights of 8 or 4 bit are not supported; for a GPU that is too small use several with shard_weights."
        )
    for name in _SIZES:
        value = config.get(name)
        if value is not None and not (is_integer(value) and value > 0):
            raise EncoderError(
                f"`source` must have a whole number above 0 as {name} in {path.name}, got {shown(value)}."
            )
    _refuse_other_files(config, path.name)
    _refuse_foreign_attention(config, path.name)
    check_counts(config, path.name)


def _parts(settings: Any) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in the settings, at any depth, the whole first."""
    waiting = [settings]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _refuse_other_files(settings: Any, name: str) -> None:
    """Refuse settings that name files which transformers would read in place of the checked ones."""
    for part in _parts(settings):
        for key in _OTHER_FILES[name]:
            if part.get(key):
                raise EncoderError(
                    f"`source` must have files of the usual names, got {key} in {name}. "
                    "Rename the files and remove the entry."
                )


def _refuse_foreign_attention(config: dict[str, Any], name: str) -> None:
    """Refuse an attention implementation that transformers would look for on the hub, as code to run."""
    for part in _parts(config):
        for key in _ATTENTION:
            stated = part.get(key)
            values = list(_leaves(stated)) if isinstance(stated, dict) else [stated]
            for value in values:
                if value not in _KNOWN_ATTENTION:
                    raise EncoderError(
                        f"`source` must have eager, sdpa or flex_attention as {key} in {name}, got "
                        f"{str(value)[:80]!r}. Remove the entry, and choose with `attention`."
                    )


def _leaves(settings: dict[str, Any]) -> Iterator[Any]:
    """Yield the values of nested JSON objects that are no objects themselves."""
    for part in _parts(settings):
        yield from (value for value in part.values() if not isinstance(value, dict))


def check_counts(config: dict[str, Any], name: str) -> None:
    """Refuse a configuration with more layers, experts or labels than any model has, each of which costs time.

    Args:
        config: The configuration, with its parts.
        name: The file that states it.
    """
    for part in _parts(config):
        for setting, value in part.items():
            counted = _COUNTED.search(str(setting))
            largest = _MAX_LABELS if counted and counted[1] else _MAX_LAYERS
            if counted and is_integer(value) and value > largest:
                raise EncoderError(
                    f"`source` must have at most {largest} as {str(setting)[:80]} in {name}, got {shown(value)}."
                )
            listed = _largest_listed(value) if isinstance(value, list) else 0
            if listed > _MAX_LISTED:
                raise EncoderError(
                    f"`source` must have at most {_MAX_LISTED} in the list {str(setting)[:80]} in {name}, got "
                    f"{shown(listed)}."
                )


def _largest_listed(values: list[Any]) -> int:
    """Return the largest whole number in nested lists; objects in them are parts of their own."""
    largest, waiting = 0, [values]
    while waiting:
        listed = waiting.pop()
        waiting += [value for value in listed if isinstance(value, list)]
        largest = max([largest, *(value for value in listed if is_integer(value))])
    return largest


def _weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that transformers would read, each of them there."""
    distributed = sorted(path.name for path in folder.iterdir() if _DISTRIBUTED.match(path.name))
    if distributed:
        raise EncoderError(
            "`source` must hold its weights in model.safetensors or in the files of its index, got "
            f"{distributed[0]} of a distributed checkpoint. Save the model whole."
        )
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if not (folder / _INDEX).is_file():
        raise EncoderError(
            f"`source` must hold its weights in model.safetensors, or in files that {_INDEX} names, got "
            f"{folder.name!r} without either. Save the model as safetensors."
        )
    index = read_json(folder / _INDEX, "source")
    shards = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise EncoderError(f"`source` must hold a weight_map in {_INDEX}, got none.")
    names = sorted(set(shards.values()))
    for name in names:
        is_long = len(os.fsencode(name)) > _MAX_NAME
        if is_long or Path(name).name != name or not name.endswith(".safetensors"):
            raise EncoderError(
                f"`source` must have safetensors files of its own in {_INDEX}, got {name[:80]!r}."
            )
        if not (folder / name).is_file():
            raise EncoderError(f"`source` must hold every file that {_INDEX} names, got no {name}.")
    return [folder / name for name in names]


def _kind(value: object) -> str:
    names = {list: "a list", str: "text", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
