"""``reldp.verify``: recomputes everything a certificate says, and fails loudly on any difference.

What is recomputed: the ledger's hash chain and story; the plan's hash; the steps counted; epsilon
by both accountants; every word of certificate.json, certificate.md and the model card; the hashes
of the model's files. Nothing is taken from the certificate itself.

What it cannot see: somebody who rewrites plan, ledger, model and certificate together, hashes
included. Keep the ledger's head (it is in the certificate) somewhere else to guard against that.

Public: `verify`, `Verification`.

>>> verify("nowhere")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reldp.accounting.ledger import LedgerRecord, read_ledger
from reldp.errors import LedgerError, ReldpError, VerificationError
from reldp.plan import PrivacyPlan
from reldp.reporting.certificate import INFINITY, Certificate
from reldp.reporting.model_card import model_card
from reldp.reporting.publishing import read_plan
from reldp.reporting.run_folder import RunFolder, file_hashes

__all__ = ["Verification", "verify"]

# Sums of floating-point numbers may differ in their last digits between machines.
_SAME = 1e-6


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A run that holds what it says.

    Attributes:
        checks: What was checked, in order, in words.
        certificate: The certificate, as it follows from plan and ledger.
    """

    checks: tuple[str, ...]
    certificate: Certificate


def verify(folder: str | Path) -> Verification:
    """Recomputes a complete run's certificate from its plan and ledger.

    Args:
        folder: The run folder.

    Raises:
        VerificationError: Anything differs; the message names everything that does.
    """
    run = RunFolder(folder)
    run.require_run()
    inspector = _Inspector(run)
    inspector.check("the ledger's chain is whole and its story possible", inspector.ledger)
    inspector.check("the plan is the one that the ledger names", inspector.plan)
    inspector.check("the run is complete and its key destroyed", inspector.completion)
    inspector.check("the model's files are the ones that the run wrote", inspector.model)
    inspector.check("the certificate follows from plan and ledger", inspector.certificate)
    inspector.check("certificate.md and the model card say the same", inspector.pages)
    if inspector.failures:
        raise VerificationError(
            f"The run in {run.path.name!r} does not hold what it says: "
            f"{' '.join(inspector.failures)}"
        )
    assert inspector.made is not None
    return Verification(checks=tuple(inspector.passed), certificate=inspector.made)


class _Inspector:
    """Goes through a run and keeps what it found."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._record: LedgerRecord | None = None
        self._plan: PrivacyPlan | None = None
        self.made: Certificate | None = None
        self.passed: list[str] = []
        self.failures: list[str] = []

    def check(self, words: str, look: Callable[[], Iterator[str]]) -> None:
        """Runs one check; whatever it finds, or stumbles over, is a failure."""
        try:
            found = list(look())
        except ReldpError as error:
            found = [str(error)]
        self.failures += found
        if not found:
            self.passed.append(words)

    def ledger(self) -> Iterator[str]:
        self._record = read_ledger(self._run.ledger)
        yield from ()

    def plan(self) -> Iterator[str]:
        self._plan = read_plan(self._run)
        if self._plan.hash != self._known.start["plan_hash"]:
            self._plan = None
            yield "plan.json is not the plan that the run was started with."

    def completion(self) -> Iterator[str]:
        if self._known.completion is None:
            yield "The ledger has no end: the run is not complete, or its last lines are gone."
        if self._run.key.exists():
            yield "The key is still there: whoever has it can subtract the noise."

    def model(self) -> Iterator[str]:
        completion = self._known.completion
        if completion is None:
            return
        was, now = completion["model"]["files"], file_hashes(self._run.model)
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                what = "missing" if name not in now else "new" if name not in was else "changed"
                yield f"model/{name} is {what}."

    def certificate(self) -> Iterator[str]:
        if self._plan is None or self._known.completion is None:
            yield "The certificate cannot follow from this plan and ledger."
            return
        self.made = Certificate.from_ledger(self._plan, self._known, audits=self._run.read_audits())
        stated = Certificate.from_json(_text(self._run.certificate))
        yield from _differences("", stated.values, self.made.values)

    def pages(self) -> Iterator[str]:
        stated = Certificate.from_json(_text(self._run.certificate))
        if _text(self._run.certificate_text) != stated.to_markdown():
            yield "certificate.md does not say what certificate.json says."
        if _text(self._run.card) != model_card(stated.values):
            yield "The model card does not say what certificate.json says."

    @property
    def _known(self) -> LedgerRecord:
        if self._record is None:
            raise LedgerError("Nothing can be checked against a damaged ledger.")
        return self._record


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise VerificationError(f"{path.name} is missing or unreadable.") from None


def _differences(place: str, stated: Any, made: Any) -> Iterator[str]:
    """Where the certificate says something else than what follows."""
    if isinstance(stated, Mapping) and isinstance(made, Mapping):
        for name in sorted({*stated, *made}):
            yield from _differences(f"{place}{name}.", stated.get(name), made.get(name))
    elif not _same(stated, made):
        name = place.rstrip(".")
        yield f"certificate.json states {name} {_short(stated)}, but it is {_short(made)}."


def _same(stated: Any, made: Any) -> bool:
    both = (stated, made)
    if any(isinstance(value, float) for value in both) and INFINITY not in both:
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in both)
        return numbers and math.isclose(stated, made, rel_tol=_SAME)
    return bool(stated == made)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 70 else text[:67] + "..."
