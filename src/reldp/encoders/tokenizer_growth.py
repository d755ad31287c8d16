"""Bounds on how much a tokenizer can lengthen a text before it cuts it to the maximum length.

The steps of a tokenizer.json (normalizer, pre-tokenizer and post-processor) come one after the other, and a few dozen
of them, each of which doubles the text, need more memory than any machine has. So the factor of each step is bounded
from its settings, and a tokenizer whose factors multiply to more than 16 is refused.

Unicode normalization counts as 1: it lengthens a character once, and what a replacement adds is measured decomposed.
So does one table of SentencePiece, if it makes at most 64 bytes of a character.

Private to the package: `check_tokenizer_file`, `refuse_growing_tokenizer`.

>>> doubling = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
>>> refuse_growth({"normalizer": {"type": "Sequence", "normalizers": [doubling] * 5}})
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have a tokenizer that lengthens a text at most 16 times, got a normalizer \
with up to 32 times. ...
"""

import base64
import json
import math
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reldp._validate import is_integer, shown
from reldp.encoders.folders import read_json
from reldp.errors import EncoderError

__all__ = ["check_tokenizer_file", "refuse_growing_tokenizer", "refuse_growth"]

_MAX_FILE = 2**26  # bytes
_MAX_GROWTH = 16
_MAX_STEPS = 32
_WORD_LIMIT = "max_input_chars_per_word"
_LONGEST_WORD = 1000  # characters; 100 is usual
_LONGEST_MAPPED = 64  # bytes that SentencePiece's table makes of a character; 33 in its usual table
_PARTS = {  # of a tokenizer, with the setting that lists the steps of a sequence
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
}


def check_tokenizer_file(folder: Path) -> None:
    """Refuse a folder whose tokenizer.json lengthens texts without a reasonable bound, before it is loaded.

    Args:
        folder: The folder of the model; it may have a tokenizer of another format instead.
    """
    if (folder / "tokenizer.json").is_file():
        settings = read_json(folder / "tokenizer.json", "source", _MAX_FILE, is_strict=False)
        refuse_growth(settings if isinstance(settings, dict) else {})


def refuse_growing_tokenizer(tokenizer: Any) -> None:
    """Refuse a loaded tokenizer that does so, whichever files it was made from."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts = {name: getattr(backend, name, None) for name in _PARTS}
    _refuse_long_words({_WORD_LIMIT: getattr(getattr(backend, "model", None), _WORD_LIMIT, None)})
    refuse_growth(
        {name: json.loads(part.__getstate__()) for name, part in parts.items() if part is not None}
    )


def refuse_growth(settings: dict[str, Any]) -> None:
    """Refuse the settings of a tokenizer whose steps multiply the length of a text by more than 16.

    Args:
        settings: What tokenizer.json holds.
    """
    _refuse_long_words(settings.get("model"))
    for part, listed in _PARTS.items():
        try:
            steps = list(_steps(settings.get(part), listed))
            growth = math.prod(_growth(step, part) for step in steps)
            tables = [step for step in steps if step["type"] == "Precompiled"]
            longest = max(map(_longest_mapped, tables), default=0)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            raise EncoderError(
                f"`source` must have a tokenizer of known settings, got a damaged {part}. "
                "Copy the tokenizer's files from the original model."
            ) from None
        if len(steps) > _MAX_STEPS or len(tables) > 1:
            raise EncoderError(
                f"`source` must have a tokenizer of at most {_MAX_STEPS} steps with one precompiled table, got "
                f"a {part} with {len(steps):,} steps. Copy the tokenizer's files from the original model."
            )
        if growth > _MAX_GROWTH or longest > _LONGEST_MAPPED:
            shown = math.ceil(growth) if growth > _MAX_GROWTH else longest
            raise EncoderError(
                f"`source` must have a tokenizer that lengthens a text at most {_MAX_GROWTH} times, got a {part} "
                f"with up to {shown:.4g} times. Copy the tokenizer's files from the original model."
            )


def _refuse_long_words(model: object) -> None:
    """Refuse words of any length: the time to split one into tokens grows with the square of its length."""
    longest = model.get(_WORD_LIMIT) if isinstance(model, dict) else None
    if longest is not None and not (is_integer(longest) and 0 <= longest <= _LONGEST_WORD):
        raise EncoderError(
            f"`source` must have a tokenizer with {_WORD_LIMIT} of at most {_LONGEST_WORD:,}, got {shown(longest)}. "
            "Copy the tokenizer's files from the original model."
        )


def _steps(part: dict[str, Any] | None, listed: str) -> Iterator[dict[str, Any]]:
    """Yield the steps of a part in any order, those of nested sequences too."""
    waiting = [] if part is None else [part]
    while waiting:
        step = waiting.pop()
        if step["type"] == "Sequence":
            waiting += step[listed]
        else:
            yield step


def _growth(step: dict[str, Any], part: str) -> float:
    """Return by how much a step multiplies the number of characters or tokens at most."""
    if step["type"] == "ByteLevel" and part == "post_processor":  # moves offsets only
        return 1.0
    measure = _GROWTH.get(step["type"])
    return float(measure(step)) if measure else 1.0


def _replaced(step: dict[str, Any]) -> float:
    """Return the factor of a replacement; a regular expression may match the gap before each character."""
    length = len(unicodedata.normalize("NFKD", step["content"]))
    pattern = step["pattern"].get("String")
    return max(1.0, length / len(pattern)) if pattern else 1.0 + length


def _from_template(step: dict[str, Any]) -> float:
    """Count repetitions of the text, and tokens beside it, which has at least one."""
    parts = step["single"]
    special = [part["SpecialToken"]["id"] for part in parts if "SpecialToken" in part]
    repeated = len(parts) - len(special)
    return repeated + sum(len(step["special_tokens"][name]["ids"]) for name in special)


def _longest_mapped(step: dict[str, Any]) -> int:
    """Return the length of the longest text in a table: its trie comes first, then texts that end in a zero."""
    table = base64.b64decode(step["precompiled_charsmap"] or "")
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    return max(map(len, texts.split(b"\0")))


_GROWTH: dict[str, Callable[[dict[str, Any]], float]] = {
    "Replace": _replaced,
    "Prepend": lambda step: 1 + len(unicodedata.normalize("NFKD", step["prepend"])),
    "BertNormalizer": lambda step: 3,  # spaces around Chinese characters
    "ByteLevel": lambda step: 4,  # a character for each byte
    "Metaspace": lambda step: 2,  # one character before each word
    "TemplateProcessing": _from_template,
    "BertProcessing": lambda step: 3,
    "RobertaProcessing": lambda step: 3,
}
