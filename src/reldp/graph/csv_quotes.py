r"""Quotes of a CSV file, checked as it is read: text after a closing quote, and a quote that stays open, are refused.

Arrow reads both without a word: what follows a closing quote belongs to the field, and a quote that was closed too late
takes the rows between into one field, with their ids and with who is protected. RFC 4180 allows neither. The check
follows Arrow's reader byte for byte: only the first byte of a field opens a quote, two quotes inside are one, and a
quote in a field that did not begin with one is a character (``5" pipe``), because it cannot reach beyond the field.

Blocks whose quotes all stand beside a comma, a line end or another quote, which is nearly all, are checked at once;
others by a regular expression. Files without quotes are only searched for them.

Private to the package: `CheckedStream`, `QuoteCheck`, `refuse_quotes`, `open_quote_error`, `stray_quote_error`.

>>> check = QuoteCheck(Path("entities.csv"))
>>> check.add(b'id,text\na,5" pipe\nb,"says ""hi""\nand goes"\nc,"d')
>>> check.is_inside
True
"""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.errors import GraphError
from reldp.graph.compression import open_unpacked
from reldp.graph.text_lines import num_line_ends

__all__ = [
    "CheckedStream",
    "QuoteCheck",
    "open_quote_error",
    "refuse_quotes",
    "stray_quote_error",
]

_BLOCK_BYTES = 1 << 18
_MARK = b"\xef\xbb\xbf"  # of UTF-8, before the first field
_QUOTE = ord('"')
_IS_EDGE: npt.NDArray[np.bool_] = np.isin(np.arange(256), list(b',\r\n"'))

# Fields that are not quoted, quotes in them, and quoted fields with what ends them, as many as there are.
_SOUND = re.compile(rb'(?:[^"]++|(?<![,\r\n])"|"(?:[^"]++|"")*+"(?![^,\r\n]))*+')
_QUOTED = re.compile(rb'(?:[^"]++|"")*+')


class QuoteCheck:
    """Follow the quotes of a CSV file, a block of it at a time.

    Args:
        path: The file, read again for the numbers of lines in an error.

    Attributes:
        is_inside: Whether a quoted field is open after the blocks so far.
    """

    def __init__(self, path: Path) -> None:
        self.is_inside = False
        self._path = path
        self._num_bytes = 0  # before the next block
        self._opened = 0  # where the last quoted field begins
        self._is_closing = False  # the last byte closed a field, or is the first of two quotes
        self._before = b"\n"  # the last byte; a quote only if `_is_closing`

    def add(self, data: bytes) -> None:
        """Check a block of any size; the first holds the byte order mark of a file that has one.

        Raises:
            GraphError: There is text after a closing quote.
        """
        start = 0
        if not self._num_bytes and data.startswith(_MARK):
            start = self._num_bytes = len(_MARK)
        if b'"' not in data:
            self._add(data[start:] if start else data)
            return
        for at in range(start, len(data), _BLOCK_BYTES):
            self._add(data[at : at + _BLOCK_BYTES])

    def finish(self) -> None:
        """Check the end of the file.

        Raises:
            GraphError: A quote was not closed.
        """
        if self.is_inside:
            raise open_quote_error(self._path.name, self._line(self._opened))

    def _add(self, block: bytes) -> None:
        if not block:
            return
        if self._is_closing and not _IS_EDGE[block[0]]:
            self._refuse(self._num_bytes - 1)
        if b'"' not in block:
            self._is_closing = False
        elif not self._is_regular(block):
            self._walk(block)
        self._num_bytes += len(block)
        last = block[-1:]
        self._before = last if self._is_closing or last != b'"' else b"x"

    def _is_regular(self, block: bytes) -> bool:
        """Return whether every other quote opens and every other closes; follow them if so."""
        window = np.frombuffer(self._before + block + b",", dtype=np.uint8)
        quotes = np.flatnonzero(window[1:-1] == _QUOTE)
        first = int(self.is_inside)
        opening, closing = quotes[first::2], quotes[1 - first :: 2]
        before = window[opening]
        if not (_IS_EDGE[before].all() and _IS_EDGE[window[closing + 2]].all()):
            return False
        self.is_inside = len(quotes) % 2 != first
        self._is_closing = not self.is_inside and quotes[-1] == len(block) - 1
        if self.is_inside or self._is_closing:
            begins = opening[before != _QUOTE]  # the others are the second of two quotes
            self._opened = self._num_bytes + int(begins[-1]) if len(begins) else self._opened
        return True

    def _walk(self, block: bytes) -> None:
        """Follow the quotes of a block one by one."""
        start = b',"' if self.is_inside else b',"x"' if self._is_closing else self._before
        # The last byte shows that a quote at the end is not followed by an end.
        window = start + block + b"x"
        at = _SOUND.match(window).end()  # type: ignore[union-attr]  # it matches the empty string
        if at == len(window):
            self.is_inside = self._is_closing = False
            return
        if at >= len(start):
            self._opened = self._num_bytes + at - len(start)
        stop = _QUOTED.match(window, at + 1).end()  # type: ignore[union-attr]
        self.is_inside = stop == len(window)
        self._is_closing = stop == len(window) - 2
        if not (self.is_inside or self._is_closing):
            self._refuse(self._num_bytes + stop - len(start))

    def _refuse(self, closed: int) -> None:
        raise stray_quote_error(self._path.name, self._line(self._opened), self._line(closed))

    def _line(self, position: int) -> int:
        """Return the line (from 1) on which a byte of the file stands."""
        number, last = 1, b""
        with open_unpacked(self._path) as stream:
            while position > 0 and (block := stream.read(min(position, _BLOCK_BYTES))):
                position -= len(block)
                number += num_line_ends(block) - (last == b"\r" and block[:1] == b"\n")
                last = block[-1:]
        return number


class CheckedStream(io.RawIOBase):
    """The bytes of a CSV file, whose quotes are checked when they are read.

    Args:
        stream: The file.
        path: Where it is.
    """

    def __init__(self, stream: Any, path: Path) -> None:
        super().__init__()
        self._stream, self._check = stream, QuoteCheck(path)

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes.

        Raises:
            GraphError: There is text after a closing quote, or the file ends inside a quote.
        """
        data: bytes = self._stream.read(size)
        self._check.add(data)
        if not data and size:
            self._check.finish()
        return data


def refuse_quotes(path: Path) -> None:
    """Refuse a CSV file with text after a closing quote, or with a quote that stays open.

    Raises:
        GraphError: It has.
    """
    with open_unpacked(path) as stream:
        checked = CheckedStream(stream, path)
        while checked.read(_BLOCK_BYTES):
            pass


def open_quote_error(name: str, line: int) -> GraphError:
    """Return the error for a file that ends inside a quote."""
    return GraphError(
        f"{name} must close every quote, but the one opened on line {line} stays open. Close it."
    )


def stray_quote_error(name: str, opened: int, closed: int) -> GraphError:
    """Return the error for text after a closing quote, given on which lines the quoted field begins and ends."""
    field = "" if opened == closed else f", where a field ends that begins on line {opened}"
    return GraphError(
        f"{name} must have a comma or a line end after a closing quote, got text on line {closed}{field}. Close each "
        "quote at the end of its field, and double the quotes inside."
    )
