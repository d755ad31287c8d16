"""``reldp.verify``: recomputes a certificate from plan and ledger, and reports all differences.

It compares the certificate (whose two numbers for epsilon may differ by 1e-6 between machines),
certificate.md, the model card, the report and the form to sign byte for byte with those that follow from plan.json and
ledger.jsonl; the model's files and the checkpoint with the hashes in the ledger; sensitive.json with
the commitment there. It takes nothing from the certificate itself, follows no link, waits for no pipe,
and names every file that does not belong to a run.

By itself it cannot detect somebody who rewrites plan, ledger, model and certificate together, hashes
included. Two things guard against that: the ledger's head, noted in another place when the run was published, and a
signature by a key that the reader knows. Both can be given.

Public: `verify`, `Verification`. Public inside the package: `verify_files`, `verify_unsigned`.

>>> verify("nowhere")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reldp._plan_settings import MAX_STEPS
from reldp._progress import tick
from reldp.errors import ConfigError, LedgerError, ReldpError, VerificationError
from reldp.plan import PrivacyPlan
from reldp.reporting.certificate_form import certificate_form
from reldp.reporting.comparison import agreed_certificate
from reldp.reporting.owner_files import checkpoint_differences, sensitive_differences
from reldp.reporting.report import report_page
from reldp.reporting.signature import check_signature, read_public_key
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import LedgerRecord, parse_ledger
from reldp.runs.model_card import model_card
from reldp.runs.plain_files import hash_plain, list_plain, read_plain
from reldp.runs.run_folder import (
    BUDGET_TOKEN,
    CARD,
    FILE_LIMIT,
    LEDGER_LIMIT,
    LOCK,
    RunFolder,
    read_plan,
)
from reldp.runs.strict_json import parse_json

__all__ = ["Verification", "verify", "verify_files", "verify_unsigned"]

_CERTIFICATE = "certificate.json follows from plan and ledger"
_PAGES = "certificate.md and model/README.md say the same"
_WRITTEN = "report.html and certificate.html, if there, follow from the run"
_LEFT = "{!r} is what a stopped command left: delete it, or run reldp report again."
_MAX_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A run that passed all checks.

    Attributes:
        checks: The checks that passed, in order, in words.
        certificate: The stated certificate, which follows from plan and ledger.
        unverified: Files for the owner whose content is not compared with anything; a published bundle has none.
    """

    checks: tuple[str, ...]
    certificate: Certificate
    unverified: tuple[str, ...] = ()


def verify(
    folder: str | Path, *, head: str | None = None, key: str | Path | None = None
) -> Verification:
    """Recompute a complete run's certificate from its plan and ledger.

    Args:
        folder: The run folder, or a published bundle. It may lack sensitive.json, checkpoints, report.html,
            certificate.html, signature.json and the sensitive files; those that it has must be right.
        head: Hash of the ledger's last line, as it was noted when the run was published.
        key: File of the Ed25519 public key that must have signed the bundle.

    Raises:
        ConfigError: The head is no hash, or the file holds no such key.
        RunError: There is no run in the folder.
        VerificationError: Anything differs; the message lists all differences.
    """
    if head is not None and re.fullmatch(r"[0-9A-Fa-f]{64}", head) is None:
        raise ConfigError(f"`head` must be 64 hexadecimal digits, got {head[:80]!r}.")
    public_key = None if key is None else read_public_key(key)
    run = RunFolder(folder)
    verified = verify_unsigned(run)
    inspector = _Inspector(run, verified)
    if head is not None:
        inspector.check(
            "the ledger's head is the one that was noted", partial(inspector.head, head.lower())
        )
    if public_key is not None or os.path.lexists(run.signature):
        words = "signature.json is a valid signature of all other files by " + (
            "the key that its own text names (give --key to check whose it is)"
            if public_key is None
            else "the given key"
        )
        inspector.check(words, partial(inspector.signature, public_key))
    inspector.refuse_failures()
    places = (run.metrics, run.evaluations, run.path / BUDGET_TOKEN, run.tensorboard)
    return Verification(
        checks=verified.checks + tuple(inspector.passed),
        certificate=verified.certificate,
        unverified=tuple(place.name for place in places if os.path.lexists(place)),
    )


def verify_unsigned(run: RunFolder) -> Verification:
    """Verify everything except for a signature.

    Raises:
        RunError: There is no run in the folder.
        VerificationError: Anything differs.
    """
    verified = verify_files(run)
    page = _Inspector(run, verified)
    page.check(_WRITTEN, page.written_pages)
    page.refuse_failures()
    return Verification(
        checks=verified.checks + tuple(page.passed), certificate=verified.certificate
    )


def verify_files(run: RunFolder) -> Verification:
    """Verify everything except the report.

    Raises:
        RunError: There is no run in the folder.
        VerificationError: Anything differs.
    """
    _require_run(run)
    run.refuse_unreleased()
    _refuse_old_format(run)
    _refuse_unfinished(run)
    inspector = _Inspector(run)
    checks = (
        ("the folder holds the files of a run, and no link or other file", inspector.folder),
        ("ledger.jsonl: its hash chain is whole, and its entries possible", inspector.ledger),
        ("plan.json is the plan that the ledger names", inspector.plan),
        ("the run is complete and its key destroyed", inspector.completion),
        ("model/ holds the files that the run wrote, and no other", inspector.model),
        (_CERTIFICATE, inspector.certificate),
        (_PAGES, inspector.pages),
        ("sensitive.json and checkpoints, if there, are those of the run", inspector.owner_files),
    )
    for number, (words, look) in enumerate(checks):
        tick("verifying", number, len(checks))
        inspector.check(words, look)
    tick("verifying", len(checks), len(checks))
    inspector.refuse_failures()
    assert inspector.agreed is not None
    return Verification(checks=tuple(inspector.passed), certificate=inspector.agreed)


def _require_run(run: RunFolder) -> None:
    """Refuse a folder without a run; a run without its ledger fails the verification."""
    if not os.path.lexists(run.ledger):
        if any(os.path.lexists(place) for place in (run.plan, run.certificate, run.model)):
            raise VerificationError(f"The run in {run.path.name!r} has no ledger.jsonl.")
        run.require_run()


def _refuse_old_format(run: RunFolder) -> None:
    """Refuse a run of an older version with a message that says so."""
    try:
        first = read_plain(run.ledger, limit=LEDGER_LIMIT).partition(b"\n")[0]
        start = parse_json(first, run.ledger.name)
    except ReldpError:
        return  # the checks report the error
    if isinstance(start, dict) and start.get("format") == 1 and start.get("kind") == "start":
        raise VerificationError(
            f"The run in {run.path.name!r} has format 1, which reldp 0.3 and earlier wrote, and is "
            "not verified by this version. Use the version that it was made with."
        )


def _refuse_unfinished(run: RunFolder) -> None:
    """Refuse a run that was stopped, with what to do; other runs without an end go through the checks."""
    if not os.path.lexists(run.key) or os.path.lexists(run.certificate):
        return
    try:
        record = parse_ledger(read_plain(run.ledger, limit=LEDGER_LIMIT))
    except ReldpError:
        return  # the checks report the error
    if record.completion is None and not record.is_abandoned:
        raise VerificationError(
            f"The run in {run.path.name!r} is not finished, so it has no certificate to verify. Resume it as it was "
            "started, with the same reldp train command or the same program, or end it with reldp finish or reldp "
            "abandon."
        )


class _Inspector:
    """Run the checks, and collect those that passed and the differences."""

    def __init__(self, run: RunFolder, verified: Verification | None = None) -> None:
        self._run = run
        self._verified = verified
        self._record: LedgerRecord | None = None
        self._plan: PrivacyPlan | None = None
        self._remade: Certificate | None = None
        self.agreed: Certificate | None = None
        self.passed: list[str] = []
        self.failures: list[str] = []
        self._has_other_words = False

    def check(self, words: str, look: Callable[[], Iterator[str]]) -> None:
        """Run one check; every difference that it yields, and every error, is a failure."""
        try:
            differences = list(look())
        except ReldpError as error:
            differences = [str(error)]
        self.failures += [line for line in differences if line not in self.failures]
        self._has_other_words |= bool(differences) and words in (_CERTIFICATE, _PAGES, _WRITTEN)
        if not differences:
            self.passed.append(words)

    def refuse_failures(self) -> None:
        """Raise one error that lists all failures."""
        if self.failures:
            raise VerificationError(
                f"The run in {self._run.path.name!r} failed verification: {' '.join(self.failures)}{self._version_hint}"
            )

    @property
    def _version_hint(self) -> str:
        """What to try where sentences of another version may be the reason."""
        import reldp

        versions = None if self._record is None else self._record.start.get("versions")
        if self._verified is not None:
            versions = self._verified.certificate.values["versions"]
        made_by = versions.get("reldp") if isinstance(versions, dict) else None
        if (
            not self._has_other_words
            or not isinstance(made_by, str)
            or made_by == reldp.__version__
        ):
            return ""
        return (
            f" Its ledger names reldp {made_by[:20]!r}, and this is {reldp.__version__}, whose pages may have other "
            "sentences: verify it with the version that it was made with."
        )

    def folder(self) -> Iterator[str]:
        listing = list_plain(self._run.path)
        for name, kind in sorted(listing.odd.items()):
            yield f"{name!r} is {kind}."
        names = (*listing.files, *(f"{folder}/" for folder in listing.empty))
        foreign = [name for name in names if not self._run.knows(name)]
        for name in foreign[:_MAX_NAMED]:
            is_left = name in self._run.leftovers
            yield _LEFT.format(name) if is_left else f"{name!r} is not a file of a run."
        if len(foreign) > _MAX_NAMED:
            yield f"{len(foreign) - _MAX_NAMED:,} more are not either."
        if LOCK in listing.files and os.lstat(self._run.path / LOCK).st_size:
            yield f"{LOCK!r} is not empty."

    def ledger(self) -> Iterator[str]:
        data = read_plain(self._run.ledger, limit=LEDGER_LIMIT)
        try:
            self._record = parse_ledger(data)
        except LedgerError as error:
            yield f"ledger.jsonl: {error}"

    def plan(self) -> Iterator[str]:
        plan = read_plan(self._run)
        if plan.num_steps > MAX_STEPS:
            yield f"plan.json has {plan.num_steps:,} steps, and runs of at most {MAX_STEPS:,} are verified."
            return
        if self._record is None:
            return
        if plan.hash == self._record.start.get("plan_hash"):
            self._plan = plan
        else:
            yield "plan.json is not the plan that the run was started with."

    def completion(self) -> Iterator[str]:
        if self._record is not None and self._record.is_abandoned:
            yield "The run was abandoned: it has no model and no certificate."
        elif self._record is not None and self._record.completion is None:
            yield "ledger.jsonl has no end: the run is not complete, or its last lines are gone."
        if os.path.lexists(self._run.key):
            yield "The file key is still there: whoever has it can subtract the noise."

    def model(self) -> Iterator[str]:
        recorded = self._made.values["model"]["files"]
        listing = list_plain(self._run.model)
        for name in (*listing.odd, *listing.empty):
            yield f"model/{name} is new."
        for name in sorted({*recorded, *listing.files} - {CARD}):
            if name not in recorded:
                is_left = f"model/{name}" in self._run.leftovers
                yield _LEFT.format(f"model/{name}") if is_left else f"model/{name} is new."
            elif name not in listing.files:
                yield f"model/{name} is missing."
            elif hash_plain(self._run.model / name) != recorded[name]:
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
        cards = [model_card(certificate.values, has_count=n).encode() for n in (True, False)]
        if read_plain(self._run.card, limit=FILE_LIMIT) not in cards:
            yield f"model/{CARD}, the model card, does not say what follows from plan and ledger."

    def owner_files(self) -> Iterator[str]:
        data = self._made.values["data"]
        yield from sensitive_differences(self._run, data["commitment"])
        if self._record is not None:
            yield from checkpoint_differences(self._run, self._record.checkpoint)

    def written_pages(self) -> Iterator[str]:
        yield from self._report()
        yield from self._form()

    def _report(self) -> Iterator[str]:
        if self._verified is None or not os.path.lexists(self._run.report):
            return
        page = read_plain(self._run.report, limit=FILE_LIMIT)
        # Whoever verifies a bundle has nothing to compare the sensitive values of a full page with.
        for public in (True,) if self._run.is_bundle else (True, False):
            made = report_page(
                self._run, self._verified.certificate, self._verified.checks, public=public
            )
            if page == made.encode():
                return
        yield f"report.html is not the page that follows from the run. {self._remedy}"

    def _form(self) -> Iterator[str]:
        place = self._run.certificate_form
        if self._verified is None or not os.path.lexists(place):
            return
        made = certificate_form(self._verified.certificate, self._verified.checks)
        if read_plain(place, limit=FILE_LIMIT) != made.encode():
            yield f"certificate.html is not the form that follows from the run. {self._remedy}"

    def head(self, noted: str) -> Iterator[str]:
        if self._verified is not None:
            head = self._verified.certificate.values["ledger"]["head"]
            if head != noted:
                yield (
                    f"The ledger's head is {head}, not the one that was noted. The ledger is another, or "
                    "results of an audit were added after it was noted."
                )

    def signature(self, key: str | None) -> Iterator[str]:
        check_signature(self._run, key)
        yield from ()

    @property
    def _remedy(self) -> str:
        """What to do about a changed page: only the owner of a run can write it, and a bundle is what was published."""
        if os.path.lexists(self._run.sensitive):
            return "Rewrite it with reldp report."
        return "Ask whoever published it for the page as it was."

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
