"""Where releases of private sizes are kept, so that each is drawn once and reused.

One file, ``sizes.private.json`` of mode 0600, beside the graph and a copy in the user's state folder
(``$RELDP_STATE_DIR``, else ``$XDG_STATE_HOME/reldp``, else ``~/.local/state/reldp``): a graph that is opened by path
and in memory meets the same release. Entries are named by a keyed hash of the capped graph's fingerprint, with a random
salt inside the file, so that neither file names nor entries identify a graph.

A lock is held from the first look to the last write, so two processes get one release. Where the folders hold
different releases of one graph (drawn by two users, say), the graph's own folder decides, and each certificate counts
the release that it used. A damaged file is refused and never replaced: without it the sizes would be released again.

Public: `remembered`, `is_remembered`, `known_values`, `kept_releases`, `name_of_release`, `state_folder`,
`stored_releases`, `DifferentReleasesWarning`, `FILE_NAME`, `RELEASE_FILES`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as home:
...     first = remembered("graph", [Path(home)], dict, lambda: {"n": 1})
...     first == remembered("graph", [Path(home)], dict, lambda: {"n": 2})
True
"""

import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from reldp.errors import GraphError, RunError
from reldp.runs.durable import write_durably
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = [
    "FILE_NAME",
    "RELEASE_FILES",
    "DifferentReleasesWarning",
    "is_remembered",
    "kept_releases",
    "known_values",
    "name_of_release",
    "remembered",
    "state_folder",
    "stored_releases",
]

FILE_NAME = "sizes.private.json"
LOCK_NAME = "sizes.private.lock"
RELEASE_FILES = (FILE_NAME, LOCK_NAME)
FORMAT = 1
_LARGEST = 10**8  # bytes: a release has a few hundred

Release = TypeVar("Release")


def state_folder() -> Path | None:
    """Return the folder of this user's state; None for a user without a home, as in many containers.

    Raises:
        RunError: RELDP_STATE_DIR is a relative path, where the same sizes would be released again elsewhere, or no
            folder.
    """
    configured, shared = os.environ.get("RELDP_STATE_DIR"), os.environ.get("XDG_STATE_HOME", "")
    if configured:
        if not os.path.isabs(configured):
            raise RunError("RELDP_STATE_DIR must be an absolute path, got a relative one.")
        if os.path.lexists(configured) and not os.path.isdir(configured):
            raise RunError("RELDP_STATE_DIR must be a folder, got the path of something else.")
        return Path(configured)
    if os.path.isabs(shared):  # relative ones are to be ignored, as its specification says
        return Path(shared) / "reldp"
    try:
        return Path.home() / ".local" / "state" / "reldp"
    except RuntimeError:
        return None


class DifferentReleasesWarning(UserWarning):
    """Two releases of the sizes of one graph are stored, and are not the same."""


def remembered(
    fingerprint: str,
    folders: Sequence[Path],
    parse: Callable[[dict[str, Any]], Release],
    draw: Callable[[], dict[str, Any]],
) -> Release:
    """Return the release of a graph; draw and store it if no folder holds one.

    Args:
        fingerprint: Of the capped graph.
        folders: Where to look and to write, all of them, the last one first; where a folder cannot be written, its
            release counts all the same.
        parse: Checks the values of an entry, raising `GraphError` if they are no release.
        draw: Makes the values of a new release.

    Raises:
        GraphError: A file is damaged.
        RunError: No folder can be written.
    """
    with _locked(folders) as writable:
        stores = [_Store(folder / FILE_NAME) for folder in folders]
        known = [store.find(fingerprint) for store in stores]
        stored = next((values for values in reversed(known) if values is not None), None)
        if stored is None and not any(writable):
            raise RunError(
                "private sizes could not be stored: no folder for them may be written to. "
                "Set RELDP_STATE_DIR to a folder of yours."
            )
        if any(values not in (None, stored) for values in known):
            warnings.warn(
                "private sizes of this graph are stored twice, in its folder and in the state folder, and differ. "
                "Those in the folder of the graph are used. If both were drawn, each has cost its epsilon; if a file "
                "was edited, no epsilon of a run with it holds.",
                DifferentReleasesWarning,
                stacklevel=2,
            )
        values = draw() if stored is None else stored
        release = parse(values)
        places = list(zip(stores, known, writable, strict=True))
        for store, old, may_write in reversed(places):  # a later budget looks in the last one
            if old is None and may_write:
                store.add(fingerprint, values)
        return release


def is_remembered(fingerprint: str, folders: Sequence[Path]) -> bool:
    """Return whether a folder holds a release of a graph; nothing is drawn, written or created."""
    return bool(known_values(fingerprint, folders))


def known_values(fingerprint: str, folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the values of all stored releases of a graph, the one that decides last; nothing is written."""
    entries = [_Store(folder / FILE_NAME).find(fingerprint) for folder in folders]
    return [values for values in entries if values is not None]


@contextmanager
def kept_releases(old: Path, new: Path) -> Iterator[None]:
    """Copy the releases of a graph folder into one that replaces it, and hold the lock until it is in place.

    Args:
        old: The folder; it may be missing, or have no releases.
        new: A folder without releases.
    """
    if not any((old / name).exists() for name in (FILE_NAME, LOCK_NAME)):
        yield
        return
    with _locked([old]):
        if (old / FILE_NAME).is_file():
            write_durably(new / FILE_NAME, (old / FILE_NAME).read_bytes(), mode=0o600)
        yield


@contextmanager
def _locked(folders: Sequence[Path]) -> Iterator[list[bool]]:
    """Hold the locks of some folders, and say of each whether it can be written.

    A file is locked once, even if folders are one and the same; and all processes lock files in one
    order, so that no two wait for each other.
    """
    with ExitStack() as held:
        opened = [_opened_lock(folder, held) for folder in folders]
        files = {}
        for descriptor in opened:
            if descriptor is not None:
                stored = os.fstat(descriptor)
                files[stored.st_dev, stored.st_ino] = descriptor
        for _, descriptor in sorted(files.items()):
            _lock(descriptor)
        pairs = zip(folders, opened, strict=True)
        yield [lock is not None and os.access(folder, os.W_OK) for folder, lock in pairs]


def _opened_lock(folder: Path, held: ExitStack) -> int | None:
    """Return the open lock file of a folder, to be closed with `held`; None where it cannot be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(folder / LOCK_NAME, flags, 0o600)
    except OSError:
        return None
    held.callback(os.close, descriptor)
    return descriptor


def _lock(descriptor: int) -> None:
    """Wait for the lock; it goes with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise RunError(
            f"{LOCK_NAME} could not be locked: {error.strerror}. "
            "Set RELDP_STATE_DIR, or copy the graph, to a file system with locks."
        ) from None


def stored_releases(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the salt and the releases that are stored in a folder, by name; nothing is written.

    Raises:
        GraphError: The file is damaged.
    """
    place = folder / FILE_NAME
    return _parsed(place) if os.path.lexists(place) else ("", {})


def name_of_release(salt: str, fingerprint: str) -> str:
    """Return the name of a capped graph's release in a file with this salt."""
    return hashlib.blake2b(
        fingerprint.encode(), key=bytes.fromhex(salt), digest_size=16
    ).hexdigest()


class _Store:
    """The entries of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._salt, self._entries = secrets.token_hex(32), dict[str, Any]()
        if os.path.lexists(path):
            self._salt, self._entries = _parsed(path)

    def find(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the values stored for a graph."""
        entry: dict[str, Any] | None = self._entries.get(self._name(fingerprint))
        return entry

    def add(self, fingerprint: str, values: dict[str, Any]) -> None:
        """Store the values of a graph that has none."""
        entries = {**self._entries, self._name(fingerprint): values}
        content = {"format": FORMAT, "salt": self._salt, "releases": entries}
        write_durably(
            self._path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode(), mode=0o600
        )

    def _name(self, fingerprint: str) -> str:
        return name_of_release(self._salt, fingerprint)


def _parsed(path: Path) -> tuple[str, dict[str, Any]]:
    """Return salt and entries of a file, read strictly."""
    if path.exists() and not os.access(path, os.R_OK):
        raise GraphError(
            f"{FILE_NAME} must be readable, and belongs to another user, who released the sizes of a graph in this "
            "folder. Ask for a copy that you may read: a second release would add its epsilon."
        )
    try:
        content = parse_json(read_plain(path, limit=_LARGEST), FILE_NAME)
    except RunError as error:
        raise _damaged(str(error).rstrip(".")) from None
    if not isinstance(content, dict) or set(content) != {"format", "salt", "releases"}:
        raise _damaged("it is not an object of format, salt and releases")
    salt, entries = content["salt"], content["releases"]
    if content["format"] != FORMAT or isinstance(content["format"], bool):
        raise _damaged(f"its format is {content['format']!r}, and this version reads {FORMAT}")
    if not _is_hex(salt, 64) or not isinstance(entries, dict):
        raise _damaged("its salt or its releases are malformed")
    if not all(_is_hex(name, 32) and isinstance(value, dict) for name, value in entries.items()):
        raise _damaged("a release is malformed")
    return salt, entries


def _is_hex(value: object, length: int) -> bool:
    return isinstance(value, str) and len(value) == length and set(value) <= set("0123456789abcdef")


def _damaged(reason: str) -> GraphError:
    return GraphError(
        f"{FILE_NAME} is damaged: {reason}. Restore it from a backup: without it the sizes are released "
        "a second time, and that adds its epsilon to every earlier release."
    )
