"""Writing report.html and certificate.html, and recording audits in a complete run.

Both pages are pure functions of plan.json and ledger.jsonl, and a full report also of the sensitive
files beside them. So writing them twice gives the same bytes, and `reldp.verify` recomputes them.

Public inside the package: `record_audit`, `write_report`, `refresh_report`.

>>> write_report("nowhere")
Traceback (most recent call last):
reldp.errors.RunError: The run folder must exist, got 'nowhere'.
"""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reldp.reporting.certificate_form import certificate_form
from reldp.reporting.report import is_full, report_page
from reldp.reporting.verification import verify_files
from reldp.runs.certificate_files import write_certificate
from reldp.runs.durable import write_durably
from reldp.runs.ledger import Ledger
from reldp.runs.plain_files import read_plain
from reldp.runs.run_folder import FILE_LIMIT, RunFolder

__all__ = ["record_audit", "refresh_report", "write_report"]


def record_audit(run: RunFolder, results: Iterable[Mapping[str, Any]]) -> bool:
    """Append results of audits to a complete run's ledger; rewrite its certificate and report.

    Args:
        run: The run folder.
        results: Results as plain values; an infinite number becomes the word Infinity.

    Returns:
        Whether the run is complete; nothing is written if not.

    Raises:
        ResumeError: The folder holds links; nothing is written.
    """
    run.refuse_links()
    with Ledger.open(run.ledger) as ledger:
        if ledger.record.completion is None:
            return False
        for facts in results:
            ledger.append_audit(_finite(facts))
    write_certificate(run)
    refresh_report(run)
    return True


def write_report(folder: str | Path, *, public: bool = False) -> Path:
    """Verify a run, and write its report and the form to sign; first remove what killed commands left.

    Args:
        folder: The run folder.
        public: Omit sensitive values: curves and evaluations. The report of a published bundle never has them.

    Returns:
        The report; certificate.html is beside it.

    Raises:
        VerificationError: The run's files do not match its ledger; it gets no report.
    """
    run = RunFolder(folder)
    run.remove_leftovers(in_bundle=True)
    verified = verify_files(run)
    public = public or run.is_bundle
    page = report_page(run, verified.certificate, verified.checks, public=public)
    form = certificate_form(verified.certificate, verified.checks)
    write_durably(run.report, page.encode(), mode=0o644 if public else 0o600)
    write_durably(run.certificate_form, form.encode(), mode=0o644)
    return run.report


def refresh_report(run: RunFolder) -> None:
    """Rewrite the report, if there is one, as full or public as it is; remove what killed commands left of it."""
    run.remove_leftovers()
    if os.path.lexists(run.report):
        public = not is_full(read_plain(run.report, limit=FILE_LIMIT))
        write_report(run.path, public=public)


def _finite(value: Any) -> Any:
    """Return the value with infinities as words, because JSON has no infinities."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
