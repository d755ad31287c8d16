"""What is computed from a store and kept beside it: capped relations, parts of splits, token tables.

Each is a folder below the store, named by a hash of what it depends on, with a manifest of its own that names the
store's build hash: a store that is built again does not meet what was derived from the old one. Where the store's
folder cannot be written to, it goes to a temporary folder that ends with the process.

A store may come from somebody else. What is derived from it can hold private data, so nothing below the store may be
a link: it would be written to where the link leads. The store's folder itself may be one.

Public inside the package: `Derived`, `derived`, `is_derived`, `require_whole`, `scratch_in`,
`store_of`.
"""

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

from reldp._remove_tree import remove_tree
from reldp.errors import GraphError, RunError
from reldp.graph.store.blocks import BlockChecker, FileBlocks, hash_blocks
from reldp.graph.store.manifest import MANIFEST as STORE_MANIFEST
from reldp.graph.store.manifest import is_fingerprint
from reldp.graph.store.places import exclusive, put
from reldp.runs.durable import disk_errors, sync_folder, write_durably
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["Derived", "derived", "is_derived", "require_whole", "scratch_in", "store_of"]

_MANIFEST = "derived.json"
_LARGEST = 10**9  # bytes


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A folder of arrays that were computed from a store.

    Attributes:
        folder: Where they are.
        values: Plain values that were kept with them.
        files: Blocks of each file, by name.
        is_new: Whether this call has made it. Otherwise somebody else may have, with hashes that fit.
    """

    folder: Path
    values: dict[str, Any]
    files: dict[str, FileBlocks] = field(repr=False)
    is_new: bool = field(default=False, compare=False)

    @property
    def place(self) -> str:
        """The folder as errors name it."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def sha256(self) -> str:
        """Hash of the hashes of all files."""
        blocks = {name: blocks.to_json() for name, blocks in self.files.items()}
        return hashlib.sha256(json.dumps(blocks, sort_keys=True).encode()).hexdigest()

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return an array, mapped, after checking the whole file.

        Raises:
            GraphError: The file is not as it was made, or not named.
        """
        if name not in self.files:
            raise self.refusal()
        return BlockChecker(self.folder / name, self.files[name]).array()

    def refusal(self, name: str = "", rule: str = "be as it was made") -> GraphError:
        """Return the error for content that was not computed from the store.

        Args:
            name: The file (default: the manifest).
            rule: What it must do.
        """
        what = f"{name} in {self.place}" if name else f"{_MANIFEST} in {self.place}"
        got = "other values" if name else "other files or values"
        return GraphError(
            f"{what} must {rule}, got {got}. Remove that folder, or build the store again."
        )


def derived(
    store: Path,
    kind: str,
    depends_on: Mapping[str, Any],
    make: Callable[[Path], dict[str, Any]],
) -> Derived:
    """Return what is kept for these settings, and make it first if there is none.

    Args:
        store: The store's folder.
        kind: Name of the folder below it.
        depends_on: Everything that the arrays depend on, as plain values, the store's build hash among
            them.
        make: Writes arrays into a folder and returns values to keep, with the `boundaries` of blocks by file
            where they are not equal; files in a folder `scratch` there are removed.

    Raises:
        GraphError: It cannot be written, or a link is in its place.
    """
    text = json.dumps(depends_on, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    _refuse_links(store, kind, name)
    for base in (store, *_temporary(store, existing=True)):
        existing = _open(base / kind / name, text)
        if existing is not None:
            return existing
    base = store if os.access(store, os.W_OK) else _temporary(store)[0]
    place = base / kind / name
    try:
        with disk_errors(place.parent):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _made(place, text, make)
    except RunError as error:
        raise GraphError(str(error)) from error


def is_derived(store: Path, kind: str, depends_on: Mapping[str, Any]) -> bool:
    """Return whether something is kept for these settings.

    Raises:
        GraphError: A link is in its place.
    """
    text = json.dumps(depends_on, sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    _refuse_links(store, kind, name)
    bases = (store, *_temporary(store, existing=True))
    return any(_open(base / kind / name, text) is not None for base in bases)


def require_whole(part: Derived, files: set[str], values: tuple[str, ...] = ()) -> Derived:
    """Return what was derived from a store if it names these files and values, and no other files."""

    def fits(name: str) -> bool:
        value = part.values.get(name)
        return is_fingerprint(value) if name == "fingerprint" else type(value) is int and value >= 0

    if set(part.files) != files or not all(map(fits, values)):
        raise part.refusal()
    return part


def _refuse_links(store: Path, kind: str, name: str) -> None:
    """Refuse a link in the place of anything that is read or written for one thing that is derived."""
    place = store / kind / name
    for path in (place.parent, place, _lock(place), _partial(place)):
        if path.is_symlink():
            raise GraphError(
                f"{path.relative_to(store).as_posix()} in {store.name} must be in the store itself, got a link: "
                "private data would be written to where it leads. Remove the link."
            )


def _lock(place: Path) -> Path:
    return place.with_name(f"{place.name}.lock")


def _partial(place: Path) -> Path:
    return place.with_name(f".{place.name}.partial")


def _made(place: Path, text: str, make: Callable[[Path], dict[str, Any]]) -> Derived:
    """Make a folder under another name and rename it; another process that makes the same is waited for."""
    with exclusive(_lock(place)):
        existing = _open(place, text)
        if existing is not None:
            return existing
        partial = _partial(place)
        remove_tree(partial)
        try:
            for folder in (partial, partial / "scratch"):
                folder.mkdir(mode=0o700)
            values = make(partial)
            boundaries = values.pop("boundaries", {})
            shutil.rmtree(partial / "scratch")
            names = sorted(path.name for path in partial.iterdir())
            files = {
                name: hash_blocks(partial / name, boundaries.get(name)).to_json() for name in names
            }
            sync_folder(partial)
            content = {"depends_on": text, "values": values, "files": files}
            data = json.dumps(content, sort_keys=True).encode()
            write_durably(partial / _MANIFEST, data, mode=0o600)
            remove_tree(place)  # damaged
            put(partial, place)
        finally:
            remove_tree(partial)
    made = _open(place, text)
    assert made is not None
    return replace(made, is_new=True)


def _open(place: Path, text: str) -> Derived | None:
    """Return what is in a folder; None if there is nothing, or something else."""
    if not (place / _MANIFEST).is_file():
        return None
    try:
        content = parse_json(read_plain(place / _MANIFEST, limit=_LARGEST), _MANIFEST)
        files = {name: FileBlocks.from_json(blocks) for name, blocks in content["files"].items()}
        if content["depends_on"] != text:
            return None
        return Derived(folder=place, values=dict(content["values"]), files=files)
    except (RunError, ValueError, KeyError, TypeError, AttributeError):
        return None


def store_of(folder: Path) -> Path:
    """Return the folder of the store that a part was made from; any other folder is returned as it is.

    A graph of somebody else may hold a file of that name. It leads upwards only if it leads to a store.
    """
    store = folder
    while (store / _MANIFEST).is_file():
        base = store.parent.parent  # below it are the kind and the name
        store = _TEMPORARY.get(base, base)
    return store if (store / STORE_MANIFEST).is_file() else folder


@contextmanager
def scratch_in(store: Path) -> Iterator[Path]:
    """Make a folder for temporary files: in the store, where there is room for data of its size.

    Raises:
        GraphError: They cannot be written.
    """
    place = store if os.access(store, os.W_OK) else None
    try:
        with (
            disk_errors(Path(f"temporary files in {store.name}")),
            tempfile.TemporaryDirectory(prefix=".scratch-", dir=place) as folder,
        ):
            yield Path(folder)
    except RunError as error:
        raise GraphError(str(error)) from error


@cache
def _temporary_folder(store: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="reldp-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _TEMPORARY[folder] = store
    return folder


_IN_USE: set[Path] = set()
_TEMPORARY: dict[Path, Path] = {}  # stores by their temporary folders


def _temporary(store: Path, *, existing: bool = False) -> list[Path]:
    """Return the temporary folder of a store that cannot be written to."""
    if existing and store not in _IN_USE:
        return []
    _IN_USE.add(store)
    return [_temporary_folder(store)]
