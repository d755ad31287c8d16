r"""Diagnosis of text files that the fast reader refused: what is wrong, and on which lines.

Works on bytes, record by record, so that a damaged file is described exactly however it is
encoded. Only runs when something is wrong, or when an error message needs the line numbers of a
few rows. Errors contain lines and counts, never content.

Public: `open_bytes`, `records`, `well_formed`, `line_numbers`, `json_object`,
`explain_delimited`, `explain_jsonl`, `field_count`, `is_text`.

>>> import io
>>> stream = io.BytesIO(b'id,text\na,"two\nlines"\nb,c\n')
>>> [line for line, _ in records(stream, quoted=True, name="entities.csv")]
[1, 2, 4]
"""

import json
import math
from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Any

from reldp.errors import GraphError
from reldp.graph.compression import open_unpacked
from reldp.graph.csv_quotes import open_quote_error, refuse_quotes, stray_quote_error
from reldp.graph.disclosure import column_words
from reldp.graph.text_lines import LONGEST_LINE, line_blocks, numbered_lines, split_lines

__all__ = [
    "explain_delimited",
    "explain_jsonl",
    "field_count",
    "is_text",
    "json_object",
    "line_numbers",
    "open_bytes",
    "records",
    "well_formed",
]

_MARK = b"\xef\xbb\xbf"  # of UTF-8, at the beginning of a file
_AFTER_QUOTE = (b"", b",", b"\r", b"\n", b'"')
_EXAMPLES = 5
_NUMBERS = {"an integer", "a fraction"}
_NO_NUMBER = "NaN or Infinity"
_MAX_COUNTED = 100_000  # damaged lines: the rest of the file is not looked at


open_bytes = open_unpacked


def records(stream: BufferedIOBase, quoted: bool, name: str) -> Iterator[tuple[int, bytes]]:
    """Non-empty records and the line each starts on (from 1); a quoted field may hold line ends.

    Args:
        stream: The file.
        quoted: Whether fields may be quoted.
        name: What errors call the file.

    Raises:
        GraphError: A record is too long, or nothing but blank lines comes for too long; text follows a closing
            quote, or a quote stays open.
    """
    num_blank, has_begun = 0, False
    for start, whole in _joined(stream, quoted, name):
        if record := whole.rstrip(b"\r\n"):
            has_begun = True
            yield start, record
        elif not has_begun:
            num_blank += len(whole)
            if num_blank > LONGEST_LINE:
                raise GraphError(
                    f"{name} must start with content, got {num_blank:,} bytes of blank lines. Write it again."
                ) from None  # the error that is being explained may quote the file


def _joined(stream: BufferedIOBase, quoted: bool, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the first line and the bytes of each record, and of blank lines in a row."""
    start, inside = 0, False
    begun = bytearray()  # a record with an open quote
    for number, line in numbered_lines(stream, name):
        if number == 1:
            line = line.removeprefix(_MARK)  # a quote after it opens a field
        start = start if inside else number
        if quoted and _has_stray(line, inside):
            raise stray_quote_error(name, start, number) from None
        inside = quoted and _inside_after(line, inside)
        if not inside and not begun:
            yield start, line
            continue
        begun += line
        if len(begun) > LONGEST_LINE:
            raise GraphError(
                f"{name} must have at most {LONGEST_LINE:,} bytes in a record, got more in the one that begins on line "
                f"{start}. Look for a quote that is never closed, and shorten long texts."
            ) from None  # the error that is being explained may quote the file
        if not inside:
            yield start, bytes(begun)
            begun.clear()
    if begun:
        raise open_quote_error(name, start) from None


def _lines_with(mark: bytes, stream: BufferedIOBase, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that contain something, and their numbers; a block without it is not split."""
    for first, block in line_blocks(stream, name):
        if mark in block:
            yield from (pair for pair in split_lines(first, block) if mark in pair[1])


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
        for line, record in records(stream, quoted, path.name):
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
    quoted, matching, num_others = delimiter == b",", bytearray(), 0
    with open_bytes(path) as stream:
        for _, record in islice(records(stream, quoted, path.name), int(header), None):
            if field_count(record, delimiter, quoted) == num_columns:
                matching += record + b"\n"
            else:
                num_others += 1
    return bytes(matching) or b"\n", num_others


def explain_delimited(path: Path, delimiter: bytes, num_columns: int) -> str:
    """Return what is wrong with a CSV or TSV file, as the end of a sentence that starts with its name.

    Raises:
        GraphError: The quotes of a CSV file are wrong.
    """
    quoted = delimiter == b","
    if encoding := _undecodable(path):
        return _encoding(encoding)
    if quoted:  # first: what follows an open quote is one record, however large
        refuse_quotes(path)
    with open_bytes(path) as stream:
        lines = (
            line
            for line, record in records(stream, quoted, path.name)
            if field_count(record, delimiter, quoted) != num_columns
        )
        wrong = list(islice(lines, _MAX_COUNTED + 1))
    if wrong:
        name = "commas" if quoted else "tabs"
        return (
            f"must have {num_columns} columns on every line, got another number on {_places(wrong)}. Look for "
            f"stray {name}, or drop them with drop={{'malformed_lines'}}."
        )
    return ""


def _undecodable(path: Path) -> list[int]:
    """Return the lines that are not UTF-8; a block that is, is not split."""
    lines: list[int] = []
    with open_bytes(path) as stream:
        for first, block in line_blocks(stream, path.name):
            if not _is_utf8(block):
                lines += [n for n, line in split_lines(first, block) if not _is_utf8(line)]
            if len(lines) > _MAX_COUNTED:
                break
    return lines


def json_object(record: bytes) -> dict[str, Any] | None:
    """Return the JSON object on a line, or None if there is something else."""
    try:
        value = json.loads(record)
    except (ValueError, RecursionError):  # brackets nested too deeply for the parser
        return None
    return value if isinstance(value, dict) else None


def explain_jsonl(path: Path, id_columns: Sequence[str], *, show_ids: bool = False) -> str:
    """Return what is wrong with a JSONL file, as the end of a sentence that starts with its name."""
    broken, encoding = list[int](), list[int]()
    kinds, odd = dict[str, dict[str, int]](), dict[str, list[int]]()
    with open_bytes(path) as stream:
        for line, record in records(stream, quoted=False, name=path.name):
            if max(map(len, (broken, encoding, *odd.values()))) > _MAX_COUNTED:
                break
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
            f"must hold one JSON object per line, got something else on {_places(broken)}. "
            "Correct them."
        )
    for words, lines in odd.items():
        return f"must hold {words}, got {_number(lines)} that do not ({_examples(lines)}). Correct them."
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

    # NaN and Infinity are no JSON, but the fast reader takes them for numbers: see `_mixed`.
    json.loads(record, object_pairs_hook=object_of, parse_constant=lambda word: None)
    return lacks


def is_text(value: str) -> bool:
    """Whether UTF-8 can hold a text; JSON can escape characters that it cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _mixed(kinds: dict[str, dict[str, int]], id_columns: Sequence[str], show_ids: bool) -> str:
    """Return an error about columns that hold values of several types; empty if there are none."""
    for column in sorted(kinds, key=lambda name: name not in id_columns):
        lines = {kind: line for kind, line in kinds[column].items() if kind != "null"}
        no_number = lines.pop(_NO_NUMBER, 0)
        if no_number and (column in ("text", *id_columns) or set(lines) - _NUMBERS):
            label = column_words(column, list(kinds), show_ids=show_ids)
            return (
                f"must hold JSON, which has no NaN or Infinity, got one in {label} on line {no_number}. Write null, "
                "or leave the value out."
            )
        if column == "text" and len(lines) == 1 and "text" not in lines:
            kind, line = next(iter(lines.items()))
            return (
                f"must hold strings in column 'text', got {kind} on line {line}. Put it in quotes."
            )
        numbers = set(lines) == _NUMBERS and column not in id_columns
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
    if isinstance(value, float) and not math.isfinite(value):
        return _NO_NUMBER
    names = {str: "text", float: "a fraction", list: "a list", dict: "an object"}
    return names[type(value)]


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


def _has_stray(line: bytes, inside: bool) -> bool:
    """Return whether text follows a closing quote on a line, given whether a quoted field was open before it."""
    at = 0 if inside else _opening(line, 0)
    while at >= 0:
        close = line.find(b'"', at)
        after = line[close + 1 : close + 2]
        if close < 0 or after not in _AFTER_QUOTE:
            return close >= 0
        at = close + 2 if after == b'"' else _opening(line, close + 1)
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
        f"must be UTF-8 text, got other bytes on {_places(lines)}. "
        "Convert it, for example with iconv -f windows-1252 -t utf-8."
    )


def _places(lines: Sequence[int]) -> str:
    return f"{_number(lines)} ({_examples(lines)})"


def _number(lines: Sequence[int]) -> str:
    if len(lines) > _MAX_COUNTED:
        return f"more than {_MAX_COUNTED:,} lines"
    return f"{len(lines)} lines"


def _examples(lines: Sequence[int]) -> str:
    shown = ", ".join(f"line {line}" for line in lines[:_EXAMPLES])
    return shown + (", ..." if len(lines) > _EXAMPLES else "")
