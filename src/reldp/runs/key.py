"""The run's secret key: made, read, bound to what a run computes, destroyed.

Whoever holds the key can subtract the noise (theory.md 6), so it is a file that only its
owner can read, made before the first step and destroyed when no more noise is needed.

The key is never used directly. Random draws and noise come from a key that is derived from it and
from everything that determines the sums of a step, so that two copies of a run folder with different
data or settings never draw the same noise, whatever their other files say.

Public inside the package: `make_key`, `read_key`, `bound_key`, `destroy_key`, `refuse_linked_key`.

>>> bound_key(bytes(32), "one graph") == bound_key(bytes(32), "another graph")
False
"""

import hashlib
import os
from pathlib import Path

from reldp.errors import ResumeError, RunError
from reldp.noise import new_key
from reldp.noise.streams import KEY_BYTES
from reldp.runs.durable import disk_errors, remove_durably, write_durably
from reldp.runs.plain_files import read_plain

__all__ = ["bound_key", "destroy_key", "make_key", "read_key", "refuse_linked_key"]

_OWNER_ONLY = 0o600
_ZEROS = bytes(8)
_PERSON = b"reldp run key 2"


def make_key(path: Path) -> bytes:
    """Make a fresh key from the operating system, and write it to the disk until the run is complete."""
    key = new_key()
    write_durably(path, key, mode=_OWNER_ONLY)
    return key


def read_key(path: Path) -> bytes:
    """Return the key of a run that is resumed.

    A key is overwritten with zeros before it is removed, and a disk may lose a block in a crash. Noise from such a key
    could be computed by everybody, so eight zeros in a row are refused; less than one key in 10^17 has them.

    Raises:
        ResumeError: There is none, or not a whole one.
    """
    try:
        key = read_plain(path, limit=KEY_BYTES)
    except RunError:
        key = b""
    if len(key) != KEY_BYTES or _ZEROS in key:
        raise ResumeError(
            "The run's key must be in its folder, got none, a damaged one, or what is left of one that was being "
            "destroyed. Without it no step can be executed; reldp finish releases the model of the steps so far, "
            "reldp abandon gives the run up. Or start a new run in another folder."
        )
    return key


def bound_key(key: bytes, identity: str) -> bytes:
    """Return the key of a run's random draws and noise, derived from its secret key.

    Args:
        key: The run's secret key.
        identity: A text of everything that determines what steps compute.
    """
    content = hashlib.sha256(identity.encode()).digest()
    return hashlib.blake2b(content, digest_size=KEY_BYTES, key=key, person=_PERSON).digest()


def refuse_linked_key(path: Path) -> None:
    """Refuse a link in the place of the key: the key that it leads to would survive the run.

    Raises:
        RunError: It is a link.
    """
    if path.is_symlink():
        raise RunError(
            f"{path.name} must be a file in the run folder, got a link. The key that it leads to would survive the "
            "run, and whoever has it can subtract the noise. Put the file itself here, or erase it and remove the link."
        )


def destroy_key(path: Path) -> None:
    """Overwrite the key and remove it, if it exists.

    Raises:
        RunError: It is a link, or cannot be written.
    """
    refuse_linked_key(path)
    if path.is_file():
        with disk_errors(path), path.open("r+b") as file:
            file.write(bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
    remove_durably(path)
