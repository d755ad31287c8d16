"""``reldp.verify``: recomputes everything a certificate says, and fails loudly on any difference.

Every published file is compared byte for byte with what follows from plan.json and ledger.jsonl:
the certificate (whose two numbers for epsilon may differ by 1e-6 between machines, and nothing else),
certificate.md, the model card, the report; the model's files and the checkpoint with the hashes in
the ledger, sensitive.json with the commitment there. Nothing is taken from the certificate itself. No
link is followed, no pipe waited for, and whatever does not belong to a run is named.

What it cannot see: somebody who rewrites plan, ledger, model and certificate together, hashes
included. Keep the ledger's head (it is in the certificate) somewhere else to guard against that.

Public: `verify`, `Verification`. Public inside the package: `verify_files`.

>>> verify("nowhere")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from reldp.errors import LedgerError, ReldpError, VerificationError
from reldp.plan import PrivacyPlan
from reldp.reporting.comparison import agreed_certificate
from reldp.reporting.owner_files import checkpoint_differences, sensitive_differences
from reldp.reporting.report import report_page
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import LedgerRecord, parse_ledger
from reldp.runs.model_card import model_card
from reldp.runs.plain_files import hash_plain, list_plain, read_plain
from reldp.runs.run_folder import CARD, FILE_LIMIT, LEDGER_LIMIT, RunFolder, read_plan
from reldp.runs.strict_json import parse_json

__all__ = ["Verification", "verify", "verify_files"]

_MOST_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A run that holds what it says.

    Attributes:
        checks: What was checked, in order, in words.
        certificate: The certificate that is stated; it follows from plan and ledger.
    """

    checks: tuple[str, ...]
    certificate: Certificate


def verify(folder: str | Path) -> Verification:
    """Recompute a complete run's certificate from its plan and ledger.

    Args:
        folder: The run folder. A published copy may lack sensitive.json, checkpoints, report.html and
            the sensitive files; what is there must be right.

    Raises:
        RunError: There is no run in the folder.
        VerificationError: Anything differs; the message names everything that does.
    """
    run = RunFolder(folder)
    found = verify_files(run)
    page = _Inspector(run, found)
    page.check("report.html is the page that follows from the run", page.report)
    page.refuse_failures()
    return Verification(checks=found.checks + tuple(page.passed), certificate=found.certificate)


def verify_files(run: RunFolder) -> Verification:
    """Verify everything but the report.

    Raises:
        RunError: There is no run in the folder.
        VerificationError: Anything differs.
    """
    _require_run(run)
    _refuse_old_format(run)
    inspector = _Inspector(run)
    for words, look in (
        ("the folder holds the files of a run, and no link or other file", inspector.folder),
        ("ledger.jsonl: its hash chain is whole, and its entries possible", inspector.ledger),
        ("plan.json is the plan that the ledger names", inspector.plan),
        ("the run is complete and its key destroyed", inspector.completion),
        ("model/ holds the files that the run wrote, and no other", inspector.model),
        ("certificate.json follows from plan and ledger", inspector.certificate),
        ("certificate.md and model/README.md say the same", inspector.pages),
        ("sensitive.json and checkpoints, if there, are those of the run", inspector.kept),
    ):
        inspector.check(words, look)
    inspector.refuse_failures()
    assert inspector.agreed is not None
    return Verification(checks=tuple(inspector.passed), certificate=inspector.agreed)


def _require_run(run: RunFolder) -> None:
    """Refuse a folder that is not a run; a run whose ledger was removed is one that fails."""
    if not os.path.lexists(run.ledger):
        if any(os.path.lexists(place) for place in (run.plan, run.certificate, run.model)):
            raise VerificationError(f"The run in {run.path.name!r} has no ledger.jsonl.")
        run.require_run()


def _refuse_old_format(run: RunFolder) -> None:
    """Say of a run of an older version that it is one, instead of naming differences."""
    try:
        first = read_plain(run.ledger, limit=LEDGER_LIMIT).partition(b"\n")[0]
        start = parse_json(first, run.ledger.name)
    except ReldpError:
        return  # whatever is wrong is named by the checks
    if isinstance(start, dict) and start.get("format") == 1 and start.get("kind") == "start":
        raise VerificationError(
            f"The run in {run.path.name!r} has format 1, which reldp 0.3 and earlier wrote, and is "
            "not verified by this version. Use the version that it was made with."
        )


class _Inspector:
    """Goes through a run and keeps what it found."""

    def __init__(self, run: RunFolder, found: Verification | None = None) -> None:
        self._run = run
        self._found = found
        self._record: LedgerRecord | None = None
        self._plan: PrivacyPlan | None = None
        self._remade: Certificate | None = None
        self.agreed: Certificate | None = None
        self.passed: list[str] = []
        self.failures: list[str] = []

    def check(self, words: str, look: Callable[[], Iterator[str]]) -> None:
        """Run one check; whatever it finds, or stumbles over, is a failure."""
        try:
            found = list(look())
        except ReldpError as error:
            found = [str(error)]
        self.failures += [line for line in found if line not in self.failures]
        if not found:
            self.passed.append(words)

    def refuse_failures(self) -> None:
        """Raise one error that names everything that was found."""
        if self.failures:
            raise VerificationError(
                f"The run in {self._run.path.name!r} does not hold what it says: "
                f"{' '.join(self.failures)}"
            )

    def folder(self) -> Iterator[str]:
        listing = list_plain(self._run.path)
        for name, kind in sorted(listing.odd.items()):
            yield f"{name!r} is {kind}."
        found = (*listing.files, *(f"{folder}/" for folder in listing.empty))
        foreign = [name for name in found if not self._run.knows(name)]
        for name in foreign[:_MOST_NAMED]:
            yield f"{name!r} is no file of a run."
        if len(foreign) > _MOST_NAMED:
            yield f"{len(foreign) - _MOST_NAMED:,} more are none either."

    def ledger(self) -> Iterator[str]:
        data = read_plain(self._run.ledger, limit=LEDGER_LIMIT)
        try:
            self._record = parse_ledger(data)
        except LedgerError as error:
            yield f"ledger.jsonl: {error}"

    def plan(self) -> Iterator[str]:
        plan = read_plan(self._run)
        if self._record is None:
            return
        if plan.hash == self._record.start.get("plan_hash"):
            self._plan = plan
        else:
            yield "plan.json is not the plan that the run was started with."

    def completion(self) -> Iterator[str]:
        if self._record is not None and self._record.completion is None:
            yield "ledger.jsonl has no end: the run is not complete, or its last lines are gone."
        if os.path.lexists(self._run.key):
            yield "The file key is still there: whoever has it can subtract the noise."

    def model(self) -> Iterator[str]:
        was = self._made.values["model"]["files"]
        listing = list_plain(self._run.model)
        for name in (*listing.odd, *listing.empty):
            yield f"model/{name} is new."
        for name in sorted({*was, *listing.files} - {CARD}):
            if name not in was:
                yield f"model/{name} is new."
            elif name not in listing.files:
                yield f"model/{name} is missing."
            elif hash_plain(self._run.model / name) != was[name]:
                yield f"model/{name} is changed."

    def certificate(self) -> Iterator[str]:
        stated = read_plain(self._run.certificate, limit=FILE_LIMIT)
        self.agreed = agreed_certificate(stated, self._made)
        yield from ()

    def pages(self) -> Iterator[str]:
        certificate = self.agreed or self._made
        text = certificate.to_markdown().encode()
        if read_plain(self._run.certificate_text, limit=FILE_LIMIT) != text:
            yield "certificate.md does not say what follows from plan and ledger."
        card = model_card(certificate.values).encode()
        if read_plain(self._run.card, limit=FILE_LIMIT) != card:
            yield f"model/{CARD}, the model card, does not say what follows from plan and ledger."

    def kept(self) -> Iterator[str]:
        data = self._made.values["data"]
        yield from sensitive_differences(self._run, data["commitment"])
        if self._record is not None:
            yield from checkpoint_differences(self._run, self._record.checkpoint)

    def report(self) -> Iterator[str]:
        if self._found is None or not os.path.lexists(self._run.report):
            return
        page = read_plain(self._run.report, limit=FILE_LIMIT)
        for public in (True, False):
            made = report_page(
                self._run, self._found.certificate, self._found.checks, public=public
            )
            if page == made.encode():
                return
        yield "report.html is not what follows from the run. Write it anew with reldp report."

    @property
    def _made(self) -> Certificate:
        """The certificate that follows from plan and ledger."""
        if self._remade is None:
            if self._plan is None or self._record is None or self._record.completion is None:
                raise VerificationError(
                    "No certificate follows from this plan.json and ledger.jsonl."
                )
            self._remade = Certificate.from_ledger(self._plan, self._record)
        return self._remade
