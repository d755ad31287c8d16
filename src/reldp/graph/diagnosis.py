r"""Diagnosis of text files that the fast reader refused: what is wrong, and on which lines.

Works on bytes, record by record, so that a damaged file is described exactly however it is
encoded. Only runs when something is wrong, or when an error message needs the line numbers of a
few rows. Errors contain lines and counts, never content.

Public: `open_bytes`, `records`, `open_quote`, `may_end_open`, `well_formed`, `line_numbers`, `json_object`,
`explain_delimited`, `explain_jsonl`, `field_count`, `is_text`.

>>> import io
>>> [line for line, _ in records(io.BytesIO(b'id,text\na,"two\nlines"\nb,c\n'), quoted=True)]
[1, 2, 4]
"""

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any

from reldp.graph.compression import COMPRESSED, open_unpacked
from reldp.graph.disclosure import column_words

__all__ = [
    "explain_delimited",
    "explain_jsonl",
    "field_count",
    "is_text",
    "json_object",
    "line_numbers",
    "may_end_open",
    "open_bytes",
    "open_quote",
    "records",
    "well_formed",
]

_EXAMPLES = 5


open_bytes = open_unpacked


def records(stream: BufferedIOBase, quoted: bool) -> Iterator[tuple[int, bytes]]:
    """Non-empty records and the line each starts on (from 1); a quoted field may hold line ends.

    The last record may lack its closing quote: see `open_quote`.
    """
    start, inside = 0, False
    parts: list[bytes] = []
    for number, line in enumerate(_lines(stream), 1):
        if not parts:
            start = number
        parts.append(line)
        inside = quoted and _inside_after(line, inside)
        if inside:
            continue
        record = b"".join(parts).rstrip(b"\r\n")
        if record:
            yield start, record
        parts = []
    if parts:
        yield start, b"".join(parts)


def open_quote(path: Path) -> int:
    """Return the line of a CSV file on which a quote is opened and never closed; 0 if there is none."""
    start, inside = 0, False
    with open_bytes(path) as stream:
        for number, line in enumerate(_lines(stream), 1):
            if inside or b'"' in line:
                start = start if inside else number
                inside = _inside_after(line, inside)
    return start if inside else 0


def may_end_open(path: Path, last: str) -> bool:
    """Return whether a CSV file may end inside a quoted field, looking at its end only.

    Args:
        path: The file.
        last: The last field of the last row as it was read. If its quote was never closed, the
            file ends with that quote and the field. `open_quote` knows for certain, slowly.
    """
    field = b'"' + last.replace('"', '""').encode().rstrip(b"\r\n")
    tail = b""
    with open_bytes(path) as stream:
        if path.suffix not in COMPRESSED:
            stream.seek(max(0, path.stat().st_size - 2 * len(field) - 100))
        for block in iter(partial(stream.read, 1 << 20), b""):
            tail = (tail + block)[-2 * len(field) - 100 :]
    return tail.rstrip(b"\r\n").endswith((b"," + field, b"\n" + field, b"\r" + field))


def line_numbers(
    path: Path, rows: Sequence[int], *, delimiter: bytes = b"", header: bool, num_columns: int = 0
) -> list[str]:
    """Return where rows (from 0) of a text file are: "line 7"; "row 7" where a line holds several.

    Args:
        path: The file.
        rows: Rows of the table that was read from it.
        delimiter: Of a CSV or TSV file.
        header: Whether the first record names the columns.
        num_columns: Records of another number of columns were left out; 0 if none was.
    """
    quoted = delimiter == b","
    wanted = {row + header for row in rows}
    places: dict[int, int] = {}
    index = 0
    with open_bytes(path) as stream:
        for line, record in records(stream, quoted):
            if num_columns and field_count(record, delimiter, quoted) != num_columns:
                continue
            if index in wanted:
                places[index] = line
            if len(places) == len(wanted):
                break
            index += 1
    at = {row: places.get(row + header) for row in rows}
    return [f"row {row + 1}" if at[row] is None else f"line {at[row]}" for row in rows]


def well_formed(
    path: Path, delimiter: bytes, num_columns: int, *, header: bool
) -> tuple[bytes, int]:
    """Return the records of a CSV or TSV file with that many columns, and how many others there are.

    The header, if there is one, is not among them.
    """
    quoted, matching, num_others = delimiter == b",", [], 0
    with open_bytes(path) as stream:
        for _, record in islice(records(stream, quoted), int(header), None):
            if field_count(record, delimiter, quoted) == num_columns:
                matching.append(record)
            else:
                num_others += 1
    return b"\n".join(matching) + b"\n", num_others


def explain_delimited(path: Path, delimiter: bytes, num_columns: int) -> str:
    """Return what is wrong with a CSV or TSV file, as the end of a sentence that starts with its name."""
    quoted = delimiter == b","
    with open_bytes(path) as stream:
        encoding = [n for n, line in enumerate(_lines(stream), 1) if not _is_utf8(line)]
    if encoding:
        return _encoding(encoding)
    opened = open_quote(path) if quoted else 0
    if opened:  # what follows it is one record, however large
        return f"must close every quote, but the one opened on line {opened} stays open. Close it."
    with open_bytes(path) as stream:
        wrong = [
            line
            for line, record in records(stream, quoted)
            if field_count(record, delimiter, quoted) != num_columns
        ]
    if wrong:
        name = "commas" if quoted else "tabs"
        return (
            f"must have {num_columns} columns on every line, got another number on {len(wrong)} "
            f"lines ({_places(wrong)}). Look for stray {name}, or drop them with "
            "drop={'malformed_lines'}."
        )
    return ""


def json_object(record: bytes) -> dict[str, Any] | None:
    """Return the JSON object on a line, or None if there is something else."""
    try:
        value = json.loads(record)
    except (ValueError, RecursionError):  # brackets nested too deeply for the parser
        return None
    return value if isinstance(value, dict) else None


def explain_jsonl(path: Path, id_columns: Sequence[str], *, show_ids: bool = False) -> str:
    """Return what is wrong with a JSONL file, as the end of a sentence that starts with its name."""
    broken, encoding, kinds = [], [], dict[str, dict[str, int]]()
    odd: dict[str, list[int]] = {}
    with open_bytes(path) as stream:
        for line, record in records(stream, quoted=False):
            if not _is_utf8(record):
                encoding.append(line)
                continue
            value = json_object(record)
            if value is None:
                broken.append(line)
                continue
            for words in _unreadable(record):
                odd.setdefault(words, []).append(line)
            for key, item in value.items():
                kinds.setdefault(key, {}).setdefault(_json_kind(item), line)
    if encoding:
        return _encoding(encoding)
    if broken:
        return (
            f"must hold one JSON object per line, got something else on {len(broken)} lines "
            f"({_places(broken)}). Correct them."
        )
    for words, lines in odd.items():
        return f"must hold {words}, got {len(lines)} lines that do not ({_places(lines)}). Correct them."
    return _mixed(kinds, id_columns, show_ids)


def _unreadable(record: bytes) -> set[str]:
    """Return what a JSON object lacks that its grammar allows and the fast reader refuses."""
    lacks = set()

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            lacks.add("each name once in an object")
        for item in (*values, *values.values()):
            for one in item if isinstance(item, list) else (item,):
                if isinstance(one, float) and not math.isfinite(one):
                    lacks.add("numbers in the range of a double")
                elif isinstance(one, str) and not is_text(one):
                    lacks.add("text without half of a surrogate pair")
        return values

    json.loads(record, object_pairs_hook=object_of)
    return lacks


def is_text(value: str) -> bool:
    """Whether UTF-8 can hold a text; JSON can escape characters that it cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _mixed(kinds: dict[str, dict[str, int]], id_columns: Sequence[str], show_ids: bool) -> str:
    """Return an error about columns that hold values of several types; empty if there are none."""
    for column in sorted(kinds, key=lambda name: name not in id_columns):
        lines = {kind: line for kind, line in kinds[column].items() if kind != "null"}
        if column == "text" and len(lines) == 1 and "text" not in lines:
            kind, line = next(iter(lines.items()))
            return (
                f"must hold strings in column 'text', got {kind} on line {line}. Put it in quotes."
            )
        numbers = set(lines) == {"an integer", "a fraction"} and column not in id_columns
        if len(lines) > 1 and not numbers:
            where = " and ".join(f"{kind} on line {line}" for kind, line in lines.items())
            label = column_words(column, list(kinds), show_ids=show_ids)
            return f"must hold one type of value in {label}, got {where}. Write all the same way."
    return ""


def _json_kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "an integer"
    names = {str: "text", float: "a fraction", list: "a list", dict: "an object"}
    return names[type(value)]


def _lines(stream: BufferedIOBase) -> Iterator[bytes]:
    """Lines as the fast reader sees them: a carriage return alone ends a line too."""
    for line in stream:
        if b"\r" in line:
            yield from line.splitlines(keepends=True)
        else:
            yield line


def _inside_after(line: bytes, inside: bool) -> bool:
    """Return whether a quoted field is open after a line, given whether one was before it."""
    at = 0 if inside else _opening(line, 0)
    while at >= 0:
        close = line.find(b'"', at)
        if close < 0:
            return True
        doubled = line[close + 1 : close + 2] == b'"'  # a quote in the text
        at = close + 2 if doubled else _opening(line, close + 1)
    return False


def _opening(line: bytes, start: int) -> int:
    """Return where the next quoted field's content starts, or -1; only a field's first byte opens it."""
    if start == 0 and line.startswith(b'"'):
        return 1
    position = line.find(b',"', start)
    return position + 2 if position >= 0 else -1


def field_count(record: bytes, delimiter: bytes, quoted: bool) -> int:
    """Return the number of fields; delimiters inside quotes do not count."""
    if not quoted or b'"' not in record:
        return 1 + record.count(delimiter)
    fields, inside = 0, False
    for field in record.split(delimiter):
        inside = _inside_after(field, inside)
        fields += not inside
    return fields + inside


def _is_utf8(record: bytes) -> bool:
    try:
        record.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _encoding(lines: Sequence[int]) -> str:
    return (
        f"must be UTF-8 text, got other bytes on {len(lines)} lines ({_places(lines)}). "
        "Convert it, for example with iconv -f windows-1252 -t utf-8."
    )


def _places(lines: Sequence[int]) -> str:
    shown = ", ".join(f"line {line}" for line in lines[:_EXAMPLES])
    return shown + (", ..." if len(lines) > _EXAMPLES else "")
