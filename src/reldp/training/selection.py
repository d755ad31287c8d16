"""Choosing among the weights of a run by a public graph.

Every so many steps the weights that would be released are evaluated on a public graph, and the best ones are kept. The
choice is a function of noisy weights and public data, so it costs nothing beyond the steps: the certificate
covers every counted step, also those after the chosen weights, and says what was chosen by what (theory.md 6).

The graph must be public. A graph that was read from the same folder, has the same content, or has a budget is
refused, and so is one that shares ids or owners with protected entities, unless that is declared to be meant.

Inside the package: `Chosen`, `Selection`.

>>> Chosen().facts
{}
"""

from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from reldp._progress import reporting
from reldp._validate import check_integer
from reldp.errors import ConfigError, InputError
from reldp.evaluation import evaluate
from reldp.runs.budget_place import find_budget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph, EntityGraph
    from reldp.graph.holdout import Holdout
    from reldp.training.objective import Objective
    from reldp.training.state import TrainingState

__all__ = ["Chosen", "Selection"]

METRIC = "mrr"
CANDIDATES = 256
MAX_RELATIONS = 4096


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The best weights so far.

    Attributes:
        facts: The step after which they were taken, and their score; empty before the first evaluation.
        weights: The weights by name, on the CPU.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    weights: "Mapping[str, Tensor]" = field(default_factory=dict)

    @classmethod
    def of(cls, state: "TrainingState") -> "Chosen":
        """Return what a checkpoint holds."""
        return cls(facts=state.chosen, weights=state.best)


class Selection:
    """Evaluations on a public graph.

    Args:
        graph: The public graph.
        interval: Number of steps between evaluations; the last weights are evaluated as well.
        capped: The private training graph.
        shares_ids: Whether the graph is public although it shares ids with protected entities.
        holdout: The split that the training graph is a part of, if any: its other part is private too.

    Raises:
        ConfigError: The graph looks like private data, or has too few relations.
    """

    def __init__(
        self,
        graph: "EntityGraph",
        interval: int,
        capped: "CappedGraph",
        *,
        shares_ids: bool = False,
        holdout: "Holdout | None" = None,
    ) -> None:
        """Check the graph, before anything is computed."""
        self._interval = check_integer("eval_every", interval, low=1, error=ConfigError)
        self._graph, self._shares_ids = graph, shares_ids
        private = [capped.graph] if holdout is None else [capped.graph, holdout.test]
        folder = capped.graph.folder if holdout is None else holdout.folder
        _refuse_private(graph, private, folder)
        if not shares_ids and any(_share_ids(graph, part) for part in private):
            raise ConfigError(
                "`eval_graph` must be public, got one that shares ids or owners with protected entities. If they "
                "name other things, or their relations are public, say so with eval_shares_ids."
            )
        if graph.num_relations < 2:
            raise ConfigError("`eval_graph` must have two relations or more, got fewer.")

    @property
    def facts(self) -> dict[str, Any]:
        """What is chosen by what, for the ledger; public."""
        return {
            "every": self._interval,
            "metric": METRIC,
            "graph_sha256": self._graph.fingerprint,
            "shares_ids": self._shares_ids,
        }

    def check(self, encoder: "Encoder", loss: Any) -> None:
        """Refuse a graph that the encoder or the loss cannot evaluate, before anything is spent: two relations show it.

        Args:
            encoder: The encoder, ready to encode.
            loss: The loss.

        Raises:
            ConfigError: It is one.
        """
        try:
            with reporting(None):
                self._score(encoder, loss, 2)
        except InputError as error:
            raise ConfigError(
                f"`eval_graph` must be one that encoder and loss can evaluate, got another: {error}"
            ) from None

    def is_due(self, step: int, stop: int) -> bool:
        """Return whether the weights after so many steps are evaluated."""
        return step % self._interval == 0 or step == stop

    def better(
        self, chosen: Chosen, step: int, objective: "Objective", current: "Mapping[str, Tensor]"
    ) -> Chosen:
        """Return the better of what was chosen and the current weights; of equal ones the earlier.

        Args:
            chosen: The best so far.
            step: Number of steps that were taken.
            objective: Encoder and loss.
            current: The weights that would be released now.
        """
        with _loaded(objective, current), reporting(None):  # the bar of training is on the screen
            score = self._score(objective.encoder, objective.loss)
        if chosen.facts and score <= chosen.facts["score"]:
            return chosen
        weights = {name: value.detach().cpu().clone() for name, value in current.items()}
        return Chosen(facts={"step": step, "score": score}, weights=weights)

    def _score(self, encoder: "Encoder", loss: Any, max_relations: int = MAX_RELATIONS) -> float:
        graph = self._graph
        is_typed = bool(graph.type_names) and hasattr(loss, "query_vectors")
        result = evaluate(
            encoder,
            graph,
            min(CANDIDATES, graph.num_relations, max_relations),
            loss=loss if is_typed else None,
            max_relations=max_relations,
            resamples=1,
        )
        return round(float(result[METRIC]), 12)


def _refuse_private(
    graph: "EntityGraph", private: "Sequence[EntityGraph]", folder: "Path | None"
) -> None:
    """Refuse a graph that is the private one, a part of it, or has a budget."""
    is_part = graph.folder is not None and graph.folder == folder
    has_budget = find_budget(graph.folder) is not None
    if is_part or has_budget or graph.fingerprint in [part.fingerprint for part in private]:
        reason = "one with a budget" if has_budget else "the training graph or a part of it"
        raise ConfigError(
            f"`eval_graph` must be public, got {reason}. Choosing by private relations costs privacy that no "
            "certificate counts."
        )


def _share_ids(graph: "EntityGraph", private: "EntityGraph") -> bool:
    """Return whether a protected entity has the id of an entity of the graph."""
    import pyarrow as pa
    import pyarrow.compute as pc

    protected = private.ids.filter(pa.array(private.protected)).cast(pa.string())
    shared = pc.is_in(graph.ids.cast(pa.string()), value_set=protected)
    return bool(pc.any(shared).as_py()) or _share_owners(graph, private)


def _share_owners(graph: "EntityGraph", private: "EntityGraph") -> bool:
    """Return whether both graphs have owners, and a protected one occurs in the public graph."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "owner" not in graph.columns or "owner" not in private.columns:
        return False
    protected = {str(owner) for owner in private.column("owner", np.flatnonzero(private.protected))}
    owners = pa.array(sorted(protected - {"None"}), pa.string())
    public = pa.array(
        [str(owner) for owner in graph.column("owner") if owner is not None], pa.string()
    )
    return bool(pc.any(pc.is_in(public, value_set=owners)).as_py())


@contextmanager
def _loaded(objective: "Objective", values: "Mapping[str, Tensor]") -> "Iterator[None]":
    """Give the encoder some weights for a moment, unless it has them."""
    parameters = objective.parameters
    if all(values[name] is parameters[name] for name in parameters):
        yield
        return
    before = {name: value.detach().clone() for name, value in parameters.items()}
    objective.load(values)
    try:
        yield
    finally:
        objective.load(before)
