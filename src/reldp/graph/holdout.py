"""Entities that are held out of training, to evaluate the model on relations that it has not seen.

Each entity is trained on or held out by a keyed hash of its own id (of its owner, where entities have owners) and a
public seed. Nothing else decides, so adding or removing an entity moves no other entity across the split, and a larger
share holds out the same entities and more. A relation is trained on if both its endpoints are, and used for the
evaluation if both are held out; one that crosses the split is used for neither.

Guarantee (theory.md 2.5): whatever is computed from `Holdout.train` alone does not depend on held-out entities. Cap
degrees and release sizes after the split, on that part. What is computed from `Holdout.test` is sensitive: no epsilon
covers it.

Public: `Holdout`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(range(400), [(i, (i + 1) % 400) for i in range(400)], text=["x"] * 400)
>>> holdout = Holdout.split(graph, 0.5)
>>> holdout.train.num_entities + holdout.test.num_entities
400
>>> holdout.facts
{'share': 0.5, 'seed': 0}
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp._validate import check_integer, check_number
from reldp.errors import ConfigError
from reldp.graph.graph_names import relations_name

if TYPE_CHECKING:
    from reldp.graph.entity_graph import EntityGraph

__all__ = ["MIN_RELATIONS", "Holdout"]

MIN_RELATIONS = 20
"""Fewest relations between held-out entities that an evaluation is made on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdout:
    """The two parts of a graph, made by `split`.

    Attributes:
        share: Probability that an entity is held out.
        seed: Public seed of the split.
        train: The entities that may be trained on, and the relations among them.
        test: The held-out entities, and the relations among them; sensitive.
        folder: Where the whole graph was read from; None if it was made in memory.
    """

    share: float
    seed: int
    train: "EntityGraph"
    test: "EntityGraph"
    folder: Path | None = None
    _is_made_by_split: bool = field(default=False, init=False, repr=False)  # copies lose it

    @classmethod
    def split(cls, graph: "EntityGraph", share: float, *, seed: int = 0) -> "Holdout":
        """Split a graph.

        Args:
            graph: The whole graph, not capped.
            share: Probability that an entity is held out, above 0 and below 1.
            seed: A public number that was chosen without looking at the graph.

        Raises:
            ConfigError: The share or the seed breaks its rule, the graph was capped, its types were taken from the
                data, or there are too few relations to evaluate on.
            GraphError: A part has no entity.
        """
        from reldp.graph.splits import check_graph, split_entities

        check_graph(graph)
        rule = "a number above 0 and below 1"
        check_number("holdout", share, above=0, below=1, rule=rule, error=ConfigError)
        check_integer("holdout_seed", seed, low=0, high=2**63 - 1, error=ConfigError)
        if graph.record.capped_at is not None:
            raise ConfigError(
                f"`holdout` must split a graph before its degrees are capped, got one that was capped at "
                f"{graph.record.capped_at}: held-out entities decided which relations are left. Use the whole graph."
            )
        if graph.relation_types is not None and not graph.record.relation_types:
            raise ConfigError(
                "`holdout` must be used with a declared list of relation types, got one that was taken from the data, "
                "held-out entities included. Use graph.with_types(names), or relation_types in record.json."
            )
        parts = split_entities(graph, _shares(float(share)), _key(seed))
        relations_name(graph)  # copies are compared by it when the whole graph is out of memory
        object.__setattr__(parts["train"], "whole", graph.whole or graph.fingerprint)
        made = cls(
            share=float(share),
            seed=seed,
            train=parts["train"],
            test=parts["held out"],
            folder=graph.folder,
        )
        if made.test.num_relations < MIN_RELATIONS:
            raise ConfigError(
                f"`holdout` must leave at least {MIN_RELATIONS} relations between held-out entities to evaluate on, "
                "got fewer. Hold out a larger share, or train without a holdout. Show this message to nobody: it "
                "depends on the data."
            )
        object.__setattr__(made, "_is_made_by_split", True)
        return made

    def check(self) -> None:
        """Refuse parts that `split` has not made with this share and seed.

        Raises:
            ConfigError: An entity is on another side than its id and the seed say, or a part was capped.
        """
        from reldp.graph.splits import entity_parts

        if self._is_made_by_split:
            return
        for side, part in enumerate((self.train, self.test)):
            sides = entity_parts(part, _shares(self.share), _key(self.seed))
            if part.record.capped_at is not None or (sides != side).any():
                raise ConfigError(
                    "`holdout` must be made by Holdout.split, got parts that its share and seed do not give."
                )

    @property
    def facts(self) -> dict[str, Any]:
        """The public settings of the split, for the ledger."""
        return {"share": self.share, "seed": self.seed}


def _shares(share: float) -> dict[str, float]:
    return {"train": 1.0 - share, "held out": share}


def _key(seed: int) -> bytes:
    """Not that of `split_entities` with the same seed: a part of such a split would be held out whole."""
    return b"holdout %d" % seed
