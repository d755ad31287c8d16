r"""What Debian ships: package files (``.deb``), control paragraphs and apt, all without root.

Guarantees: nothing is unpacked to disk (members are returned as bytes, so no name inside an archive
can choose a path), nothing found inside an archive is run, a damaged file is a :class:`GraphError`
that names the file, and a file that unpacks to more than a hundred times its size and 16 MiB, or to
more than :data:`MAX_BYTES`, is refused before memory is used. Public: :func:`apt_get`,
:func:`read_deb`, :func:`read_file`, :func:`read_text`, :func:`paragraphs`. Part of the data
preparation that theory.md 2.2 leaves outside the guarantee.

>>> list(paragraphs("Package: hello\nDescription: greets\n the world\n\nPackage: bye\n"))
[{'Package': 'hello', 'Description': 'greets\n the world'}, {'Package': 'bye'}]
"""

import bz2
import gzip
import io
import lzma
import os
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from reldp.errors import GraphError

__all__ = [
    "MAX_BYTES",
    "DebianPackage",
    "apt_get",
    "paragraphs",
    "read_deb",
    "read_file",
    "read_text",
]

MAX_BYTES = 1 << 28
"""Maximum size of a file, packed and unpacked: the largest list of a distribution has a third of it."""

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_RATIO, _ALLOWANCE = 100, 16 * 2**20  # as for the text files of a graph: see `compression`
_BLOCK = 1 << 20
_DAMAGE = (
    EOFError,
    OSError,
    OverflowError,
    RecursionError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tarfile.TarError,
    zlib.error,
)
_NOT_READ = {
    tarfile.XHDTYPE: "a pax header",
    tarfile.XGLTYPE: "a pax header",
    tarfile.SOLARIS_XHDTYPE: "a pax header",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


@dataclass(frozen=True, kw_only=True)
class DebianPackage:
    """What was read from one ``.deb``.

    Attributes:
        control: Fields of the control paragraph, such as ``Package`` and ``Version``.
        files: Contents by path inside the package, without the leading ``./``.
    """

    control: dict[str, str]
    files: dict[str, bytes]


def paragraphs(text: str) -> Iterator[dict[str, str]]:
    """Split control text into paragraphs; continuation lines keep newline and blank."""
    for block in _split(text, "\n\n"):
        fields: dict[str, list[str]] = {}
        name = ""
        for line in _split(block, "\n"):
            if line[:1] in (" ", "\t"):
                if name:
                    fields[name].append(line)
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = [value.strip()]
        if fields:
            yield {name: "\n".join(lines) for name, lines in fields.items()}


def _split(text: str, mark: str) -> Iterator[str]:
    """Parts of a text, one at a time: a list of all could take many times its memory."""
    start = 0
    while (end := text.find(mark, start)) >= 0:
        yield text[start:end]
        start = end + len(mark)
    yield text[start:]


def _arrow(kind: str) -> Callable[[io.BytesIO], Any]:
    def opened(file: io.BytesIO) -> Any:
        import pyarrow as pa

        return pa.CompressedInputStream(pa.PythonFile(file, "r"), kind)

    return opened


_UNPACKED: dict[str, Callable[[io.BytesIO], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
    ".lz4": _arrow("lz4"),
    ".zst": _arrow("zstd"),
}


@contextmanager
def _damage(rule: str) -> Iterator[None]:
    """Turn what the libraries raise on damaged data into one clear error."""
    try:
        yield
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise GraphError(f"`source` must {rule} ({reason}).") from None


def _decompress(data: bytes, suffix: str, where: str, limit: int = MAX_BYTES) -> bytes:
    """Return the plain bytes; a suffix that is not a known compression means the data are plain.

    Raises:
        GraphError: The data are damaged, or unpack to too much.
    """
    if suffix not in _UNPACKED:
        return data
    limit = min(limit, _RATIO * len(data) + _ALLOWANCE)
    plain = io.BytesIO()
    with (
        _damage(f"hold readable {suffix[1:]} data, got damaged data in {where}"),
        _UNPACKED[suffix](io.BytesIO(data)) as stream,
    ):
        while plain.tell() <= limit and (block := stream.read(_BLOCK)):
            plain.write(block)
    if plain.tell() > limit:
        raise GraphError(
            f"`source` must unpack to at most {limit:,} bytes, got more in {where}. "
            "Unpack it yourself if this is right."
        )
    return plain.getvalue()


def read_file(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        GraphError: It is no regular file (a named pipe would block, a device never ends), has more than
            ``limit`` bytes, or cannot be read.
    """
    try:
        regular = path.is_file()
        if regular:
            with path.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                data = stream.read(size) if size <= limit else b""
    except OSError as error:
        raise GraphError(
            f"`source` must be readable, got {path.name}: {error.strerror or error}."
        ) from None
    if not regular:
        what = "which is no regular file" if path.exists() else "which is not there"
        raise GraphError(f"`source` must be a regular file, got {path.name}, {what}.")
    if size > limit:
        raise GraphError(
            f"`source` must have at most {limit:,} bytes in a file, got {size:,} in {path.name}."
        )
    return data


def read_text(path: Path, limit: int = MAX_BYTES) -> str:
    """Return the text of a plain or compressed file (gz, xz, bz2, lz4, zst).

    Raises:
        GraphError: It is no regular file, damaged, no UTF-8, or has more than ``limit`` bytes, packed or unpacked.
    """
    data = _decompress(read_file(path, limit), path.suffix, path.name, limit)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GraphError(
            f"`source` must be UTF-8 text, got other bytes at offset {error.start} of {path.name}."
        ) from None


def _ar_members(data: bytes, where: str) -> Iterator[tuple[str, bytes]]:
    """Members of a common ``ar`` archive, which is what a ``.deb`` is."""
    if not data.startswith(_AR_MAGIC):
        raise GraphError(
            f"`source` must be a Debian package, got {where}, which is not an ar file."
        )
    position = len(_AR_MAGIC)
    while position + _AR_HEADER <= len(data):
        header = data[position : position + _AR_HEADER]
        name = header[:16].decode("ascii", "replace").strip().rstrip("/")
        digits = header[48:58].strip()
        if not digits.isdigit() or position + _AR_HEADER + int(digits) > len(data):
            raise GraphError(f"`source` must be a whole Debian package, got {where} cut short.")
        start = position + _AR_HEADER
        yield name, data[start : start + int(digits)]
        position = start + int(digits) + int(digits) % 2


class _Member(tarfile.TarInfo):
    """A tar member as Debian's own packages have them; what can announce more than it holds is refused.

    `_damage` puts the name of the package before the errors that are raised here.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type in _NOT_READ:
            # Sizes and numbers in pax headers are not checked by tarfile, and each member gets a copy of all.
            raise GraphError(f"its members must be plain, got {_NOT_READ[member.type]}")
        if not 0 <= member.size <= MAX_BYTES:
            raise GraphError(f"its members must have 0 to {MAX_BYTES:,} bytes, got {member.size:,}")
        return member


def _tar_files(data: bytes, prefix: str, where: str) -> dict[str, bytes]:
    """Regular files below ``prefix``; links, devices and everything else are passed over."""
    files: dict[str, bytes] = {}
    # Mode "r:" reads plain tar only: "r" would unpack a second compression inside, without limit.
    with (
        _damage(f"be a whole Debian package, got {where}"),
        tarfile.open(fileobj=io.BytesIO(data), mode="r:", tarinfo=_Member) as archive,
    ):
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and name.startswith(prefix):
                stream = archive.extractfile(member)
                files[name] = stream.read() if stream else b""
    return files


def read_deb(path: Path, prefix: str = "") -> DebianPackage:
    """Read the control fields and the files below ``prefix`` from a ``.deb``.

    Args:
        path: The package file.
        prefix: Only files whose path inside the package starts so, such as ``usr/share/wordnet/``.

    Raises:
        GraphError: The file is not a whole Debian package, or unpacks to too much.
    """
    archives: dict[str, dict[str, bytes]] = {}
    for name, data in _ar_members(read_file(path), path.name):
        part, dot, compression = name.partition(".tar")
        if not dot or part not in ("control", "data"):
            continue
        if part in archives:
            raise GraphError(f"`source` must have one {part} archive, got two in {path.name}.")
        plain = _decompress(data, compression, path.name)
        archives[part] = _tar_files(plain, prefix if part == "data" else "control", path.name)
    if len(archives) < 2:
        raise GraphError(
            f"`source` must be a Debian package with control and data, got {path.name}."
        )
    text = archives["control"].get("control", b"").decode("utf-8", "replace")
    return DebianPackage(control=next(paragraphs(text), {}), files=archives["data"])


def apt_get(arguments: Sequence[str], folder: Path) -> None:
    """Run ``apt-get`` quietly in ``folder``.

    Raises:
        GraphError: There is no apt-get here, or it failed; the message carries its first complaint.
    """
    command = ["apt-get", "--quiet", "--quiet", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise GraphError(
            "`download` needs apt-get, got a machine without it. Use --source instead."
        ) from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise GraphError(
            f"`download` must reach a mirror, got: {reason}. Try apt-get update, or --source."
        )
