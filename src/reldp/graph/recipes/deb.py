r"""What Debian ships: package files (``.deb``), control paragraphs and apt, all without root.

Guarantees: nothing is unpacked to disk (members are returned as bytes, so no name inside an archive
can choose a path), nothing found inside an archive is run, and a damaged file is a
:class:`GraphError` that names the file. Public: :func:`apt_get`, :func:`read_deb`,
:func:`read_text`, :func:`paragraphs`. Part of the data preparation that theory.md 2.2
leaves outside the guarantee.

>>> list(paragraphs("Package: hello\nDescription: greets\n the world\n\nPackage: bye\n"))
[{'Package': 'hello', 'Description': 'greets\n the world'}, {'Package': 'bye'}]
"""

import bz2
import gzip
import io
import lzma
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reldp.errors import GraphError

__all__ = ["DebianPackage", "apt_get", "paragraphs", "read_deb", "read_text"]

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_MAX_MEMBER = 1 << 29  # no text file of a package comes near half a gigabyte


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
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.split("\n"):
            if line[:1] in (" ", "\t"):
                if name:
                    fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def _lz4(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "lz4") as stream:
        return bytes(stream.read())


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read())


_DECOMPRESSORS = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
    ".lz4": _lz4,
    ".zst": _zstd,
}


def _decompress(data: bytes, suffix: str, where: str) -> bytes:
    """Return the plain bytes; a suffix that is not a known compression means the data are plain."""
    if suffix not in _DECOMPRESSORS:
        return data
    try:
        return _DECOMPRESSORS[suffix](data)
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise GraphError(
            f"`source` must hold readable {suffix[1:]} data, got damaged data in {where} ({error})."
        ) from None


def read_text(path: Path) -> str:
    """Return the text of a plain or compressed file (gz, xz, bz2, lz4, zst)."""
    data = _decompress(path.read_bytes(), path.suffix, path.name)
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


def _tar_files(data: bytes, prefix: str, where: str) -> dict[str, bytes]:
    """Regular files below ``prefix``; links, devices and everything else are passed over."""
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if not (member.isfile() and name.startswith(prefix)):
                    continue
                if member.size > _MAX_MEMBER:
                    raise GraphError(f"`source` has a member of {member.size} bytes, in {where}.")
                stream = archive.extractfile(member)
                files[name] = stream.read() if stream else b""
    except tarfile.TarError as error:
        raise GraphError(
            f"`source` must be a whole Debian package, got {where} ({error})."
        ) from None
    return files


def read_deb(path: Path, prefix: str = "") -> DebianPackage:
    """Read the control fields and the files below ``prefix`` from a ``.deb``.

    Args:
        path: The package file.
        prefix: Only files whose path inside the package starts so, such as ``usr/share/wordnet/``.

    Raises:
        GraphError: The file is not a whole Debian package.
    """
    control: dict[str, str] | None = None
    files: dict[str, bytes] | None = None
    for name, data in _ar_members(path.read_bytes(), path.name):
        plain_name, dot, compression = name.partition(".tar")
        if not dot:
            continue
        plain = _decompress(data, compression, path.name)
        if plain_name == "control":
            control_text = _tar_files(plain, "control", path.name).get("control", b"")
            control = next(paragraphs(control_text.decode("utf-8", "replace")), {})
        elif plain_name == "data":
            files = _tar_files(plain, prefix, path.name)
    if control is None or files is None:
        raise GraphError(
            f"`source` must be a Debian package with control and data, got {path.name}."
        )
    return DebianPackage(control=control, files=files)


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
