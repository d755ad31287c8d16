"""The files of a run folder, by name.

    plan.json          the privacy plan (public)
    ledger.jsonl       what ran (public)
    key                the secret key, until the run is complete (mode 0600)
    sensitive.json     the graph's fingerprint and exact counts: *sensitive* (mode 0600)
    checkpoints/       the newest checkpoint: noisy weights and what follows from them
    model/             the trained encoder, with a model card
    metrics.jsonl      losses, norms and batch sizes: *sensitive* (mode 0600)
    evaluations.jsonl  results of `reldp evaluate`: *sensitive* (mode 0600)
    tensorboard/       the same metrics for TensorBoard, if enabled: *sensitive*
    budget.json        a random token by which a budget knows the run, if it has one (mode 0600)
    .lock              empty, while a process has the run open
    certificate.json, certificate.md, report.html
    certificate.html   the certificate on one page, with places to sign (public)
    signature.json     in a published bundle: a signature over all other files (public)

Public inside the package: `RunFolder`, `file_hashes`, `read_json`, `read_plan`, `plan_bytes`.

>>> RunFolder("run").ledger.name
'ledger.jsonl'
"""

import json
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from reldp._real_path import real_path
from reldp._validate import check_path
from reldp.errors import PlanError, ResumeError, RunError
from reldp.plan import PrivacyPlan
from reldp.runs.durable import TEMPORARY, disk_errors, remove_leftovers
from reldp.runs.plain_files import LINKED, hash_plain, list_plain, read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["RunFolder", "file_hashes", "plan_bytes", "read_json", "read_plan"]

CARD = "README.md"
BUDGET_TOKEN = "budget.json"
LOCK = ".lock"
# Size limits, in bytes, of files that are read whole.
LEDGER_LIMIT = 2**28
FILE_LIMIT = 2**26
_BLOCK_BYTES = 2**16


_FOLDERS = ("model", "checkpoints", "tensorboard")
_FILES = (
    *("plan.json", "ledger.jsonl", "sensitive.json", "metrics.jsonl", "evaluations.jsonl"),
    BUDGET_TOKEN,
    LOCK,
    *("certificate.json", "certificate.md", "certificate.html", "report.html", "signature.json"),
)
# What commands write while the folder holds a run. The other files are written before its ledger, and what is left of
# them is removed when the run is started again (`reldp.runs.session`).
_REWRITTEN_IN_BUNDLE = ("certificate.html", "report.html", "signature.json")
_REWRITTEN = (BUDGET_TOKEN, "metrics.jsonl", "certificate.json", "certificate.md")


class RunFolder:
    """Paths of the files in a run folder; creates nothing."""

    def __init__(self, path: str | Path) -> None:
        self.path = check_path("folder", path, error=RunError)
        self.plan = self.path / "plan.json"
        self.ledger = self.path / "ledger.jsonl"
        self.key = self.path / "key"
        self.sensitive = self.path / "sensitive.json"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.path / "model"
        self.card = self.model / CARD
        self.metrics = self.path / "metrics.jsonl"
        self.evaluations = self.path / "evaluations.jsonl"
        self.tensorboard = self.path / "tensorboard"
        self.certificate = self.path / "certificate.json"
        self.certificate_text = self.path / "certificate.md"
        self.certificate_form = self.path / "certificate.html"
        self.report = self.path / "report.html"
        self.signature = self.path / "signature.json"

    def __repr__(self) -> str:
        return f"RunFolder({self.path.name!r})"

    @property
    def has_run(self) -> bool:
        """Whether a run was started here."""
        return self.ledger.exists()

    @property
    def is_bundle(self) -> bool:
        """Whether the folder holds what was published of a run, and nothing that is for its owner alone."""
        return self.has_run and not os.path.lexists(self.sensitive)

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Names, relative to the folder, of the temporary files that a killed command may leave beside a run."""
        in_run = () if self.is_bundle else (*_REWRITTEN, f"{self.model.name}/{CARD}")
        return tuple(name + TEMPORARY for name in (*_REWRITTEN_IN_BUNDLE, *in_run))

    def remove_leftovers(self, *, in_bundle: bool = False) -> None:
        """Remove what killed commands left beside a run; nothing else, and nothing that is being written.

        Args:
            in_bundle: Whether to do so in a published bundle, too, which otherwise stays as it is.
        """
        if not self.has_run or (self.is_bundle and not in_bundle):
            return
        home = real_path(self.path)
        for name in self.leftovers:
            place = home / name.removesuffix(TEMPORARY)
            remove_leftovers(place.parent, [place.name])

    def knows(self, name: str) -> bool:
        """Return whether a file of this name, relative to the folder, belongs in it; the key does not."""
        first, slash, rest = name.partition("/")
        if first == self.tensorboard.name and rest:
            return rest.startswith("events.out.tfevents.") and "/" not in rest
        return first in (_FOLDERS if slash else _FILES)

    def require_run(self, *, may_hold_links: bool = False) -> None:
        """Refuse a folder without a run.

        Args:
            may_hold_links: Whether links in it are left alone, because no file is read or written through one.
        """
        if not self.path.is_dir():
            raise RunError(f"The run folder must exist, got {str(self.path)!r}.")
        if not self.has_run:
            unstarted = (
                " A run that was stopped before its first step has none: run reldp train again. If it was there, "
                "restore it."
                if self.key.exists() or self.plan.exists()
                else ""
            )
            raise RunError(
                f"The run folder must hold {self.ledger.name}, got {str(self.path)!r} without it.{unstarted}"
            )
        if not may_hold_links:
            self.refuse_links()
        self.refuse_unreleased()

    def refuse_links(self) -> None:
        """Refuse links in place of files and folders of a run, which would be read or written wherever they lead.

        Raises:
            ResumeError: There is one.
        """
        folders = [self.path / name for name in _FOLDERS]
        for place in folders:
            if place.is_symlink():
                raise ResumeError(
                    f"{place.name} must be a folder in the run folder, got a link. Move the whole run folder instead."
                )
        linked = [f"{place.name}/{name}" for place in folders for name in _links_in(place)]
        linked += [name for name in _FILES if (self.path / name).is_symlink()]
        if linked:
            raise ResumeError(
                f"{linked[0]} must be a file in the run folder, got a link. Put the file itself there."
            )

    def refuse_unreleased(self) -> None:
        """Refuse a run of a search that has not ended: only the best of all its runs is released."""
        parent = real_path(self.path).parent
        is_in_search = parent.name == "runs" and (parent.parent / "search.json").exists()
        if is_in_search or self._is_bound():
            raise RunError(
                "The run must not be one of a search that goes on, got one: only the best run of all is released. Go "
                "on with the search."
            )

    def _is_bound(self) -> bool:
        """Return whether the ledger names a search and no release by it; a damaged one is for its reader to refuse."""
        if not os.path.lexists(self.ledger):
            return False
        try:
            lines = read_plain(self.ledger, limit=LEDGER_LIMIT).splitlines()
            search = json.loads(lines[0]).get("search")
            is_named = isinstance(search, dict) and "release_sha256" in search
            return is_named and all(json.loads(x).get("kind") != "release" for x in lines[1:])
        except (RunError, IndexError, ValueError, AttributeError, RecursionError):
            return False

    def read_lines(self, path: Path) -> list[dict[str, Any]]:
        """Return the JSON lines of a file that may be missing; omit a half-written last line."""
        if not os.path.lexists(path):
            return []
        try:
            whole, _, _ = read_plain(path, limit=LEDGER_LIMIT).decode("utf-8").rpartition("\n")
            return [dict(json.loads(line)) for line in whole.split("\n") if line]
        except (ValueError, TypeError, RecursionError):
            raise RunError(f"{path.name} must hold JSON lines, got damage.") from None

    def append_line(self, path: Path, values: Mapping[str, Any]) -> None:
        """Append a JSON line to a file that only its owner can read; all of it or, on a full disk, nothing.

        A part of a line that a crash has left at the end is removed.
        """
        line = (json.dumps(values) + "\n").encode()
        with disk_errors(path):
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
            with open(descriptor, "r+b", buffering=0) as file:
                before = _end_of_lines(file)
                file.truncate(before)
                try:
                    while line:
                        line = line[file.write(line) :]
                except OSError:
                    file.truncate(before)
                    raise


def _links_in(folder: Path) -> list[str]:
    """Return the names of all links below a folder, if there is one."""
    if not folder.is_dir():
        return []
    return sorted(name for name, kind in list_plain(folder).odd.items() if kind == LINKED)


def _end_of_lines(file: FileIO) -> int:
    """Return the length of a file up to the end of its last whole line."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(end - _BLOCK_BYTES, 0)
        file.seek(start)
        last = file.read(end - start).rfind(b"\n")
        if last >= 0:
            return start + last + 1
        end = start
    return 0


def read_json(path: Path) -> Any:
    """Return the JSON in a file of a model.

    Raises:
        RunError: The file is missing, or is not JSON.
    """
    try:
        return json.loads(read_plain(path, limit=FILE_LIMIT))
    except (ValueError, RecursionError):
        raise RunError(f"{path.name} must hold JSON, got damage.") from None


def read_plan(run: RunFolder) -> PrivacyPlan:
    """Return the plan of a run; the bytes of its file must be exactly those that reldp writes.

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
    """Return the content of plan.json."""
    return (plan.to_json() + "\n").encode()


def file_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a model folder, by path; omit the card, which quotes them."""
    return {name: hash_plain(folder / name) for name in list_plain(folder).files if name != CARD}
