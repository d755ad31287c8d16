"""Writes what a complete run tells the world: certificate.json, certificate.md, the model card.

Everything is a pure function of plan.json, ledger.jsonl and audits.json, so writing it twice writes
the same.

Public inside the package: `publish`, `read_plan`.

>>> read_plan(RunFolder("nowhere"))
Traceback (most recent call last):
reldp.errors.RunError: plan.json must be in the run folder: No such file or directory.
"""

from reldp.accounting.ledger import read_ledger
from reldp.durable import write_durably
from reldp.errors import RunError
from reldp.plan import PrivacyPlan
from reldp.reporting.certificate import Certificate
from reldp.reporting.model_card import model_card
from reldp.reporting.run_folder import RunFolder

__all__ = ["publish", "read_plan"]


def publish(run: RunFolder) -> Certificate:
    """Makes the certificate of a complete run and writes it down."""
    made = Certificate.from_ledger(
        read_plan(run), read_ledger(run.ledger), audits=run.read_audits()
    )
    write_durably(run.certificate, made.to_json().encode())
    write_durably(run.certificate_text, made.to_markdown().encode())
    write_durably(run.card, model_card(made.values).encode())
    return made


def read_plan(run: RunFolder) -> PrivacyPlan:
    """The plan of a run."""
    try:
        return PrivacyPlan.from_json(run.plan.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{run.plan.name} must be in the run folder: {error.strerror}.") from None
