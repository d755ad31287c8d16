"""Certificate: the guarantee of a complete run, its assumptions, and the hashes to verify it.

A certificate is a pure function of the plan and of the ledger of a complete run, and `reldp.verify`
recomputes it from them. Epsilon is computed from the steps that the ledger counts, never from those
that were planned. The sentences are in `wording` and `result_wording`, and cite theory.md.

Public: `Certificate`.

>>> Certificate.from_json("{}")
Traceback (most recent call last):
reldp.errors.VerificationError: certificate.json must have format 2, got none.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reldp._validate import NOISE_GENERATORS
from reldp.errors import LedgerError, RunError, VerificationError
from reldp.runs import result_wording, schema, wording
from reldp.runs.certificate_text import certificate_text
from reldp.runs.made_by import is_since
from reldp.runs.privacy_cost import cost_of_run, privacy_cost
from reldp.runs.start_entry import check_start
from reldp.runs.strict_json import parse_json

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.runs.ledger import LedgerRecord

__all__ = ["Certificate"]

FORMAT = 2
NAME = "certificate.json"
INFINITY = "Infinity"  # what float() reads back


@dataclass(frozen=True)
class Certificate:
    """The privacy guarantee of a complete run.

    Attributes:
        values: The content of the certificate, as plain JSON values.
    """

    values: Mapping[str, Any]

    @classmethod
    def from_ledger(cls, plan: "PrivacyPlan", record: "LedgerRecord") -> "Certificate":
        """Return the certificate of a complete run.

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
        _check_end(record, completion)
        _check_choice(record, completion)
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
                **{name: record.start[name] for name in ("loss",) if name in record.start},
                "training": record.start["training"],
                "model": completion["model"],
                "ledger": {"entries": len(record.entries), "head": record.head},
                "assumptions": wording.assumptions(
                    plan, record.start, is_part=result_wording.is_part(plan, completion)
                )
                + result_wording.early_end(plan, record.num_counted, completion)
                + result_wording.interruptions(plan, record.start, record.num_abandoned)
                + result_wording.choice(record.start, completion)
                + result_wording.search(plan, record.start),
                "not_guaranteed": wording.not_guaranteed(plan, record.start)
                + result_wording.sensitive_stops(plan, record.start, record.sensitive_stops),
                "versions": record.start["versions"],
                "audits": [dict(audit) for audit in record.audits],
            }
        )

    @property
    def epsilon(self) -> float:
        """Epsilon by privacy-loss distributions, or that of a search; infinite without noise."""
        return number(self.values["guarantee"]["epsilon"]["pld"])

    @property
    def delta(self) -> float:
        """The delta that goes with epsilon."""
        return float(self.values["guarantee"]["delta"])

    @property
    def given(self) -> str | None:
        """What epsilon holds given, such as released bounds on sizes; None if it holds as it is (theory.md 2.4)."""
        given = self.values["guarantee"].get("given")
        return None if given is None else str(given)

    @property
    def status(self) -> str:
        """``"proven"``, ``"computed"``, ``"claimed"`` (false in the worst case) or ``"none"`` (no privacy).

        ``"computed"`` is the epsilon of a search: of a proven bound, with an error estimate (theory.md 3.3 and 3.5).
        """
        return str(self.values["guarantee"]["status"])

    @property
    def summary(self) -> str:
        """The guarantee in one sentence."""
        return wording.summary(self.values)

    def to_json(self) -> str:
        """Return the content of certificate.json; an infinite epsilon is the word Infinity."""
        return json.dumps(self.values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def with_epsilon(self, **epsilon: float | str) -> "Certificate":
        """Return this certificate with the last digits of epsilon from another machine."""
        guarantee = {**self.values["guarantee"], "epsilon": epsilon}
        return Certificate({**self.values, "guarantee": guarantee})

    @classmethod
    def from_json(cls, text: str | bytes) -> "Certificate":
        """Return the certificate that `to_json` wrote.

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
        certificate = cls(values)
        if certificate.to_json().encode() != data:
            raise VerificationError(f"{NAME} must be written as reldp writes it, got other bytes.")
        return certificate

    def to_markdown(self) -> str:
        """Return the content of certificate.md."""
        return certificate_text(self.values)


def _check_format(values: Any) -> None:
    stated = values.get("format", "none") if isinstance(values, dict) else "none"
    if type(stated) is int and stated == FORMAT:
        return
    old = ", which reldp 0.3 and earlier wrote. Use the version that the run was made with"
    raise VerificationError(
        f"{NAME} must have format {FORMAT}, got {str(stated)[:20]}{old if stated == 1 else ''}."
    )


def _check_entries(start: Mapping[str, Any], completion: Mapping[str, Any]) -> None:
    """Refuse ledger entries that no run writes."""
    check_start(start)
    try:
        schema.check(completion, schema.COMPLETION, "complete")
    except schema.SchemaError as error:
        raise LedgerError(f"ledger.jsonl: {error}.") from None


def _check_facts(plan: "PrivacyPlan", start: Mapping[str, Any]) -> None:
    """Refuse a start that contradicts its plan: no run writes one."""
    noisy = plan.noise_multiplier > 0
    types = ["declared", "from the data"] if plan.num_relation_types else [None]
    for name, possible, stated in (
        ("num_steps", [plan.num_steps], start["num_steps"]),
        ("graph.max_degree", [plan.max_degree], start["graph"]["max_degree"]),
        ("graph.relation_types", types, start["graph"].get("relation_types")),
        ("noise.source", NOISE_GENERATORS if noisy else ("none",), start["noise"]["source"]),
        ("training.clip", [True] if noisy else [True, False], start["training"].get("clip", True)),
    ):
        if (type(stated), stated) not in [(type(value), value) for value in possible]:
            words = " or ".join(map(str, possible))
            raise LedgerError(
                f"ledger.jsonl: start.{name} must be {words} under this plan, got {stated!r}."
            )


def _check_end(record: "LedgerRecord", completion: Mapping[str, Any]) -> None:
    """Refuse a completion that does not say that, and why, the run ended early, or that no epsilon covers."""
    stated = [completion.get(name) for name in ("stopped_at", "stop_decided_by")]
    wanted = [record.checkpoint["step"] if record.checkpoint else None, stated[1]]
    if record.is_cut_by_sensitive:
        raise LedgerError(
            "ledger.jsonl: checkpoint.stopped_by must not be a callback that sees sensitive values where the run ended "
            "early or left out steps after it: no epsilon covers a decision by such values."
        )
    if not record.is_early:
        if stated != [None, None]:
            raise LedgerError(
                "ledger.jsonl: complete.stopped_at must be absent, since the last step was taken."
            )
        return
    # Versions before 0.10 took a run for complete if all of its steps were counted, with the same epsilon.
    is_old = not is_since(record.start["versions"], 0, 10)
    if is_old and not record.num_left and stated == [None, None]:
        return
    if None in stated or stated != wanted:
        raise LedgerError(
            f"ledger.jsonl: complete.stopped_at must be the step of the newest checkpoint, with stop_decided_by, since "
            f"the run ended before step {record.last_step}, got {stated[0]}."
        )
    if record.stoppers and not is_old and stated[1] != "result":
        raise LedgerError(
            f"ledger.jsonl: complete.stop_decided_by must be result, since a callback stopped the run, got {stated[1]}."
        )


def _check_choice(record: "LedgerRecord", completion: Mapping[str, Any]) -> None:
    """Refuse a choice of weights that the start does not announce, and a start without the choice."""
    last = record.checkpoint["step"] if record.checkpoint else 0
    chosen = completion.get("chosen")
    if ("selection" in record.start) != (chosen is not None):
        early = chosen is None and last < record.start["selection"]["every"]
        if not early:  # a run that ended before the first evaluation has chosen nothing
            raise LedgerError(
                "ledger.jsonl: complete.chosen must be there if start.selection is, and only then."
            )
    if chosen is not None and chosen["step"] > last:
        raise LedgerError(
            f"ledger.jsonl: complete.chosen.step must be at most {last}, the step of the newest checkpoint, got "
            f"{chosen['step']}."
        )


def number(value: float | str) -> float:
    """Return a number of the certificate as a float."""
    return math.inf if value == INFINITY else float(value)


def _plain(value: float) -> float | str:
    return INFINITY if math.isinf(value) else value


def _guarantee(plan: "PrivacyPlan", record: "LedgerRecord") -> dict[str, Any]:
    """Return epsilon of the counted steps, and what it protects."""
    pld = cost_of_run(plan, "pld", record)
    rdp = cost_of_run(plan, "rdp", record)
    # One number, by Theorem E, for the best of a secret number of runs: both accountants return it.
    is_search = pld.accountant == "rdp" and plan.status == "proven"
    epsilon, given = {"pld": _plain(pld.epsilon), "rdp": _plain(rdp.epsilon)}, {}
    if result_wording.is_given_sizes(plan, record.start, record.completion or {}):
        given = {"given": result_wording.GIVEN_SIZES}
        if "search" not in record.start:
            planned = privacy_cost(plan, "pld", plan.num_steps).epsilon
            epsilon["planned_steps"] = _plain(planned)
    return {
        "epsilon": epsilon,
        **given,
        "delta": plan.delta,
        "analysis": pld.analysis if plan.noise_multiplier > 0 else "none",
        "status": "computed" if is_search else plan.status,
        **({"method": wording.SEARCH_METHOD} if is_search else {}),
        "unit": plan.unit,
        "adjacency": wording.adjacency(plan, record.start["graph"]),
        "sizes": wording.sizes(plan),
        "clipping": plan.clipping.summary if record.start["training"].get("clip", True) else "none",
    }


def _steps(plan: "PrivacyPlan", record: "LedgerRecord") -> dict[str, Any]:
    completion = record.completion or {}
    return {
        "planned": plan.num_steps,
        "counted": record.num_counted,
        "abandoned": record.num_abandoned,
        "branches": len(record.branches),
        "resumes": record.num_resumes,
        "overflowed_batches": len(record.overflows),
        **{
            name: completion[name]
            for name in ("stopped_at", "stop_decided_by")
            if name in completion
        },
        **({"chosen_step": completion["chosen"]["step"]} if "chosen" in completion else {}),
    }
