"""A run on disk: started, resumed or finished, always from a state that a crash cannot spoil.

What `fit` finds in a folder decides what happens:

* no ledger: a new run. Plan, secret files and the checkpoint before step 0 are written first, the
  ledger last; what a crash leaves before that is started over, because nothing has run yet;
* a ledger without an end: the run goes on from its newest checkpoint, in the same branch if steps
  repeat bit for bit, in a new one if not (theory.md section 6). Another graph, plan, encoder,
  learning setting or library version is refused, with everything that differs;
* a ledger with its end: nothing runs any more.

At the end the model is written first, then the key is destroyed, then the ledger is closed: each of
these can be repeated.

Public inside the package: `Session`, `RunFacts`, `threads_of`.

>>> _changes("plan.", {"num_steps": 5}, {"num_steps": 6})
['plan.num_steps was 5, is 6']
"""

import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reldp.accounting.ledger import Ledger
from reldp.durable import TEMPORARY, disk_errors, sync_folder, write_durably
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, ResumeError
from reldp.noise import Streams
from reldp.plan import PrivacyPlan
from reldp.reporting.run_folder import RunFolder, file_hashes
from reldp.training.checkpoint import (
    Checkpoint,
    keep_only,
    read_checkpoint,
    save_checkpoint,
)
from reldp.training.config import LEARNING, PERFORMANCE, TrainingConfig
from reldp.training.key import GraphSecret, destroy_key, make_key, read_key
from reldp.training.repeatability import is_repeatable, machine, versions

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph

__all__ = ["RunFacts", "Session", "threads_of"]

_NOISE = {
    "secure": (
        "correctly rounded Gaussian on a grid of 2^-30 standard deviations, from AES-256 streams"
    ),
    "fast": "the device's own generator, seeded per step from an AES-256 stream",
}
_OWN_NAMES = ("plan.json", "key", "private.json", "checkpoints", "ledger.jsonl")


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run is, apart from what it learns."""

    encoder: "Encoder"
    capped: "CappedGraph"
    plan: PrivacyPlan
    config: TrainingConfig
    threads: int

    @property
    def machine(self) -> dict[str, Any]:
        """What must be the same for replay to be bitwise identical."""
        here = machine(self.config.device, self.threads)
        return here | self.config.part(PERFORMANCE) | {"threads": self.threads}

    def start(self, secret: GraphSecret) -> dict[str, Any]:
        """The facts of the ledger's first entry."""
        noise = "none" if self.plan.noise_multiplier == 0 else self.config.noise
        return {
            "num_steps": self.plan.num_steps,
            "plan_hash": self.plan.hash,
            "graph": self._graph(secret),
            "encoder": self.encoder.describe()
            | {"start_sha256": state_hash(self.encoder.trainable())},
            "training": self.config.part(LEARNING),
            "noise": {"source": noise, "description": _NOISE.get(noise, "none")},
            "versions": versions(),
            "machine": self.machine,
        }

    def _graph(self, secret: GraphSecret) -> dict[str, Any]:
        """The data as far as it may be shown: the same for neighboring graphs.

        Whether every entity is protected is, too: neighbors differ in a protected entity. What is
        known about sizes is in the plan.
        """
        capped = self.capped
        return {
            "commitment": secret.commitment,
            "max_degree": capped.max_degree,
            "degree_bound": capped.degree_bound,
            "all_protected": bool(capped.protected.all()),
            "record": capped.graph.record.provenance,
        }


class Session:
    """An open run folder; closed by ``with``.

    Attributes:
        run: The folder.
        ledger: What has been counted.
        checkpoint: Where to go on from.
        streams: Coins and noise; None when no step is left.
    """

    def __init__(
        self,
        run: RunFolder,
        facts: RunFacts,
        ledger: Ledger,
        checkpoint: Checkpoint,
        streams: Streams | None,
    ) -> None:
        """Takes over an open ledger; use `open`."""
        self.run, self.ledger, self.checkpoint, self.streams = run, ledger, checkpoint, streams
        self._facts = facts

    @classmethod
    def open(cls, run: RunFolder, facts: RunFacts, first: Checkpoint) -> "Session":
        """The run in the folder, resumed, or a new one that starts from the first checkpoint."""
        if not run.has_run:
            return cls._start(run, facts, first)
        ledger = Ledger.open(run.ledger)
        try:
            return cls._resume(run, facts, ledger)
        except BaseException:
            ledger.close()
            raise

    @classmethod
    def _start(cls, run: RunFolder, facts: RunFacts, first: Checkpoint) -> "Session":
        _clear(run)
        write_durably(run.plan, (facts.plan.to_json() + "\n").encode())
        secret = GraphSecret.of(facts.capped.fingerprint)
        secret.write(run.private)
        streams = Streams(make_key(run.key))
        named = {"step": first.step, "sha256": save_checkpoint(run.checkpoints, first)}
        ledger = Ledger.create(run.ledger, facts.start(secret) | {"checkpoint": named})
        return cls(run, facts, ledger, first, streams)

    @classmethod
    def _resume(cls, run: RunFolder, facts: RunFacts, ledger: Ledger) -> "Session":
        _refuse_changes(run, facts, ledger.record.start)
        checkpoint = _named_checkpoint(run, ledger)
        if ledger.record.completion is not None:
            return cls(run, facts, ledger, checkpoint, None)
        reason = _why_not_repeatable(facts, _newest_branch(ledger)["machine"])
        stop = ledger.record.branches[-1].stop
        last = checkpoint.step == stop and ledger.num_left == 0
        if last and not run.key.exists():
            return cls(run, facts, ledger, checkpoint, None)
        streams = Streams(read_key(run.key))
        if checkpoint.step < stop or ledger.num_left:
            ledger.resume(checkpoint.step, new_branch=reason, facts=_branch_facts(facts, reason))
        return cls(run, facts, ledger, checkpoint, streams)

    @property
    def coins(self) -> int:
        """The number that addresses coins and noise of the newest branch; 0 for the first."""
        return int(_newest_branch(self.ledger).get("coins", 0))

    @property
    def stop(self) -> int:
        """The step after the last one that this branch may run."""
        return self.ledger.record.branches[-1].stop + self.ledger.num_left

    @property
    def is_complete(self) -> bool:
        """Whether the ledger has its end."""
        return self.ledger.record.completion is not None

    def open_branch(self, reason: str) -> None:
        """Goes on from the newest checkpoint with fresh coins and noise."""
        facts = _branch_facts(self._facts, reason)
        self.ledger.resume(self.checkpoint.step, new_branch=reason, facts=facts)

    def save(self, checkpoint: Checkpoint) -> None:
        """Makes a checkpoint the one to go on from."""
        sha256 = save_checkpoint(self.run.checkpoints, checkpoint)
        self.ledger.checkpoint(checkpoint.step, sha256)
        keep_only(self.run.checkpoints, checkpoint.step)
        self.checkpoint = checkpoint

    def complete(self, encoder: "Encoder") -> None:
        """Writes the model, destroys the key and closes the ledger's story."""
        with disk_errors(self.run.model):
            for half_written in self.run.path.glob(".model.*"):
                shutil.rmtree(half_written)
            encoder.save(self.run.model, overwrite=True)
        sync_folder(self.run.model)
        destroy_key(self.run.key)
        self.ledger.complete(
            {
                "key": "destroyed",
                "model": {"files": file_hashes(self.run.model)},
                "weights_sha256": state_hash(encoder.trainable()),
            }
        )

    def close(self) -> None:
        """Lets another process at the folder."""
        self.ledger.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def threads_of(run: RunFolder) -> int:
    """How many threads the run in a folder was started with."""
    with Ledger.open(run.ledger) as ledger:
        return int(_newest_branch(ledger)["machine"]["threads"])


def _clear(run: RunFolder) -> None:
    """Makes the folder, and removes what a start that was cut short left in it."""
    ours = {*_OWN_NAMES, *(name + TEMPORARY for name in _OWN_NAMES)}
    with disk_errors(run.path):
        run.path.mkdir(parents=True, exist_ok=True)
        strangers = sorted(place.name for place in run.path.iterdir() if place.name not in ours)
        if strangers:
            raise ConfigError(
                f"The run folder must be new, empty or hold a run, got one with {strangers[0]!r}. "
                "Choose another folder."
            )
        for place in run.path.iterdir():
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()


def _refuse_changes(run: RunFolder, facts: RunFacts, start: Mapping[str, Any]) -> None:
    """Names everything in which what is asked for differs from the run in the folder."""
    secret = GraphSecret.read(run.private)
    # Through JSON, as what was read: a tuple there is a list here.
    now = json.loads(json.dumps(facts.start(secret)))
    changes = _changes("plan.", _plan_of(run), facts.plan.to_dict())
    if facts.capped.fingerprint != secret.fingerprint:
        changes.append("the graph is another")
    for part in ("encoder", "training", "versions"):
        # The starting weights are in the checkpoint; an encoder that was trained on is no other.
        was, is_now = ({**x[part], "start_sha256": ""} for x in (start, now))
        changes += _changes(f"{part}.", was, is_now)
    if changes:
        raise ResumeError(
            f"The run in {run.path.name!r} must be resumed as it was started, got: "
            f"{'; '.join(changes)}. Use what it was started with, or another folder."
        )


def _named_checkpoint(run: RunFolder, ledger: Ledger) -> Checkpoint:
    """The checkpoint that the ledger names; what a crash left beside it is removed."""
    named = ledger.record.checkpoint
    if named is None:
        raise ResumeError("The ledger must name a checkpoint to go on from, got none.")
    checkpoint = read_checkpoint(run.checkpoints, int(named["step"]), str(named["sha256"]))
    keep_only(run.checkpoints, checkpoint.step)
    return checkpoint


def _plan_of(run: RunFolder) -> dict[str, Any]:
    try:
        return PrivacyPlan.from_json(run.plan.read_text(encoding="utf-8")).to_dict()
    except OSError as error:
        raise ResumeError(f"plan.json must be in the run folder: {error.strerror}.") from None


def _changes(before: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Names, old and new values of entries that differ."""
    names = sorted({*was, *now})
    return [
        f"{before}{name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in names
        if was.get(name) != now.get(name)
    ]


def _newest_branch(ledger: Ledger) -> Mapping[str, Any]:
    """The entry that opened the newest branch."""
    opened = ledger.record.start
    for entry in ledger.record.entries:
        if entry["kind"] == "resume" and "reason" in entry:
            opened = entry
    return opened


def _branch_facts(facts: RunFacts, reason: str | None) -> dict[str, Any]:
    """What a resumption says of the machine and, for a new branch, of its coins and noise."""
    found: dict[str, Any] = {"machine": facts.machine}
    # A random number: two copies of a run folder, resumed on two machines, must not draw the same
    # noise for different sums.
    return found if reason is None else found | {"coins": 1 + secrets.randbelow(2**63 - 1)}


def _why_not_repeatable(facts: RunFacts, was: Mapping[str, Any]) -> str | None:
    """Why replay would not be bitwise identical, or None if it will be."""
    if not is_repeatable(facts.config.device):
        return "steps on this device do not repeat bit for bit"
    changes = _changes("", was, facts.machine)
    return "; ".join(changes) or None
