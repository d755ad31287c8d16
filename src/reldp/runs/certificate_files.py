"""Writing the certificate of a complete run: certificate.json, certificate.md and the model card.

All three are pure functions of plan.json and ledger.jsonl, so writing them twice gives the same bytes,
and `reldp.verify` recomputes them.

Public inside the package: `write_certificate`.

>>> write_certificate(RunFolder("nowhere"))
Traceback (most recent call last):
reldp.errors.LedgerError: ledger.jsonl must be there to be read: No such file or directory.
"""

from reldp.runs.certificate import Certificate
from reldp.runs.durable import write_durably
from reldp.runs.ledger import read_ledger
from reldp.runs.model_card import model_card
from reldp.runs.run_folder import RunFolder, read_plan

__all__ = ["write_certificate"]


def write_certificate(run: RunFolder) -> Certificate:
    """Make the certificate of a complete run from its ledger, and write its three files.

    Raises:
        LedgerError: The run is not complete, or has another plan.
        RunError: It belongs to a search that has not released it, or its folder holds links.
    """
    run.refuse_links()
    record = read_ledger(run.ledger)
    if record.is_unreleased:
        run.refuse_unreleased()
    certificate = Certificate.from_ledger(read_plan(run), record)
    write_durably(run.certificate, certificate.to_json().encode())
    write_durably(run.certificate_text, certificate.to_markdown().encode())
    write_durably(run.card, model_card(certificate.values).encode())
    return certificate
