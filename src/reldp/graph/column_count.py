r"""Bounds on the number of columns and on nesting, checked before a table is made.

JSONL needs it most: a line may have keys that no other line has, and each key becomes a column with a value per line,
so that n lines become n * n values. Keys are counted on the text of the file, quickly and never too low; where that
count is too high, or objects lie within objects, the lines are parsed one at a time and counted exactly. Lists within
lists are bounded as well: Arrow ends the process where there are thousands.

Private to the package: `refuse_columns`, `refuse_keys`, `MAX_COLUMNS`.

>>> refuse_columns("entities.csv", 5000)
Traceback (most recent call last):
reldp.errors.GraphError: entities.csv must have at most 1,000 columns, got 5,000. Leave out those that you do not need.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from reldp.errors import GraphError
from reldp.graph.diagnosis import explain_jsonl, open_bytes, records
from reldp.graph.text_lines import line_blocks

__all__ = ["MAX_COLUMNS", "refuse_columns", "refuse_keys"]

MAX_COLUMNS = 1000
_MAX_DEPTH = 32

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
    """Refuse a JSONL file with too many different keys, those of objects within objects included, or deep nesting.

    Raises:
        GraphError: It has, a line is too long, or one that had to be parsed is no JSON.
    """
    keys: set[bytes] = set()
    may_exceed = False
    with open_bytes(path) as stream:
        for _, lines in line_blocks(stream, path.name):
            block = lines.strip()
            _refuse_depth(block, path, show_ids)
            may_exceed = may_exceed or _may_exceed(block, keys)
    if may_exceed:
        _count_exactly(path, show_ids)


def _refuse_depth(block: bytes, path: Path, show_ids: bool) -> None:
    """Refuse lines with lists or objects within one another beyond the limit; a line without so many is not parsed."""
    if block.count(b"[") + block.count(b"{") <= _MAX_DEPTH:
        return
    data = np.frombuffer(block, dtype=np.uint8)
    opens = (data | 0x20) == ord("{")  # the bit that tells one bracket from the other is set
    breaks = np.flatnonzero(data == ord("\n"))
    starts = np.concatenate([[0], breaks + 1])
    starts = starts[starts < len(data)]
    counts = np.add.reduceat(opens, starts, dtype=np.int64)
    for line in np.flatnonzero(counts > _MAX_DEPTH):
        stop = breaks[line] if line < len(breaks) else len(data)
        for value in _parsed(block[starts[line] : stop], path, show_ids):
            if _is_deep(value):
                _refuse_nesting(path)


def _is_deep(value: Any) -> bool:
    """Whether lists and objects are within one another beyond the limit."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_MAX_DEPTH):
        inside = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for values in inside for v in values if isinstance(v, dict | list)]
        if not level:
            return False
    return True


def _refuse_nesting(path: Path) -> NoReturn:
    raise GraphError(
        f"{path.name} must have at most {_MAX_DEPTH} lists or objects within one another on a line, got more. Leave "
        "out the columns that you do not need."
    )


def _may_exceed(block: bytes, keys: set[bytes]) -> bool:
    """Return whether a file may have too many keys, after one more of its blocks; False is certain."""
    # Braces that open no new line after a closed one: objects within objects, or braces in texts.
    num_lines = block.count(b"}\n{") + block.count(b"}\r\n{") + 1
    if block.count(b"{") > num_lines or _SPACED_COLON.search(block):
        return True
    for part in block.split(b'":')[:-1]:
        head, _, key = part.rpartition(b'"')
        # A quote that is part of the key, or of a text, is escaped: then the whole part stands for the key.
        keys.add(part if head.endswith(b"\\") or key.endswith(b"\\") else key)
    return len(keys) > MAX_COLUMNS


def _count_exactly(path: Path, show_ids: bool) -> None:
    """Count the keys of every object by where they stand, and stop at the first one too many."""
    places: dict[tuple[int, str], int] = {}
    with open_bytes(path) as stream:
        for _, record in records(stream, quoted=False, name=path.name):
            for value in _parsed(record, path, show_ids):
                _add_keys(value, places)
            refuse_columns(path.name, len(places), "different keys on its lines")


def _parsed(record: bytes, path: Path, show_ids: bool) -> Iterator[Any]:
    """Yield the JSON values on a line; what cannot be parsed here must not be read by Arrow either."""
    try:
        yield from _values(record.decode("utf-8-sig"))
    except RecursionError:
        _refuse_nesting(path)
    except ValueError:
        what = explain_jsonl(path, (), show_ids=show_ids)
        what = what or "must hold one JSON object per line, got something else."
        raise GraphError(f"{path.name} {what}") from None


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
