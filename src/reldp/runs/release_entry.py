"""Releases of private sizes in the budget of their graph.

A release costs epsilon, whether or not a run follows. It is refused before it is drawn if the limit could not bear the
largest cost that it may have, and entered after it is drawn and before anybody sees it. Called by
`reldp.graph.sizes`, by name.

Public inside the package: `ReleaseEntry`, `named_budget`, `refuse_unsuited_run`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
>>> ReleaseEntry.of(graph.promise_degrees(1), None) is None
True
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reldp.errors import PlanError
from reldp.graph.graph_names import GraphNames, graph_names
from reldp.runs.budget import Budget
from reldp.runs.budget_cost import composed_epsilon
from reldp.runs.budget_place import budget_of_graph
from reldp.runs.budgeted_graphs import note_graph
from reldp.runs.past_releases import enter_at_first_use, stated_bounds
from reldp.runs.release_name import release_id

if TYPE_CHECKING:
    from reldp.graph import CappedGraph
    from reldp.graph.size_release import Release

__all__ = ["ReleaseEntry", "named_budget", "refuse_unsuited_run"]

_NAMED: ContextVar[Path | None] = ContextVar("named_budget", default=None)


@contextmanager
def named_budget(folder: Path | None) -> Iterator[None]:
    """Let releases of graphs without a budget be entered in a budget that the user named."""
    token = _NAMED.set(folder)
    try:
        yield
    finally:
        _NAMED.reset(token)


@dataclass(frozen=True)
class ReleaseEntry:
    """The release of the sizes of one capped graph.

    Attributes:
        folder: Folder of the budget.
        fingerprint: Of the capped graph; sensitive.
        names: Of the graph before capping; sensitive.
        graph: Folder of the graph, if it has one.
    """

    folder: Path
    fingerprint: str
    names: GraphNames
    graph: Path | None = None

    @classmethod
    def of(cls, capped: "CappedGraph", graph: Path | None) -> "ReleaseEntry | None":
        """Return the release for the budget of a graph's folder, or a named one; None if there is none.

        Raises:
            ConfigError: The same graph has another budget.
        """
        whole = graph_names(capped.graph)
        folder = budget_of_graph(graph, _NAMED.get(), whole)
        if folder is None:
            return None
        return cls(folder, capped.fingerprint, whole, graph)

    def refuse(
        self,
        unit: str,
        epsilon: float,
        delta: float,
        run: tuple[float | None, float | None, bool] | None = None,
    ) -> None:
        """Refuse a release for another unit of privacy, or one that may cost this much if the limit could be exceeded.

        Args:
            unit: The unit of privacy.
            epsilon: What the release may cost.
            delta: With what probability it may fail.
            run: Target epsilon and delta of the run that it is made for, as far as they are given, and whether its
                epsilon has no proof.

        Raises:
            ConfigError: The unit of the budget is another.
            PlanError: The limit could be exceeded, or the run would not be admitted.
        """
        if self.graph is not None:
            with Budget.open(self.folder) as budget:
                enter_at_first_use(self.graph, self.names.exact, budget, self.folder)
        with Budget.open(self.folder, read_only=True) as budget:
            budget.refuse_release(unit, epsilon, delta)
            if run is not None:
                refuse_unsuited_run(budget, *run)

    def enter(self, release: "Release") -> None:
        """Enter a release that was drawn."""
        bounds = stated_bounds(release)
        with Budget.open(self.folder) as budget:
            note_graph(budget.id, self.names)
            name = release_id(budget.id, self.fingerprint, *bounds)
            budget.enter_release(release.epsilon(budget.unit), release.delta, name)


def refuse_unsuited_run(
    budget: Budget, target: float | None, delta: float | None, is_claimed: bool = False
) -> None:
    """Refuse a run that the limit does not admit whatever the sizes are, or may not admit for want of a delta.

    Decided by settings alone: a decision by exact sizes would show something about them.

    Args:
        budget: The budget of its graph.
        target: Its target epsilon, if it has one.
        delta: Its delta, if it is given.
        is_claimed: Whether its epsilon has no proof.

    Raises:
        PlanError: The run would be refused after its sizes were released.
    """
    budget.refuse_claim(is_claimed=is_claimed)
    if budget.limit is None:
        return
    epsilon, of_limit = float(budget.limit["epsilon"]), float(budget.limit["delta"])
    charges = budget.charges
    plans = [charge.plan for charge in charges if charge.plan is not None]
    left = of_limit - (math.fsum(plan.delta for plan in plans) if budget.is_adaptive else 0.0)
    if delta is None:
        how = (
            f"less than {left:.3g}, of which each run takes a part"
            if budget.is_adaptive
            else f"{of_limit:g}"
        )
        raise PlanError(
            "`delta` must be given where the budget of the graph has a limit, got none: its default follows from "
            f"private sizes, which are not released yet, and may be above the budget's. Use --delta: {how}."
        )
    if budget.is_adaptive and delta > left:
        raise PlanError(
            f"`delta` must be at most {left:.3g}, which earlier runs leave of the budget's, got {delta:g}. With "
            "--adaptive, deltas of runs are added."
        )
    spent = composed_epsilon(charges, of_limit, adaptive=True) if budget.is_adaptive else 0.0
    is_comparable = budget.is_adaptive or delta >= of_limit
    if target is not None and is_comparable and target + spent > epsilon * (1 + 1e-9):
        raise PlanError(
            f"`target_epsilon` must be at most {max(epsilon - spent, 0.0):.6g}, which the limit of the budget leaves, "
            f"got {target:g}. Use a smaller one, or raise the limit."
        )
