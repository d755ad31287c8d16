r"""A bound on the number of columns, checked before a table is made.

JSONL needs it most: a line may have keys that no other line has, and each key becomes a column with a value per line,
so that n lines become n * n values. Keys are counted on the text of the file, quickly and never too low; where that
count is too high, or objects lie within objects, the lines are parsed one at a time and counted exactly.

Private to the package: `refuse_columns`, `refuse_keys`, `MAX_COLUMNS`.

>>> refuse_columns("entities.csv", 5000)
Traceback (most recent call last):
reldp.errors.GraphError: entities.csv must have at most 1,000 columns, got 5,000. Leave out those that you do not need.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reldp.errors import GraphError
from reldp.graph.diagnosis import explain_jsonl, open_bytes, records

__all__ = ["MAX_COLUMNS", "refuse_columns", "refuse_keys"]

MAX_COLUMNS = 1000

_BLOCK_BYTES = 2**20
_LONGEST_LINE = 2**25  # beyond what the reader takes
_SPACED_COLON = re.compile(rb'"[ \t\r\n]+:')
_DECODER = json.JSONDecoder()


def refuse_columns(name: str, count: int, words: str = "columns") -> None:
    """Refuse a table with too many columns.

    Args:
        name: What errors call the table.
        count: Number of its columns; only a lower bound on it when counting stopped at the limit.
        words: What is counted.

    Raises:
        GraphError: There are too many.
    """
    if count > MAX_COLUMNS:
        raise GraphError(
            f"{name} must have at most {MAX_COLUMNS:,} {words}, got {count:,}. Leave out those that you do not need."
        )


def refuse_keys(path: Path, *, show_ids: bool = False) -> None:
    """Refuse a JSONL file with too many different keys, those of objects within objects included.

    Raises:
        GraphError: There are too many, or a line that had to be parsed is no JSON.
    """
    if _may_exceed(path):
        _count_exactly(path, show_ids)


def _may_exceed(path: Path) -> bool:
    """Return whether a file may have too many keys; False is certain."""
    keys: set[bytes] = set()
    for block in _blocks(path):
        # Braces that open no new line after a closed one: objects within objects, or braces in texts.
        num_lines = block.count(b"}\n{") + block.count(b"}\r\n{") + 1
        if block.count(b"{") > num_lines or _SPACED_COLON.search(block):
            return True
        for part in block.split(b'":')[:-1]:
            head, _, key = part.rpartition(b'"')
            # A quote that is part of the key, or of a text, is escaped: then the whole part stands for the key.
            keys.add(part if head.endswith(b"\\") or key.endswith(b"\\") else key)
        if len(keys) > MAX_COLUMNS:
            return True
    return False


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield whole lines, about a block of them at a time, without the space around them."""
    parts: list[bytes] = []
    length = 0
    with open_bytes(path) as stream:
        while data := stream.read(_BLOCK_BYTES):
            whole, newline, rest = data.rpartition(b"\n")
            if newline:
                yield b"".join([*parts, whole]).strip()
                parts, length = [], 0
            parts.append(rest)
            length += len(rest)
            if length > _LONGEST_LINE:
                return
    yield b"".join(parts).strip()


def _count_exactly(path: Path, show_ids: bool) -> None:
    """Count the keys of every object by where they stand, and stop at the first one too many."""
    places: dict[tuple[int, str], int] = {}
    with open_bytes(path) as stream:
        for _, record in records(stream, quoted=False):
            try:
                for value in _values(record.decode("utf-8-sig")):
                    _add_keys(value, places)
            except (ValueError, RecursionError):  # what is not counted must not be read either
                what = explain_jsonl(path, (), show_ids=show_ids)
                what = what or "must hold one JSON object per line, got something else."
                raise GraphError(f"{path.name} {what}") from None
            refuse_columns(path.name, len(places), "different keys on its lines")


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values on a line; the reader allows several."""
    text = text.strip()
    at = 0
    while at < len(text):
        value, at = _DECODER.raw_decode(text, at)
        yield value
        while at < len(text) and text[at].isspace():
            at += 1


def _add_keys(value: Any, places: dict[tuple[int, str], int]) -> None:
    """Add the keys of an object, and of those within it, by the number of the key around them; 0 is outside."""
    stack = [(value, 0)]
    while stack:
        item, place = stack.pop()
        if isinstance(item, dict):
            for key, inner in item.items():
                number = places.setdefault((place, key), len(places) + 1)
                if isinstance(inner, dict | list):
                    stack.append((inner, number))
        elif isinstance(item, list):
            stack += [(inner, place) for inner in item if isinstance(inner, dict | list)]
