"""Writes what a complete run tells the world: certificate.json, certificate.md, card and report.

Everything is a pure function of plan.json and ledger.jsonl (a full report also of the sensitive files
that lie beside them), so writing it twice writes the same, and `reldp.verify` makes it anew.

Public inside the package: `publish`, `record_audit`, `write_report`, `refresh_report`.

>>> publish(RunFolder("nowhere"))
Traceback (most recent call last):
reldp.errors.RunError: plan.json must be there to be read: No such file or directory.
"""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reldp.accounting.ledger import Ledger, read_ledger
from reldp.durable import write_durably
from reldp.plain_files import read_plain
from reldp.reporting.certificate import Certificate
from reldp.reporting.model_card import model_card
from reldp.reporting.report import is_full, report_page
from reldp.reporting.run_folder import FILE_LIMIT, RunFolder, read_plan
from reldp.reporting.verification import verify_files

__all__ = ["publish", "record_audit", "refresh_report", "write_report"]


def publish(run: RunFolder) -> Certificate:
    """Make the certificate of a complete run and write it down."""
    made = Certificate.from_ledger(read_plan(run), read_ledger(run.ledger))
    write_durably(run.certificate, made.to_json().encode())
    write_durably(run.certificate_text, made.to_markdown().encode())
    write_durably(run.card, model_card(made.values).encode())
    return made


def record_audit(run: RunFolder, found: Iterable[Mapping[str, Any]]) -> bool:
    """Append the results of audits to a complete run's ledger, and publish it and its report anew.

    Args:
        run: The run folder.
        found: Results as plain values; an infinite number becomes the word Infinity.

    Returns:
        Whether the run is complete; nothing is written if not.
    """
    with Ledger.open(run.ledger) as ledger:
        if ledger.record.completion is None:
            return False
        for facts in found:
            ledger.append_audit(_finite(facts))
    publish(run)
    refresh_report(run)
    return True


def write_report(folder: str | Path, *, public: bool = False) -> Path:
    """Verify a run and write its report.

    Args:
        folder: The run folder.
        public: Omit sensitive values: curves and evaluations.

    Returns:
        The page.

    Raises:
        VerificationError: The run does not hold what it says; there is no report of such a run.
    """
    run = RunFolder(folder)
    found = verify_files(run)
    page = report_page(run, found.certificate, found.checks, public=public)
    write_durably(run.report, page.encode(), mode=0o644 if public else 0o600)
    return run.report


def refresh_report(run: RunFolder) -> None:
    """Write a report that is there anew, in the form that it has."""
    if os.path.lexists(run.report):
        public = not is_full(read_plain(run.report, limit=FILE_LIMIT))
        write_report(run.path, public=public)


def _finite(value: Any) -> Any:
    """The value with infinities as words, since JSON has none."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
