"""A bound on token ids, before a tokenizer is loaded.

The tokenizers library counts from 0 to the largest token id when it copies or writes a vocabulary, so one word with an
id of some billions takes minutes. No tokenizer has more than a few hundred thousand tokens.

Private to the package: `check_token_ids`.

>>> refuse_large_ids([("tokenizer.json", [7, 2**31])])
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have token ids below 16,777,216, got 2,147,483,648 in \
tokenizer.json. Copy the tokenizer's files from the original model.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reldp._validate import is_integer
from reldp.encoders.folders import read_json
from reldp.errors import EncoderError

__all__ = ["check_token_ids", "refuse_large_ids"]

_MAX_FILE = 2**26  # bytes
_MAX_ID = 2**24
_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "added_tokens.json")


def check_token_ids(folder: Path) -> None:
    """Refuse a folder whose tokenizer has a token id that no vocabulary has.

    Args:
        folder: The folder of the model; it may have any of the files.
    """
    for name in _FILES:
        if (folder / name).is_file():
            content = read_json(folder / name, "source", _MAX_FILE, is_strict=False)
            refuse_large_ids([(name, _ids(name, content))])


def refuse_large_ids(listed: Iterable[tuple[str, Iterable[Any]]]) -> None:
    """Refuse token ids beyond the limit; what is no whole number is for the reader to refuse.

    Args:
        listed: Names of files, and the token ids in each.
    """
    for name, ids in listed:
        largest = max((value for value in ids if is_integer(value)), default=0)
        if largest >= _MAX_ID:
            shown = f"{largest:,}" if largest < 10**18 else "a larger one"
            raise EncoderError(
                f"`source` must have token ids below {_MAX_ID:,}, got {shown} in {name}. Copy the tokenizer's files "
                "from the original model."
            )


def _ids(name: str, content: Any) -> Iterator[Any]:
    """Yield the token ids in one of the files."""
    whole = _as_object(content)
    if name in ("vocab.json", "added_tokens.json"):  # ids by token
        yield from whole.values()
    yield from _as_object(_as_object(whole.get("model")).get("vocab")).values()
    added = whole.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        yield _as_object(token).get("id")
    for key in _as_object(whole.get("added_tokens_decoder")):
        yield int(key) if key.isascii() and key.isdigit() and len(key) <= 30 else None


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
