"""Differences between a run and its resumption: refused, or a reason for a new branch.

There are two kinds of differences (theory.md 6):

* *data and objective*: plan, graph, rows, public pool, encoder, loss, learning settings. The certificate
  would describe something else, so resuming is refused, with a list of all differences;
* *bits only*: threads, attention implementation, libraries, processor and their settings. The run
  continues in a new branch with fresh random draws, and the abandoned steps stay counted.

A run always continues its newest branch, so the present is compared with that one.

Public inside the package: `refuse_changes`, `refuse_cut`, `refuse_other_graph`, `why_new_branch`, `newest_branch`,
`changes`.

>>> changes("plan.", {"num_steps": 5}, {"num_steps": 6})
['plan.num_steps was 5, is 6']
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from reldp.errors import InputError, ResumeError, RunError
from reldp.plan import PrivacyPlan
from reldp.runs.plain_files import read_plain
from reldp.runs.sensitive_file import SensitiveRecord, check_sensitive_file

if TYPE_CHECKING:
    from reldp.runs.ledger import LedgerRecord
    from reldp.runs.run_folder import RunFolder
    from reldp.runs.session import RunFacts

__all__ = [
    "changes",
    "newest_branch",
    "refuse_changes",
    "refuse_cut",
    "refuse_other_graph",
    "why_new_branch",
]


def refuse_changes(run: "RunFolder", facts: "RunFacts", record: "LedgerRecord") -> SensitiveRecord:
    """Return the run's sensitive record, if the run is resumed as it was started.

    Raises:
        ResumeError: Data or objective differ; the message lists all differences.
    """
    start = record.start
    try:
        sensitive = check_sensitive_file(run.sensitive, start["graph"]["commitment"])
    except ResumeError:
        raise
    except RunError as error:
        raise ResumeError(str(error)) from None
    differences = [*_plan_changes(run, facts, start), *_start_changes(facts, sensitive, start)]
    if record.completion is None:  # a complete run computes nothing any more
        differences += _input_changes(facts, sensitive, newest_branch(record))
    if differences:
        _refuse(run, differences)
    return sensitive


def refuse_other_graph(run: "RunFolder", max_degree: int, fingerprint: str) -> None:
    """Refuse a graph or a degree bound that is not that of a run, before its private sizes are looked for.

    Args:
        run: The folder; one without plan or sensitive.json is compared later.
        max_degree: Of the capped graph.
        fingerprint: Of the capped graph; sensitive.

    Raises:
        ResumeError: They differ.
    """
    if not (os.path.lexists(run.plan) and os.path.lexists(run.sensitive)):
        return
    try:
        was = PrivacyPlan.from_json(read_plain(run.plan, limit=2**20)).max_degree
        sensitive = SensitiveRecord.read(run.sensitive)
    except (UnicodeDecodeError, InputError, RunError):
        return
    if was != max_degree:
        _refuse(run, [f"plan.max_degree was {was}, is {max_degree}"])
    if sensitive.fingerprint != fingerprint:
        _refuse(run, ["the graph is another"])


def _refuse(run: "RunFolder", differences: Iterable[str]) -> None:
    raise ResumeError(
        f"The run in {run.path.name!r} must be resumed as it was started, got: "
        f"{'; '.join(differences)}. Use what it was started with, or another folder."
    )


def why_new_branch(facts: "RunFacts", record: "LedgerRecord") -> str | None:
    """Return why re-executed steps may have different bits, or None if they have the same."""
    if not facts.is_repeatable:
        return "steps on this device, or of this loop, do not repeat bit for bit"
    return "; ".join(_machine_changes(facts, newest_branch(record))) or None


def refuse_cut(record: "LedgerRecord", reason: str | None) -> None:
    """Refuse to leave out counted steps after a stop that was decided by sensitive values.

    A new branch ends as many steps earlier as it leaves out: its last step would follow from these values.

    Args:
        record: The ledger so far.
        reason: Why a new branch is needed; None if it is not.

    Raises:
        ResumeError: Such a stop is the newest checkpoint, and a new branch is needed.
    """
    step = int((record.checkpoint or {}).get("step", 0))
    if reason is not None and step in record.sensitive_stops and step < record.branches[-1].stop:
        raise ResumeError(
            "A run that a callback stopped which sees sensitive values must be resumed where its steps have the same "
            f"bits, got: {reason}. A new branch would leave out steps that are counted, and end where no epsilon "
            "covers the end. Resume it as it was started, or use reldp abandon."
        )


def newest_branch(record: "LedgerRecord") -> Mapping[str, Any]:
    """Return the entry that opened the newest branch."""
    opened = record.start
    for entry in record.entries:
        if entry["kind"] == "resume" and "reason" in entry:
            opened = entry
    return opened


def changes(prefix: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return name, old and new value of each entry that differs."""
    names = sorted({*was, *now})
    return [
        f"{prefix}{name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in names
        if was.get(name) != now.get(name)
    ]


def _plan_changes(run: "RunFolder", facts: "RunFacts", start: Mapping[str, Any]) -> Iterator[str]:
    """Yield differences of the plan from plan.json and from the ledger."""
    try:
        was = PrivacyPlan.from_json(read_plain(run.plan, limit=2**20))
    except RunError as error:
        raise ResumeError(str(error)) from None
    except (UnicodeDecodeError, InputError):
        raise ResumeError("plan.json must be the plan of the run, got damage.") from None
    differences = changes("plan.", was.to_dict(), facts.plan.to_dict())
    yield from differences
    if not differences and facts.plan.hash != start["plan_hash"]:
        yield "the plan is not the one that the ledger names"


def _start_changes(
    facts: "RunFacts", sensitive: SensitiveRecord, start: Mapping[str, Any]
) -> Iterator[str]:
    """Yield differences from the ledger's first entry."""
    if facts.fingerprint != sensitive.fingerprint:
        yield "the graph is another"
    # Through JSON, like the entry: it has lists where the facts have tuples.
    now = json.loads(json.dumps(facts.start(sensitive)))
    for part in ("encoder", "loss", "training", "noise"):
        if part not in start:  # a ledger of a version that did not record the loss
            continue
        # Ignore the starting weights: a trained encoder still counts as the same encoder. The code of
        # a loss is compared with the inputs, since its hash depends on versions.
        ignored = {"start_sha256": "", "sha256": ""} if part == "loss" else {"start_sha256": ""}
        before, after = ({**x[part], **ignored} for x in (start, now))
        yield from changes(f"{part}.", before, after)
    holdouts = (entry["graph"].get("holdout", {}) for entry in (start, now))
    yield from changes("holdout.", *holdouts)
    for part in ("selection", "search"):
        yield from changes(f"{part}.", start.get(part, {}), now.get(part, {}))


def _input_changes(
    facts: "RunFacts", sensitive: SensitiveRecord, newest: Mapping[str, Any]
) -> Iterator[str]:
    """Yield differences in what steps compute with, as it is in memory."""
    was, now = newest["inputs"], facts.inputs(sensitive)
    bits = _machine_changes(facts, newest)
    if was["pool_sha256"] != now["pool_sha256"]:
        yield "the public pool is another"
    # Rows that a frozen model computes may have other bits on another machine.
    comparable = facts.table_is_exact or not bits
    if comparable and was["table_commitment"] != now["table_commitment"]:
        yield "the entities' texts, features or relations are others"
    if "tokens_commitment" in was and now.get("tokens_commitment", "") not in (
        "",  # texts are tokenized on the fly from here on
        was["tokens_commitment"],
    ):
        yield "the token table beside the graph store is another (delete its folder `tokens`)"
    # Different versions of Python compile a loss differently.
    known = "loss_sha256" in was and not any(change.startswith("versions.") for change in bits)
    if known and was["loss_sha256"] != now["loss_sha256"]:
        yield "the loss computes something else (its code or its settings were changed)"
    if any(was[name] != now[name] for name in _comparable_hashes(facts, bits)):
        yield (
            "the encoder computes something else (its pooling, normalization, frozen weights, code "
            "or other parts were changed)"
        )


def _comparable_hashes(facts: "RunFacts", bits: list[str]) -> Iterator[str]:
    """Yield names of hashes that must be equal; differences in bits explain the others."""
    # Different versions of libraries may name parts of a module differently.
    if not any(change.startswith("versions.") for change in bits):
        yield "encoder_sha256"
    if not bits and facts.is_repeatable:
        yield "outputs_sha256"


def _machine_changes(facts: "RunFacts", newest: Mapping[str, Any]) -> list[str]:
    return changes("", newest["machine"], facts.machine)
