"""A run on disk: started, resumed or finished, always from a state that a crash cannot spoil.

What `fit` finds in a folder decides what happens:

* no ledger: a new run. Plan, secret files and the checkpoint before step 0 are written first, the
  ledger last; what a crash leaves before that is started over, because nothing has run yet;
* a ledger without an end: the run goes on from its newest checkpoint, in the same branch if steps
  repeat bit for bit, in a new one if not (theory.md section 6). Other data or another objective is
  refused, with everything that differs (`reldp.training.changes`);
* a ledger with its end: nothing runs any more.

At the end the model is written first, then the key is destroyed, then the ledger is closed: each of
these can be repeated.

Public inside the package: `Session`, `RunFacts`, `threads_of`.

>>> RunFacts.__dataclass_fields__["pool"].default is None
True
"""

import json
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reldp.accounting.ledger import Ledger
from reldp.durable import TEMPORARY, disk_errors, sync_folder, write_durably
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, ResumeError
from reldp.noise import Streams
from reldp.plan import PrivacyPlan
from reldp.reporting.run_folder import RunFolder, file_hashes
from reldp.runs import PrivateRecord
from reldp.training.changes import newest_branch, refuse_changes, why_new_branch
from reldp.training.checkpoint import (
    Checkpoint,
    keep_only,
    read_checkpoint,
    save_checkpoint,
)
from reldp.training.config import TrainingConfig
from reldp.training.identity import (
    attention_of,
    encoder_sha256,
    outputs_sha256,
    pool_sha256,
    table_sha256,
)
from reldp.training.key import bound_key, destroy_key, make_key, read_key
from reldp.training.repeatability import machine, versions

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph

__all__ = ["RunFacts", "Session", "threads_of"]

_NOISE = {
    "secure": (
        "correctly rounded Gaussian on a grid of 2^-30 standard deviations, from AES-256 streams"
    ),
    "fast": (
        "Philox under a 128-bit key per step from an AES-256 stream, on a grid of 2^-30 standard "
        "deviations"
    ),
}
_OWN_NAMES = ("plan.json", "key", "private.json", "checkpoints", "ledger.jsonl")


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run is, apart from what it learns.

    Attributes:
        encoder: What is trained, as it is in memory.
        capped: The training graph.
        plan: The privacy plan.
        config: How the plan is executed.
        threads: Number of CPU threads.
        make_table: Returns the rows that steps use; called only where steps are left.
        pool: Public entities that negatives are drawn from.
    """

    encoder: "Encoder"
    capped: "CappedGraph"
    plan: PrivacyPlan
    config: TrainingConfig
    threads: int
    make_table: Callable[[], Any]
    pool: Any = None

    @cached_property
    def machine(self) -> dict[str, Any]:
        """What must be the same for repeated steps to have the same bits."""
        here = machine(self.config.performance.device, self.threads)
        here |= asdict(self.config.performance) | {"threads": self.threads}
        return here | {"attention": attention_of(self.encoder)}

    def inputs(self, private: PrivateRecord) -> dict[str, Any]:
        """Hashes of what steps compute with; the sensitive one as a commitment."""
        return {
            "table_commitment": private.commit("table", self._table_sha256),
            "pool_sha256": self._pool_sha256,
            "encoder_sha256": self._encoder_sha256,
            "outputs_sha256": self._outputs_sha256,
        }

    @property
    def identity(self) -> str:
        """Data and objective as text, to bind the key of the noise to; sensitive.

        The machine is left out: where it differs, a branch has a random number of its own.
        """
        # The generator too: one key must not feed two generators.
        generator = {"noise": self.config.performance.noise_generator}
        parts = {
            "plan": self.plan.hash,
            "graph": self.capped.fingerprint,
            "table": self._table_sha256 if self.encoder.table_is_exact else None,
            "pool": self._pool_sha256,
            "encoder": [self.encoder.describe(), self._encoder_sha256],
            "training": asdict(self.config.learning) | generator,
        }
        return json.dumps(parts, sort_keys=True)

    @property
    def sensitive(self) -> dict[str, Any]:
        """Exact counts, for private.json only: no noise was added to them."""
        capped, record = self.capped, self.capped.graph.record
        return {
            "num_entities": capped.num_entities,
            "num_protected": int(capped.protected.sum()),
            "num_relations": capped.num_relations,
            "capping": capped.report.to_dict(),
            "drops": dict(record.drops),
            "notes": list(record.notes),
        }

    @cached_property
    def _table_sha256(self) -> str:
        return table_sha256(self.make_table(), self.capped)

    @cached_property
    def _pool_sha256(self) -> str | None:
        return pool_sha256(self.pool)

    @cached_property
    def _encoder_sha256(self) -> str:
        return encoder_sha256(self.encoder)

    @cached_property
    def _outputs_sha256(self) -> str:
        return outputs_sha256(self.encoder)

    def start(self, private: PrivateRecord) -> dict[str, Any]:
        """The facts of the ledger's first entry, apart from `inputs`."""
        noise = (
            "none" if self.plan.noise_multiplier == 0 else self.config.performance.noise_generator
        )
        return {
            "num_steps": self.plan.num_steps,
            "plan_hash": self.plan.hash,
            "graph": self._graph(private),
            "encoder": self.encoder.describe()
            | {"start_sha256": state_hash(self.encoder.trainable())},
            "training": asdict(self.config.learning),
            "noise": {"source": noise, "description": _NOISE.get(noise, "none")},
            "versions": versions(),
            "machine": self.machine,
        }

    def _graph(self, private: PrivateRecord) -> dict[str, Any]:
        """The data as far as it may be shown: the same for neighboring graphs.

        Whether every entity is protected is, too: neighbors differ in a protected entity. What is
        known about sizes is in the plan.
        """
        capped = self.capped
        return {
            "commitment": private.commitment,
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
        streams: Random draws and noise; None when no step is left.
    """

    def __init__(
        self,
        run: RunFolder,
        facts: RunFacts,
        ledger: Ledger,
        private: PrivateRecord,
        checkpoint: Checkpoint,
        streams: Streams | None,
    ) -> None:
        """Takes over an open ledger; use `open`."""
        self.run, self.ledger, self.checkpoint, self.streams = run, ledger, checkpoint, streams
        self._facts, self._private = facts, private

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
        private = PrivateRecord.new(facts.capped.fingerprint, facts.sensitive)
        private.write(run.private)
        streams = Streams(bound_key(make_key(run.key), facts.identity))
        named = {"step": first.step, "sha256": save_checkpoint(run.checkpoints, first)}
        start = facts.start(private) | {"inputs": facts.inputs(private), "checkpoint": named}
        return cls(run, facts, Ledger.create(run.ledger, start), private, first, streams)

    @classmethod
    def _resume(cls, run: RunFolder, facts: RunFacts, ledger: Ledger) -> "Session":
        private = refuse_changes(run, facts, ledger.record)
        checkpoint = _named_checkpoint(run, ledger)
        if ledger.record.completion is not None:
            return cls(run, facts, ledger, private, checkpoint, None)
        reason = why_new_branch(facts, ledger.record)
        stop = ledger.record.branches[-1].stop
        last = checkpoint.step == stop and ledger.num_left == 0
        if last and not run.key.exists():
            return cls(run, facts, ledger, private, checkpoint, None)
        streams = Streams(bound_key(read_key(run.key), facts.identity))
        session = cls(run, facts, ledger, private, checkpoint, streams)
        if checkpoint.step < stop or ledger.num_left:
            session._go_on(reason)
        return session

    @property
    def stream_number(self) -> int:
        """The number that addresses draws and noise of the newest branch; 0 for the first."""
        return int(newest_branch(self.ledger.record).get("stream_number", 0))

    @property
    def stop(self) -> int:
        """The step after the last one that this branch may run."""
        return self.ledger.record.branches[-1].stop + self.ledger.num_left

    @property
    def is_complete(self) -> bool:
        """Whether the ledger has its end."""
        return self.ledger.record.completion is not None

    def open_branch(self, reason: str) -> None:
        """Goes on from the newest checkpoint with fresh random draws and noise."""
        self._go_on(reason)

    def _go_on(self, reason: str | None) -> None:
        """Says in the ledger that the run goes on, in a new branch if there is a reason for one."""
        facts: dict[str, Any] = {"machine": self._facts.machine}
        if reason is not None:
            # A random number: two copies of a run folder, resumed on two machines, must not draw
            # the same noise for different sums.
            facts["stream_number"] = 1 + secrets.randbelow(2**63 - 1)
            facts["inputs"] = self._facts.inputs(self._private)
        self.ledger.resume(self.checkpoint.step, new_branch=reason, facts=facts)

    def save(self, checkpoint: Checkpoint) -> None:
        """Makes a checkpoint the one to go on from."""
        sha256 = save_checkpoint(self.run.checkpoints, checkpoint)
        self.ledger.checkpoint(checkpoint.step, sha256)
        keep_only(self.run.checkpoints, checkpoint.step)
        self.checkpoint = checkpoint

    def complete(self, encoder: "Encoder") -> None:
        """Writes the model, destroys the key and ends the ledger."""
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
        return int(newest_branch(ledger.record)["machine"]["threads"])


def _clear(run: RunFolder) -> None:
    """Makes the folder, and removes what a start that was cut short left in it."""
    ours = {*_OWN_NAMES, *(name + TEMPORARY for name in _OWN_NAMES)}
    with disk_errors(run.path):
        run.path.mkdir(parents=True, exist_ok=True)
        foreign = sorted(place.name for place in run.path.iterdir() if place.name not in ours)
        if foreign:
            raise ConfigError(
                f"The run folder must be new, empty or hold a run, got one with {foreign[0]!r}. "
                "Choose another folder."
            )
        for place in run.path.iterdir():
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink()


def _named_checkpoint(run: RunFolder, ledger: Ledger) -> Checkpoint:
    """The checkpoint that the ledger names; what a crash left beside it is removed."""
    named = ledger.record.checkpoint
    if named is None:
        raise ResumeError("The ledger must name a checkpoint to go on from, got none.")
    checkpoint = read_checkpoint(run.checkpoints, int(named["step"]), str(named["sha256"]))
    keep_only(run.checkpoints, checkpoint.step)
    return checkpoint
