r"""Lines of a text file, read in blocks: no line and no number of blank lines takes memory or time without bound.

A line ends as the fast readers end it: with a newline, a carriage return, or both. A line is at most about as long as
those readers take, so that no file which they read is refused here.

Private to the package: `line_blocks`, `num_line_ends`, `numbered_lines`, `split_lines`, `LONGEST_LINE`.

>>> import io
>>> list(numbered_lines(io.BytesIO(b"a\n\n\n\nb\r\nc"), "entities.csv"))
[(1, b'a\n'), (2, b'\n\n\n'), (5, b'b\r\n'), (6, b'c')]
"""

import re
from collections.abc import Iterator
from io import BufferedIOBase

from reldp.errors import GraphError

__all__ = ["LONGEST_LINE", "line_blocks", "num_line_ends", "numbered_lines", "split_lines"]

LONGEST_LINE = 2**25  # Arrow's readers take less than two blocks
_BLOCK_BYTES = 2**20
_LINE_OR_BLANK_LINES = re.compile(rb"[^\r\n]+(?:\r\n?|\n)?|[\r\n]+")


def line_blocks(
    stream: BufferedIOBase, name: str, num_bytes: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the next line (from 1) and whole lines, about so many bytes of them at a time.

    Args:
        stream: The file.
        name: What errors call it.
        num_bytes: How much is read at once; None is a mebibyte.

    Raises:
        GraphError: A line is too long.
    """
    number, length = 1, 0
    parts: list[bytes] = []  # the beginning of a line
    while data := stream.read(num_bytes or _BLOCK_BYTES):
        # A carriage return at the end may belong to a newline that is not read yet.
        stop = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        if stop:
            block = b"".join([*parts, data[:stop]])
            yield number, block
            number += num_line_ends(block)
            parts, length = [], 0
        parts.append(data[stop:])
        length += len(data) - stop
        if length > LONGEST_LINE:
            raise GraphError(
                f"{name} must have at most {LONGEST_LINE:,} bytes on a line, got more on line {number}. Look for "
                "missing line ends, and shorten long texts."
            ) from None  # the error that is being explained may quote the file
    if rest := b"".join(parts):
        yield number, rest


def numbered_lines(stream: BufferedIOBase, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each line; blank lines in a row come together, with the number of the first.

    Args:
        stream: The file.
        name: What errors call it.

    Raises:
        GraphError: A line is too long.
    """
    for number, block in line_blocks(stream, name):
        yield from split_lines(number, block)


def split_lines(number: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a block whose first line has this number, as `numbered_lines` does."""
    if b"\r" not in block and b"\n\n" not in block and block[:1] != b"\n":
        yield from enumerate(block.splitlines(keepends=True), number)
        return
    for match in _LINE_OR_BLANK_LINES.finditer(block):
        yield number, match[0]
        number += num_line_ends(match[0])


def num_line_ends(block: bytes) -> int:
    """Return how many lines end in a block."""
    num_newlines = block.count(b"\n")
    if b"\r" not in block:
        return num_newlines
    return num_newlines + block.count(b"\r") - block.count(b"\r\n")
