"""The files of a run folder, by name.

    plan.json          the privacy plan (public)
    ledger.jsonl       what ran (public)
    key, private.json  the secret key while the run lasts; the graph's fingerprint (both mode 0600)
    checkpoints/       the newest checkpoint: noisy weights and what follows from them
    model/             the encoder that came out, with a model card
    metrics.jsonl      losses, norms and batch sizes: *not private* (mode 0600)
    evaluations.jsonl  what `reldp evaluate` found: *not private* (mode 0600)
    audits.json        what `reldp audit` found
    certificate.json, certificate.md, report.html

Public: `RunFolder`, `file_hashes`.

>>> RunFolder("run").ledger.name
'ledger.jsonl'
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reldp.durable import disk_errors
from reldp.errors import RunError

__all__ = ["RunFolder", "file_hashes"]

CARD = "README.md"


class RunFolder:
    """Places in a run folder; nothing is created by naming it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.plan = self.path / "plan.json"
        self.ledger = self.path / "ledger.jsonl"
        self.key = self.path / "key"
        self.private = self.path / "private.json"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.path / "model"
        self.card = self.model / CARD
        self.metrics = self.path / "metrics.jsonl"
        self.evaluations = self.path / "evaluations.jsonl"
        self.audits = self.path / "audits.json"
        self.certificate = self.path / "certificate.json"
        self.certificate_text = self.path / "certificate.md"
        self.report = self.path / "report.html"

    def __repr__(self) -> str:
        return f"RunFolder({self.path.name!r})"

    @property
    def has_run(self) -> bool:
        """Whether a run was started here."""
        return self.ledger.exists()

    def require_run(self) -> None:
        """Refuses a folder without a run."""
        if not self.path.is_dir():
            raise RunError(f"The run folder must exist, got {str(self.path)!r}.")
        if not self.has_run:
            raise RunError(
                f"The run folder must hold {self.ledger.name}, got {str(self.path)!r} without it."
            )

    def read_audits(self) -> list[dict[str, Any]]:
        """The audits of this run, the oldest first; none if there was none."""
        if not self.audits.exists():
            return []
        found = read_json(self.audits)
        if not isinstance(found, list) or not all(isinstance(audit, dict) for audit in found):
            raise RunError(f"{self.audits.name} must hold a list of audits, got another value.")
        return found

    def read_lines(self, path: Path) -> list[dict[str, Any]]:
        """The JSON lines of a file that may not be there; a torn last line is left out."""
        if not path.exists():
            return []
        whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
        try:
            return [dict(json.loads(line)) for line in whole.split("\n") if line]
        except (ValueError, TypeError):
            raise RunError(f"{path.name} must hold JSON lines, got damage.") from None

    def append_line(self, path: Path, values: Mapping[str, Any]) -> None:
        """Adds a JSON line to a file that only its owner can read."""
        with disk_errors(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "a", encoding="utf-8") as file:
                file.write(json.dumps(values) + "\n")


def read_json(path: Path) -> Any:
    """The JSON of a run's file, or one clear line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path.name} must be there to be read: {error.strerror}.") from None
    except ValueError:
        raise RunError(f"{path.name} must hold JSON, got damage.") from None


def file_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model folder by its path; the card, which quotes them, apart."""
    hashes = {}
    for place in sorted(folder.rglob("*")):
        name = place.relative_to(folder).as_posix()
        if place.is_file() and name != CARD:
            with place.open("rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes
