"""What a training run is, for its ledger: public facts, sensitive ones, and the key's identity.

A session of a run (`reldp.runs.session`) compares and records these without knowing about torch.

Public inside the package: `TrainingFacts`.

>>> TrainingFacts.__dataclass_fields__["pool"].default is None
True
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reldp.encoders.folders import state_hash
from reldp.plan import PrivacyPlan
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.training.config import TrainingConfig
from reldp.training.identity import (
    attention_of,
    encoder_sha256,
    outputs_sha256,
    pool_sha256,
    table_sha256,
)
from reldp.training.repeatability import is_repeatable, machine, versions

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph

__all__ = ["TrainingFacts"]

_NOISE = {
    "secure": (
        "correctly rounded Gaussian on a grid of 2^-30 standard deviations, from AES-256 streams"
    ),
    "fast": (
        "Philox under a 128-bit key per step from an AES-256 stream, on a grid of 2^-30 standard "
        "deviations"
    ),
}


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """What a training run is, apart from what it learns.

    Attributes:
        encoder: The encoder that is trained, as it is in memory.
        capped: The training graph.
        plan: The privacy plan.
        config: How the plan is executed.
        threads: Number of CPU threads.
        make_table: Returns the rows that steps use; called only if steps are left.
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
        """Everything that must be the same for re-executed steps to have the same bits."""
        values = machine(self.config.performance.device, self.threads)
        values |= asdict(self.config.performance) | {"threads": self.threads}
        return values | {"attention": attention_of(self.encoder)}

    @property
    def is_repeatable(self) -> bool:
        """Whether re-executed steps have the same bits on the same machine."""
        return is_repeatable(self.config.performance.device)

    @property
    def table_is_exact(self) -> bool:
        """Whether the rows that steps use have the same bits on every machine."""
        return self.encoder.table_is_exact

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the content of the capped graph; sensitive."""
        return self.capped.fingerprint

    def inputs(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return hashes of what steps compute with; the sensitive one as a commitment."""
        return {
            "table_commitment": sensitive.commit("table", self._table_sha256),
            "pool_sha256": self._pool_sha256,
            "encoder_sha256": self._encoder_sha256,
            "outputs_sha256": self._outputs_sha256,
        }

    @property
    def identity(self) -> str:
        """Data and objective as text, which the key of the noise is bound to; sensitive.

        The machine is not part of it: on a different machine, a run continues in a new branch with a
        random stream number.
        """
        # The generator is part of it: one key must not feed two generators.
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
    def statistics(self) -> dict[str, Any]:
        """Exact counts, for sensitive.json only: no noise was added to them; sensitive."""
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

    def start(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return the public values of the ledger's first entry, except for `inputs`."""
        has_noise = self.plan.noise_multiplier > 0
        noise = self.config.performance.noise_generator if has_noise else "none"
        return {
            "num_steps": self.plan.num_steps,
            "plan_hash": self.plan.hash,
            "graph": self._graph(sensitive),
            "encoder": self.encoder.describe()
            | {"start_sha256": state_hash(self.encoder.trainable())},
            "training": asdict(self.config.learning),
            "noise": {"source": noise, "description": _NOISE.get(noise, "none")},
            "versions": versions(),
            "machine": self.machine,
        }

    def _graph(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return the public facts about the data, which are the same for neighboring graphs.

        Whether all entities are protected is one of them: neighbors differ in a protected entity.
        The plan holds what is known about the sizes.
        """
        capped = self.capped
        return {
            "commitment": sensitive.commitment,
            "max_degree": capped.max_degree,
            "degree_bound": capped.degree_bound,
            "all_protected": bool(capped.protected.all()),
            "record": capped.graph.record.provenance,
        }
