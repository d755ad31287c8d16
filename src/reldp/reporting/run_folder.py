"""The files of a run folder, by name.

    plan.json          the privacy plan (public)
    ledger.jsonl       what ran (public)
    key, private.json  the secret key while the run lasts; the graph's fingerprint (both mode 0600)
    checkpoints/       the newest checkpoint: noisy weights and what follows from them
    model/             the encoder that came out, with a model card
    metrics.jsonl      losses, norms and batch sizes: *sensitive* (mode 0600)
    evaluations.jsonl  what `reldp evaluate` found: *sensitive* (mode 0600)
    tensorboard/       the same numbers for TensorBoard, where asked for: *sensitive*
    certificate.json, certificate.md, report.html

Public: `RunFolder`, `file_hashes`, `read_json`, `read_plan`.

>>> RunFolder("run").ledger.name
'ledger.jsonl'
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reldp.durable import disk_errors
from reldp.errors import PlanError, RunError
from reldp.plain_files import hash_plain, list_plain, read_plain
from reldp.plan import PrivacyPlan
from reldp.strict_json import parse_json

__all__ = ["RunFolder", "file_hashes"]

CARD = "README.md"
# What files that are read whole may have at most.
LEDGER_LIMIT = 2**28
FILE_LIMIT = 2**26


_FOLDERS = ("model", "checkpoints", "tensorboard")
_FILES = (
    *("plan.json", "ledger.jsonl", "private.json", "metrics.jsonl", "evaluations.jsonl"),
    *("certificate.json", "certificate.md", "report.html"),
)


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
        self.tensorboard = self.path / "tensorboard"
        self.certificate = self.path / "certificate.json"
        self.certificate_text = self.path / "certificate.md"
        self.report = self.path / "report.html"

    def __repr__(self) -> str:
        return f"RunFolder({self.path.name!r})"

    @property
    def has_run(self) -> bool:
        """Whether a run was started here."""
        return self.ledger.exists()

    def knows(self, name: str) -> bool:
        """Whether a file of this name, relative to the folder, belongs in it; the key does not."""
        first, slash, rest = name.partition("/")
        if first == self.tensorboard.name and rest:
            return rest.startswith("events.out.tfevents.") and "/" not in rest
        return first in (_FOLDERS if slash else _FILES)

    def require_run(self) -> None:
        """Refuses a folder without a run."""
        if not self.path.is_dir():
            raise RunError(f"The run folder must exist, got {str(self.path)!r}.")
        if not self.has_run:
            raise RunError(
                f"The run folder must hold {self.ledger.name}, got {str(self.path)!r} without it."
            )

    def read_lines(self, path: Path) -> list[dict[str, Any]]:
        """The JSON lines of a file that may not be there; a torn last line is left out."""
        if not os.path.lexists(path):
            return []
        try:
            whole, _, _ = read_plain(path, limit=LEDGER_LIMIT).decode("utf-8").rpartition("\n")
            return [dict(json.loads(line)) for line in whole.split("\n") if line]
        except (ValueError, TypeError, RecursionError):
            raise RunError(f"{path.name} must hold JSON lines, got damage.") from None

    def append_line(self, path: Path, values: Mapping[str, Any]) -> None:
        """Adds a JSON line to a file that only its owner can read."""
        with disk_errors(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with open(descriptor, "a", encoding="utf-8") as file:
                file.write(json.dumps(values) + "\n")


def read_json(path: Path) -> Any:
    """The JSON of a model's file, or one clear line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{path.name} must be there to be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise RunError(f"{path.name} must hold JSON, got damage.") from None


def read_plan(run: RunFolder) -> PrivacyPlan:
    """The plan of a run, whose file must have the very bytes that a plan is written as.

    Raises:
        RunError: The file is missing, or written in another way.
        PlanError: It holds no plan.
    """
    name = run.plan.name
    data = read_plain(run.plan, limit=FILE_LIMIT)
    values = parse_json(data, name)
    if not isinstance(values, dict):
        raise RunError(f"{name} must hold one object, got {type(values).__name__}.")
    try:
        plan = PrivacyPlan.from_dict(values)
    except PlanError as error:
        raise PlanError(f"{name}: {error}") from None
    if data != plan_bytes(plan):
        raise RunError(f"{name} must be written as reldp writes a plan, got other bytes.")
    return plan


def plan_bytes(plan: PrivacyPlan) -> bytes:
    """What plan.json holds."""
    return (plan.to_json() + "\n").encode()


def file_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a model folder by its path; the card, which quotes them, apart."""
    return {name: hash_plain(folder / name) for name in list_plain(folder).files if name != CARD}
