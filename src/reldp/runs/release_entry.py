"""Releases of private sizes in the budget of their graph.

A release costs epsilon, whether or not a run follows. It is refused before it is drawn if the limit could not bear the
largest cost that it may have, and entered after it is drawn and before anybody sees it. Called by
`reldp.graph.sizes`, by name.

Public inside the package: `ReleaseEntry`, `named_budget`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
>>> ReleaseEntry.of(graph.promise_degrees(1), None) is None
True
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reldp.errors import PlanError
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import release_id
from reldp.runs.budget_place import budget_for

if TYPE_CHECKING:
    from reldp.graph import CappedGraph
    from reldp.graph.size_release import Release

__all__ = ["ReleaseEntry", "named_budget"]

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
    """

    folder: Path
    fingerprint: str

    @classmethod
    def of(cls, capped: "CappedGraph", graph: Path | None) -> "ReleaseEntry | None":
        """Return the release for the budget of a graph's folder, or a named one; None if there is none."""
        folder = budget_for(graph, _NAMED.get())
        return None if folder is None else cls(folder, capped.fingerprint)

    def refuse(self, unit: str, epsilon: float, delta: float) -> None:
        """Refuse a release for another unit of privacy, or one that may cost this much if the limit could be exceeded.

        Raises:
            ConfigError: The unit of the budget is another.
            PlanError: The limit could be exceeded.
        """
        with Budget.open(self.folder, read_only=True) as budget:
            budget.refuse_release(unit, epsilon, delta)

    def enter(self, release: "Release") -> None:
        """Enter a release that was drawn."""
        try:
            bounds = release.bounds(0)[:2]
        except PlanError:  # too noisy to be used, and drawn all the same
            bounds = release.entities, release.relations
        with Budget.open(self.folder) as budget:
            name = release_id(budget.id, self.fingerprint, *bounds)
            budget.enter_release(release.epsilon(budget.unit), release.delta, name)
