r"""Records of large files, one line at a time: products or papers, plain or compressed.

A file is read once, unpacked as it is read, and never held in memory. Lines that hold no record are counted and
passed over, because published files of millions of lines have a few; a file most of whose lines hold none is refused
as the wrong file. No error quotes a line.

Inside the package: `RecordLines`, `TooManyIds`, `clean_text`, `record_id`, `record_ids`.

>>> clean_text("  Rider&#39;s <b>lamp</b>\n")
"Rider's lamp"
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from reldp.errors import GraphError, InputError
from reldp.graph.compression import COMPRESSED, open_unpacked
from reldp.graph.recipes.literals import MAX_LINE, parse_record
from reldp.graph.recipes.prepared import sha256_file
from reldp.graph.store.progress import Progress, Tick

__all__ = ["RecordLines", "TooManyIds", "clean_text", "record_id", "record_ids"]

_TRIED = 1000  # lines without a record after which a file is given up
_LONGEST_ID = 200
_MAX_IDS = 100_000  # of one record: no paper and no product comes near
_OTHER_ARCHIVES = (".zip", ".xz", ".7z", ".rar", ".tar", ".tgz", ".lz4")
_TAG = re.compile(r"<[/!a-zA-Z][^<>]{0,1000}>")


class RecordLines:
    """The records of some files, in order.

    Args:
        sources: The files; several are read as one.
        wanted: What a line must hold, in words, for errors.
        is_record: Whether an object is one of the records that are wanted.
        report: Called with the progress.

    Attributes:
        paths: The files.
        num_lines: Lines read so far, without empty ones.
        drops: Lines that were passed over, by kind.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        *,
        wanted: str,
        is_record: Callable[[dict[str, Any]], bool],
        report: Callable[[Tick], None] | None = None,
    ) -> None:
        self.paths = [Path(source) for source in sources]
        self.num_lines = 0
        self.drops: Counter[str] = Counter()
        self._wanted, self._is_record = wanted, is_record
        self._progress = Progress(report)
        if not self.paths:
            raise InputError("`sources` must name at least one file, got none.")
        names = Counter(path.name for path in self.paths)
        repeated = next((name for name, count in names.items() if count > 1), None)
        if repeated is not None:  # the record of a graph tells its files apart by name
            raise InputError(f"`sources` must be files of different names, got {repeated!r} twice.")
        for path in self.paths:
            check_file(path)
        self._states = [_state(path) for path in self.paths]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the records.

        Raises:
            GraphError: A file is damaged, or most of its lines hold no record.
        """
        for path in self.paths:
            phase = self._progress.phase(f"reading {path.name}", path.stat().st_size, "bytes")
            with phase as advance, open_unpacked(path, advance) as stream:
                yield from self._records(path, cast(BinaryIO, stream), advance)

    def hashes(self) -> dict[str, str]:
        """Return the sha256 of each file by its name, after it was read.

        Raises:
            GraphError: A file has changed since it was opened, so the hash would be that of other data.
        """
        hashes = {path.name: sha256_file(path) for path in self.paths}
        for path, before in zip(self.paths, self._states, strict=True):
            if _state(path) != before:
                raise GraphError(
                    f"{path.name} must not change while it is read, got another size or time. Start again."
                )
        return hashes

    def _records(
        self, path: Path, stream: BinaryIO, advance: Callable[[int], None]
    ) -> Iterator[dict[str, Any]]:
        num_lines = num_bad = 0
        for line in _lines(stream):
            advance(0)  # a block of the file may unpack to a minute of lines
            num_lines += 1
            record = self._record(line)
            if record is not None:
                yield record
                continue
            num_bad += 1
            if num_bad == num_lines == _TRIED:
                break
        if num_lines == 0 or num_bad > num_lines / 2:
            raise GraphError(
                f"{path.name} must hold {self._wanted}, got {num_bad:,} of {num_lines:,} lines that hold none."
            )
        self.num_lines += num_lines
        self.drops["malformed_lines"] += num_bad

    def _record(self, line: bytes) -> dict[str, Any] | None:
        try:
            record = parse_record(line)
        except ValueError:
            return None
        return record if self._is_record(record) else None


def _state(path: Path) -> tuple[int, int, int]:
    """Return what changes when a file is written to or replaced."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def check_file(path: Path) -> None:
    """Refuse what cannot be read twice: a source is read more than once, and a pipe would lose lines.

    Raises:
        GraphError: It is no file, or empty.
    """
    if not path.is_file():
        what = "a folder" if path.is_dir() else "something else" if path.exists() else "none"
        raise GraphError(f"{path.name} must be a file, got {what}.")
    if path.stat().st_size == 0:
        raise GraphError(f"{path.name} must not be empty, got 0 bytes. Copy it again.")
    if path.suffix.lower() in _OTHER_ARCHIVES:
        endings = ", ".join(COMPRESSED)
        raise GraphError(
            f"{path.name} must be plain or end in {endings}, got {path.suffix}. Unpack it first."
        )


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are not empty; one that is too long is cut, which makes it no record."""
    while line := stream.readline(MAX_LINE + 2):
        whole = line
        while len(whole) > MAX_LINE and not whole.endswith(b"\n") and whole:
            whole = stream.readline(MAX_LINE + 2)
        if line.strip():
            yield line


def clean_text(value: object) -> str:
    """Return a text without markup, character references and runs of blanks; "" if it is none.

    Raises:
        ValueError: It is not valid Unicode.
    """
    if not isinstance(value, str):
        return ""
    if "&" in value:
        value = html.unescape(value)
    if "<" in value:
        value = _TAG.sub(" ", value)
    return " ".join(_valid(value).replace("\x00", " ").split())


def record_id(value: object) -> str:
    """Return an id as text; "" if the value is none.

    Raises:
        ValueError: It is not valid Unicode.
    """
    if type(value) is str and value.isascii():
        return value.strip() if len(value) <= _LONGEST_ID else ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    if isinstance(value, int) and abs(value) >= 10**_LONGEST_ID:
        return ""
    text = _valid(str(value)).strip()
    return text if len(text) <= _LONGEST_ID else ""


class TooManyIds(ValueError):
    """A record lists more ids than any real one."""


def record_ids(lists: Iterable[object]) -> tuple[str, ...]:
    """Return the ids in the lists of a record, as `record_id` does; what is no list is passed over.

    Raises:
        TooManyIds: There are too many.
        ValueError: One is not valid Unicode.
    """
    id_lists = [values for values in lists if isinstance(values, list)]
    if sum(map(len, id_lists)) > _MAX_IDS:
        raise TooManyIds(f"more than {_MAX_IDS:,} ids")
    return tuple(record_id(value) for values in id_lists for value in values)


def _valid(text: str) -> str:
    """Return text that UTF-8 can hold: two halves of one character are joined, single ones refused."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    return text
