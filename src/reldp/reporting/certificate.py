"""Certificate: what is promised, to whom, under which conditions, and how that can be checked.

A certificate is a pure function of the plan and of a ledger whose run is complete: it can be made
anew from them at any time, and `reldp.verify` does just that. Epsilon is computed from the steps
that the ledger counts, never from those that were planned. Every sentence is one of theory.md; the
wording is in `reldp.reporting.wording`.

Public: `Certificate`. Public inside the package: `price`.

>>> Certificate.from_json("{}")
Traceback (most recent call last):
reldp.errors.VerificationError: certificate.json must have format 2, got none.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reldp.errors import LedgerError, RunError, VerificationError
from reldp.reporting import schema, wording
from reldp.strict_json import parse_json

if TYPE_CHECKING:
    from reldp.accounting import Price
    from reldp.accounting.ledger import LedgerRecord
    from reldp.plan import PrivacyPlan

__all__ = ["Certificate"]

FORMAT = 2
NAME = "certificate.json"
INFINITY = "Infinity"  # what float() reads back


@dataclass(frozen=True)
class Certificate:
    """What a complete run promises.

    Attributes:
        values: Everything the certificate says, as plain JSON values.
    """

    values: Mapping[str, Any]

    @classmethod
    def from_ledger(cls, plan: "PrivacyPlan", record: "LedgerRecord") -> "Certificate":
        """The certificate of a complete run.

        Args:
            plan: The plan that the ledger names.
            record: The checked ledger.

        Raises:
            LedgerError: The run is not complete, or had another plan.
        """
        completion = record.completion
        if completion is None:
            raise LedgerError("The run must be complete, got a ledger without its end.")
        _check_entries(record.start, completion)
        if record.start["plan_hash"] != plan.hash:
            raise LedgerError("The plan must be the one that the ledger names, got another.")
        _check_facts(plan, record.start)
        return cls(
            {
                "format": FORMAT,
                "date": completion["date"],
                "guarantee": _guarantee(plan, record),
                "plan": plan.to_dict() | {"expected_batch_size": plan.expected_batch_size},
                "plan_hash": plan.hash,
                "steps": _steps(plan, record),
                "noise": record.start["noise"],
                "key": completion["key"],
                "data": record.start["graph"],
                "encoder": record.start["encoder"],
                "training": record.start["training"],
                "model": completion["model"],
                "ledger": {"entries": len(record.entries), "head": record.head},
                "assumptions": wording.assumptions(plan, record.start),
                "not_promised": wording.not_promised(plan, record.start),
                "versions": record.start["versions"],
                "audits": [dict(audit) for audit in record.audits],
            }
        )

    @property
    def epsilon(self) -> float:
        """Epsilon by privacy-loss distributions; infinite without noise."""
        return number(self.values["guarantee"]["epsilon"]["pld"])

    @property
    def delta(self) -> float:
        """The delta that goes with epsilon."""
        return float(self.values["guarantee"]["delta"])

    @property
    def status(self) -> str:
        """``"proven"``, ``"claimed"`` (false in the worst case) or ``"none"`` (no privacy)."""
        return str(self.values["guarantee"]["status"])

    @property
    def summary(self) -> str:
        """The promise in one sentence."""
        return wording.summary(self.values)

    def to_json(self) -> str:
        """One JSON object; an infinite epsilon is the word Infinity."""
        return json.dumps(self.values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def with_epsilon(self, pld: float | str, rdp: float | str) -> "Certificate":
        """This certificate with other numbers for epsilon, such as another machine's last digits."""
        guarantee = {**self.values["guarantee"], "epsilon": {"pld": pld, "rdp": rdp}}
        return Certificate({**self.values, "guarantee": guarantee})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """The certificate that `to_json` wrote.

        Raises:
            VerificationError: The text is not one that `to_json` writes; the message names the
                value that it cannot hold.
        """
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        try:
            values = parse_json(data, NAME)
            _check_format(values)
            schema.check(values, schema.CERTIFICATE)
        except RunError as error:
            raise VerificationError(str(error)) from None
        except schema.SchemaError as error:
            raise VerificationError(f"{NAME}: {error}.") from None
        found = cls(values)
        if found.to_json().encode() != data:
            raise VerificationError(f"{NAME} must be written as reldp writes it, got other bytes.")
        return found

    def to_markdown(self) -> str:
        """The certificate for people."""
        from reldp.reporting.certificate_text import certificate_text

        return certificate_text(self.values)


def _check_format(values: Any) -> None:
    found = values.get("format", "none") if isinstance(values, dict) else "none"
    if type(found) is int and found == FORMAT:
        return
    old = ", which reldp 0.3 and earlier wrote. Use the version that the run was made with"
    raise VerificationError(
        f"{NAME} must have format {FORMAT}, got {str(found)[:20]}{old if found == 1 else ''}."
    )


def _check_entries(start: Mapping[str, Any], completion: Mapping[str, Any]) -> None:
    """Refuse ledger entries that no run writes."""
    try:
        schema.check(start, schema.START, "start")
        schema.check(completion, schema.COMPLETION, "complete")
    except schema.SchemaError as error:
        raise LedgerError(f"ledger.jsonl: {error}.") from None


def _check_facts(plan: "PrivacyPlan", start: Mapping[str, Any]) -> None:
    """Refuse a start that contradicts its plan: no run writes one."""
    noisy = plan.noise_multiplier > 0
    for name, possible, found in (
        ("num_steps", [plan.num_steps], start["num_steps"]),
        ("graph.max_degree", [plan.max_degree], start["graph"]["max_degree"]),
        ("noise.source", ["secure", "fast"] if noisy else ["none"], start["noise"]["source"]),
        ("training.clip", [True] if noisy else [True, False], start["training"].get("clip", True)),
    ):
        if (type(found), found) not in [(type(value), value) for value in possible]:
            words = " or ".join(map(str, possible))
            raise LedgerError(
                f"ledger.jsonl: start.{name} must be {words} under this plan, got {found!r}."
            )


@lru_cache(maxsize=256)
def price(plan: "PrivacyPlan", accountant: str, num_steps: int) -> "Price":
    """What some steps of a plan cost; remembered, because pricing takes a second."""
    return plan.price(accountant, num_steps)


def number(value: float | str) -> float:
    """A number of the certificate."""
    return math.inf if value == INFINITY else float(value)


def _plain(value: float) -> float | str:
    return INFINITY if math.isinf(value) else value


def _guarantee(plan: "PrivacyPlan", record: "LedgerRecord") -> dict[str, Any]:
    """Epsilon from the counted steps, and who is protected from what."""
    private = plan.noise_multiplier > 0
    pld = price(plan, "pld", record.num_counted)
    rdp = price(plan, "rdp", record.num_counted)
    return {
        "epsilon": {"pld": _plain(pld.epsilon), "rdp": _plain(rdp.epsilon)},
        "delta": plan.delta,
        "analysis": pld.analysis if plan.clipping.is_local else "claimed",
        "status": plan.status if private else "none",
        "unit": plan.unit,
        "adjacency": wording.adjacency(plan, record.start["graph"]),
        "sizes": wording.sizes(plan),
        "clipping": plan.clipping.summary,
    }


def _steps(plan: "PrivacyPlan", record: "LedgerRecord") -> dict[str, Any]:
    return {
        "planned": plan.num_steps,
        "counted": record.num_counted,
        "abandoned": record.num_abandoned,
        "branches": len(record.branches),
        "resumes": record.num_resumes,
        "batches_not_drawn": len(record.overflows),
    }
