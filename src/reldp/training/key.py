"""The run's secret files: the key, and what ties the ledger to the graph without giving it away.

Whoever holds the key can subtract the noise (theory.md section 6), so it is a file that only its
owner can read, made before the first step and destroyed when no more noise is needed.

A graph's fingerprint would let somebody who knows all of the graph but one entity confirm a guess
about that entity. So the ledger and the certificate hold a commitment instead: a keyed hash of the
fingerprint, whose key (the salt) stays in ``private.json`` with the data's owner.

Public inside the package: `make_key`, `read_key`, `destroy_key`, `GraphSecret`.

>>> GraphSecret(fingerprint="ab", salt="00" * 32).commitment[:8]
'd6b79ceb'
"""

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from reldp.durable import disk_errors, remove_durably, write_durably
from reldp.errors import ResumeError
from reldp.noise import new_key
from reldp.noise.streams import KEY_BYTES

__all__ = ["GraphSecret", "destroy_key", "make_key", "read_key"]

_OWNER_ONLY = 0o600


@dataclass(frozen=True, kw_only=True)
class GraphSecret:
    """Which graph a run is about, for its owner's eyes.

    Attributes:
        fingerprint: SHA-256 over the capped graph's content; *not private*.
        salt: 32 random bytes in hexadecimal digits.
    """

    fingerprint: str
    salt: str

    @classmethod
    def of(cls, fingerprint: str) -> "GraphSecret":
        """A new secret for a graph."""
        return cls(fingerprint=fingerprint, salt=secrets.token_hex(32))

    @property
    def commitment(self) -> str:
        """What may be shown: it binds to the graph and says nothing about it."""
        salt = bytes.fromhex(self.salt)
        return hmac.new(salt, self.fingerprint.encode(), hashlib.sha256).hexdigest()

    def write(self, path: Path) -> None:
        """Writes a file that only its owner can read."""
        write_durably(path, (json.dumps(asdict(self), indent=2) + "\n").encode(), mode=_OWNER_ONLY)

    @classmethod
    def read(cls, path: Path) -> "GraphSecret":
        """The secret that `write` wrote."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise ResumeError(
                f"{path.name} must be in the run folder, whole; it ties the run to its graph."
            ) from None


def make_key(path: Path) -> bytes:
    """A fresh key from the operating system, on disk for the run's lifetime."""
    key = new_key()
    write_durably(path, key, mode=_OWNER_ONLY)
    return key


def read_key(path: Path) -> bytes:
    """The key of a run that goes on."""
    try:
        key = path.read_bytes()
    except OSError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ResumeError(
            "The run's key must be in its folder, got none or a damaged one. Without it the steps "
            "since the checkpoint cannot be repeated; start a new run in another folder."
        )
    return key


def destroy_key(path: Path) -> None:
    """Overwrites the key and removes it, if it is there."""
    if path.exists():
        with disk_errors(path), path.open("r+b") as file:
            file.write(bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
    remove_durably(path)
