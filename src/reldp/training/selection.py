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

from reldp._progress import reporting
from reldp._validate import check_integer, refuse
from reldp.errors import ConfigError, InputError
from reldp.evaluation import evaluate
from reldp.training.public_graphs import refuse_private_graph, share_ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph, EntityGraph
    from reldp.graph.holdout import Holdout
    from reldp.training.objective import Objective
    from reldp.training.state import TrainingState

__all__ = ["Chosen", "Selection"]

_CHOICE = "Choosing by private relations costs privacy that no certificate counts."
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
        from reldp.graph import CappedGraph, EntityGraph

        for name, given, kind in (
            ("eval_graph", graph, EntityGraph),
            ("capped", capped, CappedGraph),
        ):
            if not isinstance(given, kind):
                words = f"{'an' if kind is EntityGraph else 'a'} {kind.__name__}"
                refuse(name, words, given, error=ConfigError)
        self._interval = check_integer("eval_every", interval, low=1, error=ConfigError)
        self._graph, self._shares_ids = graph, shares_ids
        self.refuse_private(capped, holdout)
        if graph.num_relations < 2:
            raise ConfigError("`eval_graph` must have two relations or more, got fewer.")

    def refuse_private(self, capped: "CappedGraph", holdout: "Holdout | None") -> None:
        """Refuse to choose by what looks like private data of a run.

        Args:
            capped: The training graph of the run.
            holdout: The split that it is a part of, if any.

        Raises:
            ConfigError: The graph is private, or shares ids with it although that was not declared.
        """
        private = [capped.graph] if holdout is None else [capped.graph, holdout.test]
        folder = capped.graph.folder if holdout is None else holdout.folder
        refuse_private_graph("eval_graph", self._graph, private, folder, _CHOICE)
        if not self._shares_ids and any(share_ids(self._graph, part) for part in private):
            raise ConfigError(
                "`eval_graph` must be public, got one that shares ids or owners with protected entities. If they "
                "name other things, or their relations are public, say so with `eval_shares_ids=True`."
            )

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
