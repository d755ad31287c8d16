"""What a resumed run computes differently: refused, or a new branch, or nothing.

Two kinds of differences are told apart (theory.md section 6):

* *data and objective*: plan, graph, rows, public pool, encoder, learning settings. The certificate
  would speak of something else, so the run is refused, with everything that differs;
* *bits only*: threads, attention implementation, libraries, processor and their settings. The run
  goes on in a new branch with fresh random draws, and the abandoned steps stay counted.

A run always goes on with the newest branch, so that is what the present is compared with.

Public inside the package: `refuse_changes`, `why_new_branch`, `newest_branch`, `changes`.

>>> changes("plan.", {"num_steps": 5}, {"num_steps": 6})
['plan.num_steps was 5, is 6']
"""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reldp.errors import InputError, ResumeError, RunError
from reldp.plan import PrivacyPlan
from reldp.runs import PrivateRecord, check_private_file
from reldp.training.repeatability import is_repeatable

if TYPE_CHECKING:
    from reldp.accounting.ledger import LedgerRecord
    from reldp.reporting.run_folder import RunFolder
    from reldp.training.session import RunFacts

__all__ = ["changes", "newest_branch", "refuse_changes", "why_new_branch"]


def refuse_changes(run: "RunFolder", facts: "RunFacts", record: "LedgerRecord") -> PrivateRecord:
    """Return the run's private record, if what is asked for is what the run was started with.

    Raises:
        ResumeError: Data or objective differ; the message names everything that does.
    """
    start = record.start
    try:
        private = check_private_file(run.private, start["graph"]["commitment"])
    except ResumeError:
        raise
    except RunError as error:
        raise ResumeError(str(error)) from None
    found = [*_plan_changes(run, facts, start), *_started_changes(facts, private, start)]
    if record.completion is None:  # a complete run computes nothing any more
        found += _input_changes(facts, private, newest_branch(record))
    if found:
        raise ResumeError(
            f"The run in {run.path.name!r} must be resumed as it was started, got: "
            f"{'; '.join(found)}. Use what it was started with, or another folder."
        )
    return private


def why_new_branch(facts: "RunFacts", record: "LedgerRecord") -> str | None:
    """Return why repeated steps would not have the same bits, or None if they will."""
    if not is_repeatable(facts.config.performance.device):
        return "steps on this device do not repeat bit for bit"
    return "; ".join(_machine_changes(facts, newest_branch(record))) or None


def newest_branch(record: "LedgerRecord") -> Mapping[str, Any]:
    """Return the entry that opened the newest branch."""
    opened = record.start
    for entry in record.entries:
        if entry["kind"] == "resume" and "reason" in entry:
            opened = entry
    return opened


def changes(before: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return names, old and new values of entries that differ."""
    names = sorted({*was, *now})
    return [
        f"{before}{name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in names
        if was.get(name) != now.get(name)
    ]


def _plan_changes(run: "RunFolder", facts: "RunFacts", start: Mapping[str, Any]) -> Iterator[str]:
    """Differences of the plan from plan.json, and from what the ledger names."""
    try:
        was = PrivacyPlan.from_json(run.plan.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResumeError(f"plan.json must be in the run folder: {error.strerror}.") from None
    except (UnicodeDecodeError, InputError):
        raise ResumeError("plan.json must be the plan of the run, got damage.") from None
    found = changes("plan.", was.to_dict(), facts.plan.to_dict())
    yield from found
    if not found and facts.plan.hash != start["plan_hash"]:
        yield "the plan is not the one that the ledger names"


def _started_changes(
    facts: "RunFacts", private: PrivateRecord, start: Mapping[str, Any]
) -> Iterator[str]:
    """Differences from what the ledger says at its start."""
    if facts.capped.fingerprint != private.fingerprint:
        yield "the graph is another"
    # Through JSON, as what was read: a tuple there is a list here.
    now = json.loads(json.dumps(facts.start(private)))
    for part in ("encoder", "training", "noise"):
        # Ignore the starting weights: a trained encoder still counts as the same encoder.
        before, after = ({**x[part], "start_sha256": ""} for x in (start, now))
        yield from changes(f"{part}.", before, after)


def _input_changes(
    facts: "RunFacts", private: PrivateRecord, newest: Mapping[str, Any]
) -> Iterator[str]:
    """Differences of what steps compute with, as it is in memory."""
    was, now = newest["inputs"], facts.inputs(private)
    bits = _machine_changes(facts, newest)
    if was["pool_sha256"] != now["pool_sha256"]:
        yield "the public pool is another"
    # Rows that a frozen model computed have other bits elsewhere; the graph's own do not.
    comparable = facts.encoder.table_is_exact or not bits
    if comparable and was["table_commitment"] != now["table_commitment"]:
        yield "the entities' texts, features or relations are others"
    if any(was[name] != now[name] for name in _comparable_hashes(facts, bits)):
        yield (
            "the encoder computes something else (its pooling, normalization, frozen weights, code "
            "or other parts were changed)"
        )


def _comparable_hashes(facts: "RunFacts", bits: list[str]) -> Iterator[str]:
    """Hashes of the encoder that must be equal, unless differences in bits explain others."""
    # Other versions of libraries may name parts of a module differently.
    if not any(change.startswith("versions.") for change in bits):
        yield "encoder_sha256"
    if not bits and is_repeatable(facts.config.performance.device):
        yield "outputs_sha256"


def _machine_changes(facts: "RunFacts", newest: Mapping[str, Any]) -> list[str]:
    return changes("", newest["machine"], facts.machine)
