"""``sensitive.json``: ties a run to its data; sensitive, and readable by its owner only.

A hash of private data would let somebody who knows everything but one entity confirm a guess about
that entity. So the public ledger holds a *commitment* instead: a keyed hash of the whole record,
whose key (the salt) never leaves this file. The commitment binds the owner to the record and reveals
nothing about it; a changed record no longer belongs to the ledger.

Public inside the package: `SensitiveRecord`, `check_sensitive_file`.

>>> SensitiveRecord(salt="00" * 32, fingerprint="ab" * 32).commitment[:8]
'0eef352e'
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from reldp.errors import RunError
from reldp.runs.durable import write_durably
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["SensitiveRecord", "check_sensitive_file"]

_OWNER_ONLY = 0o600
_LIMIT = 2**26


@dataclass(frozen=True, kw_only=True)
class SensitiveRecord:
    """The data of a run: its fingerprint and exact statistics.

    Attributes:
        salt: 32 random bytes in hexadecimal digits: the key of the commitment.
        fingerprint: SHA-256 over the capped graph's content.
        statistics: Counts and the like, computed from the data without noise, as JSON values.
    """

    salt: str
    fingerprint: str
    statistics: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("salt", "fingerprint"):
            if not _is_sha256(getattr(self, name)):
                raise RunError(f"`{name}` of sensitive.json must be 64 hexadecimal digits.")
        if not isinstance(self.statistics, Mapping):
            raise RunError("`statistics` of sensitive.json must be a table of values.")

    @classmethod
    def new(
        cls, fingerprint: str, statistics: Mapping[str, Any] | None = None
    ) -> "SensitiveRecord":
        """Return the record of a new run, with a fresh random salt."""
        salt = secrets.token_hex(32)
        return cls(salt=salt, fingerprint=fingerprint, statistics=dict(statistics or {}))

    @property
    def commitment(self) -> str:
        """The public commitment to this record: binds to all of it and reveals nothing about it."""
        values = asdict(self)
        del values["salt"]
        return self._keyed_hash("record", json.dumps(values, sort_keys=True, allow_nan=False))

    def commit(self, name: str, sha256: str) -> str:
        """Return a commitment to a sensitive hash that is not part of the record.

        Args:
            name: What is hashed; commitments with different names cannot be exchanged.
            sha256: The hash; sensitive.
        """
        return self._keyed_hash(f"commit {name}", sha256)

    def _keyed_hash(self, purpose: str, text: str) -> str:
        message = f"reldp sensitive 2 {purpose}\n{text}".encode()
        return hmac.new(bytes.fromhex(self.salt), message, hashlib.sha256).hexdigest()

    def write(self, path: Path) -> None:
        """Write a file that only its owner can read."""
        write_durably(path, self._bytes, mode=_OWNER_ONLY)

    @classmethod
    def read(cls, path: Path) -> "SensitiveRecord":
        """Return the record that `write` wrote.

        Raises:
            RunError: The file is missing, or is not such a record.
        """
        return cls.parse(read_plain(path, limit=_LIMIT), path.name)

    @classmethod
    def parse(cls, data: bytes, name: str) -> "SensitiveRecord":
        """Return the record in the bytes that `write` wrote, and in no others.

        Args:
            data: The whole content of the file.
            name: The file's name, for messages.

        Raises:
            RunError: The bytes are not such a record.
        """
        values = parse_json(data, name)
        known = {item.name for item in fields(cls)}
        if not isinstance(values, dict) or set(values) != known:
            raise RunError(f"{name} must hold a run's sensitive record, got damage.")
        record = cls(**values)
        if record._bytes != data:
            raise RunError(f"{name} must be written as reldp writes it, got other bytes.")
        return record

    @property
    def _bytes(self) -> bytes:
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()


def check_sensitive_file(path: Path, commitment: str) -> SensitiveRecord:
    """Return the record in a file, if it is the one that the ledger commits to.

    Args:
        path: The run's sensitive.json.
        commitment: ``graph.commitment`` of the ledger's start.

    Raises:
        RunError: The file is missing, damaged, or belongs to another run.
    """
    record = SensitiveRecord.read(path)
    if not hmac.compare_digest(record.commitment, str(commitment)):
        raise RunError(
            f"{path.name} must be the record that the ledger commits to, got another. It was "
            "changed, or belongs to another run."
        )
    return record


def _is_sha256(value: object) -> bool:
    digits = set("0123456789abcdef")
    return isinstance(value, str) and len(value) == 64 and set(value) <= digits
