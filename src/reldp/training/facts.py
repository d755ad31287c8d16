"""What a training run is, for its ledger: public facts, sensitive ones, and the key's identity.

A session of a run (`reldp.runs.session`) compares and records these without knowing about torch.

Public inside the package: `TrainingFacts`.

>>> TrainingFacts.__dataclass_fields__["pool"].default is None
True
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.encoders.folders import state_hash
from reldp.graph.graph_names import graph_names
from reldp.plan import PrivacyPlan
from reldp.runs.budget_entry import BudgetUse
from reldp.runs.budget_place import budget_of_graph
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.training.config import PerformanceSettings
from reldp.training.encoder_contract import checked_description
from reldp.training.identity import (
    attention_of,
    encoder_sha256,
    outputs_sha256,
    pool_sha256,
    stated_hash,
    table_sha256,
)
from reldp.training.loss_hash import loss_sha256
from reldp.training.plain_values import name_of
from reldp.training.repeatability import is_repeatable, machine, versions

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph
    from reldp.graph.holdout import Holdout
    from reldp.training.objective import Objective

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
        objective: The encoder that is trained, and its loss, as they are in memory.
        capped: The training graph.
        plan: The privacy plan.
        training: How the run learns, as plain JSON values; with a ``loss`` if that is an included one by name.
        performance: How steps are computed.
        threads: Number of CPU threads.
        make_table: Returns the rows that steps use; called only if steps are left.
        pool: Public entities that negatives are drawn from.
        budget_folder: Folder of the budget, if one was named; else that of the graph.
        purpose: What the run is for, for its budget.
        selection: What the released weights are chosen by, if any (`reldp.training.selection`).
        search: The search that the run belongs to, if any (`reldp.training.searching`).
        holdout: The split that the training graph is a part of, if any.
        has_known_loop: Whether everything between two steps is known and saved, as in `Trainer`.
        count_processes: Returns the number of processes if bits depend on it, and 1 otherwise; called only if steps
            are left.
    """

    objective: "Objective"
    capped: "CappedGraph"
    plan: PrivacyPlan
    training: Mapping[str, Any]
    performance: PerformanceSettings
    threads: int
    make_table: Callable[[], Any]
    pool: Any = None
    budget_folder: str | Path | None = None
    purpose: str = "train"
    selection: Mapping[str, Any] | None = None
    search: Mapping[str, Any] | None = None
    holdout: "Holdout | None" = None
    has_known_loop: bool = True
    count_processes: Callable[[], int] = lambda: 1

    @property
    def encoder(self) -> "Encoder":
        """The encoder that is trained."""
        return self.objective.encoder

    @cached_property
    def machine(self) -> dict[str, Any]:
        """Everything that must be the same for re-executed steps to have the same bits."""
        values = machine(self.performance.device, self.threads)
        values |= asdict(self.performance) | {"threads": self.threads}
        del values["tokenize"]  # the tokens are the same either way
        processes = self.count_processes()
        values |= {"processes": processes} if processes > 1 else {}
        for name in (
            "shard_weights",
            "checkpoint_activations",
        ):  # ledgers name them where they are on
            if not values[name]:
                del values[name]
        return values | {"attention": attention_of(self.encoder)}

    @property
    def is_repeatable(self) -> bool:
        """Whether re-executed steps have the same bits on the same machine."""
        return self.has_known_loop and is_repeatable(self.performance.device)

    @property
    def table_is_exact(self) -> bool:
        """Whether the rows that steps use have the same bits on every machine."""
        return self.encoder.table_is_exact

    @cached_property
    def budget(self) -> BudgetUse | None:
        """The budget that the run is entered in, if the graph has one or one was named."""
        graph = self.capped.graph
        folder = budget_of_graph(graph.folder, self.budget_folder, graph_names(graph))
        if folder is None:
            return None
        token = None if self.search is None else str(self.search["token"])
        return BudgetUse(
            folder=folder,
            fingerprint=self.fingerprint,
            purpose=self.purpose,
            search=token,
            names=graph_names(graph),
            graph=graph.folder,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the content of the capped graph; sensitive."""
        return self.capped.fingerprint

    def inputs(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return hashes of what steps compute with; the sensitive one as a commitment."""
        files = stated_hash(self.make_table(), "files_sha256")  # of a token table beside a store
        return {
            "table_commitment": sensitive.commit("table", self._table_sha256),
            **({} if files is None else {"tokens_commitment": sensitive.commit("tokens", files)}),
            "pool_sha256": self._pool_sha256,
            "encoder_sha256": self._encoder_sha256,
            "outputs_sha256": self._outputs_sha256,
            "loss_sha256": self._loss_sha256,
        }

    def take_hashes(self) -> None:
        """Compute all hashes from the whole module, before it is sharded."""
        _ = self.hashes, self._outputs_sha256, self.machine

    @property
    def hashes(self) -> dict[str, str | None]:
        """Hashes of what steps compute with, by name; sensitive."""
        return {
            "table": self._table_sha256,
            "pool": self._pool_sha256,
            "encoder": self._encoder_sha256,
            "loss": self._loss_sha256,
        }

    @property
    def identity(self) -> str:
        """Data and objective as text, which the key of the noise is bound to; sensitive.

        The machine is not part of it: on a different machine, a run continues in a new branch with a
        random stream number.
        """
        # The generator is part of it: one key must not feed two generators.
        generator = {"noise": self.performance.noise_generator}
        parts = {
            "plan": self.plan.hash,
            "graph": self.capped.fingerprint,
            "table": self._table_sha256 if self.encoder.table_is_exact else None,
            "pool": self._pool_sha256,
            "encoder": [checked_description(self.encoder), self._encoder_sha256],
            "training": {**self.training, **generator},
        }
        if "loss" not in self.training:  # otherwise the settings say all about it
            parts["loss"] = self._loss_sha256
        return json.dumps(parts, sort_keys=True)

    @property
    def statistics(self) -> dict[str, Any]:
        """Exact counts, for sensitive.json only: no noise was added to them; sensitive."""
        capped, record = self.capped, self.capped.graph.record
        build_hash = getattr(capped.graph, "build_hash", None)  # of a graph store
        return {
            "num_entities": capped.num_entities,
            "num_protected": int(capped.protected.sum()),
            **({} if capped.owners is None else {"num_owners": capped.num_units}),
            "num_relations": capped.num_relations,
            "capping": capped.report.to_dict(),
            "drops": dict(record.drops),
            "notes": list(record.notes),
            **({} if build_hash is None else {"store_build_hash": build_hash}),
            **self._held_out_counts(),
        }

    def _held_out_counts(self) -> dict[str, Any]:
        """Return the sizes of the held-out part; sensitive."""
        if self.holdout is None:
            return {}
        test = self.holdout.test
        return {
            "held_out": {"num_entities": test.num_entities, "num_relations": test.num_relations}
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
    def _loss_sha256(self) -> str:
        return loss_sha256(self.objective.loss)

    @cached_property
    def _outputs_sha256(self) -> str:
        return outputs_sha256(self.encoder)

    def start(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return the public values of the ledger's first entry, except for `inputs`."""
        has_noise = self.plan.noise_multiplier > 0
        noise = self.performance.noise_generator if has_noise else "none"
        return {
            "num_steps": self.plan.num_steps,
            "plan_hash": self.plan.hash,
            "graph": self._graph(sensitive),
            "encoder": self._encoder(),
            "loss": self._loss(),
            "training": dict(self.training),
            "noise": {"source": noise, "description": _NOISE.get(noise, "none")},
            "versions": versions(),
            "machine": self.machine,
            **({} if self.selection is None else {"selection": dict(self.selection)}),
            **self._search(),
        }

    def _search(self) -> dict[str, Any]:
        """Return the public facts of the search that the run belongs to, without its token."""
        if self.search is None:
            return {}
        return {"search": {name: value for name, value in self.search.items() if name != "token"}}

    def _encoder(self) -> dict[str, Any]:
        """Return what the encoder is, before training; the class of one that is not part of reldp."""
        described = checked_description(self.encoder)
        described["start_sha256"] = state_hash(self.encoder.trainable())
        name = name_of(type(self.encoder))
        return described if name.startswith("reldp.") else {**described, "class": name}

    def _loss(self) -> dict[str, Any]:
        """Return what the loss is: its name, the hash of its code, and the settings of an included one."""
        loss, name, is_included = (
            self.objective.loss,
            self.objective.name,
            self.objective.is_included,
        )
        settings = loss.describe() if is_included and hasattr(loss, "describe") else {}
        facts = {"name": name, "included": is_included, "sha256": self._loss_sha256}
        facts |= {"settings": settings} if settings else {}
        if self.objective.loss_parameters:
            parameters = self.objective.loss_parameters
            facts["num_trainable"] = sum(p.numel() for p in parameters.values())
            facts["start_sha256"] = state_hash(parameters)
        return facts

    def _graph(self, sensitive: SensitiveRecord) -> dict[str, Any]:
        """Return the public facts about the data, which are the same for neighboring graphs.

        Whether all entities are protected is one of them: neighbors differ in a protected entity.
        The plan holds what is known about the sizes.
        """
        capped = self.capped
        declared = bool(capped.graph.record.relation_types)
        types = {"relation_types": "declared" if declared else "from the data"}
        return {
            "commitment": sensitive.commitment,
            "max_degree": capped.max_degree,
            "degree_bound": capped.degree_bound,
            "all_protected": bool(capped.protected.all()),
            **(types if capped.type_names else {}),
            **({} if self.holdout is None else {"holdout": self.holdout.facts}),
            "record": capped.graph.record.provenance,
        }
