"""Graphs that a run takes for public, beside its private one: what can be recognized as private is refused.

A public pool of negatives, and a graph by which weights are chosen, must not depend on the private graph (theory.md 2
and 6). That is an assumption, which a certificate states. Its plainest violations are looked for here: the training
graph itself, a graph with a budget, and entities of the training graph.

Inside the package: `refuse_private_graph`, `refuse_private_pool`, `share_entities`, `share_ids`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"])
>>> share_ids(graph, graph), share_entities(graph, graph)
(True, True)
>>> share_entities(EntityGraph.from_lists(["a", "c"], [("a", "c")], text=["other", "y"]), graph)
False
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reldp.errors import ConfigError
from reldp.graph import EntityGraph
from reldp.runs.budget_place import find_budget

if TYPE_CHECKING:
    from reldp.graph import CappedGraph
    from reldp.graph.holdout import Holdout

__all__ = ["refuse_private_graph", "refuse_private_pool", "share_entities", "share_ids"]

_POOL = "Negatives from private entities cost privacy that a plan with public ones does not count."


def refuse_private_graph(
    name: str, graph: EntityGraph, private: Sequence[EntityGraph], folder: Path | None, reason: str
) -> None:
    """Refuse a graph that is the private one, a part of it, or has a budget.

    Args:
        name: The argument.
        graph: The graph that is said to be public.
        private: The training graph, and a held-out part if there is one.
        folder: The folder of both.
        reason: Why it matters.

    Raises:
        ConfigError: It is one of these.
    """
    is_part = graph.folder is not None and graph.folder == folder
    has_budget = find_budget(graph.folder) is not None
    if is_part or has_budget or graph.fingerprint in [part.fingerprint for part in private]:
        got = "one with a budget" if has_budget else "the training graph or a part of it"
        raise ConfigError(f"`{name}` must be public, got {got}. {reason}")


def refuse_private_pool(
    pool: Any,
    capped: "CappedGraph",
    holdout: "Holdout | None" = None,
    *,
    shares_entities: bool = False,
) -> None:
    """Refuse a public pool of negatives that looks like private data.

    A graph names its entities: one of the training graph is enough. Texts and features do not, and some of them may be
    equal by chance: all of them must be those of protected entities.

    Args:
        pool: The pool.
        capped: The training graph.
        holdout: The split that it is a part of, if any.
        shares_entities: Whether the pool is public although it has protected entities.

    Raises:
        ConfigError: It looks like private data.
    """
    private = [capped.graph] if holdout is None else [capped.graph, holdout.test]
    if isinstance(pool, EntityGraph):
        folder = capped.graph.folder if holdout is None else holdout.folder
        refuse_private_graph("pool", pool, private, folder, _POOL)
        is_private = any(share_entities(pool, part) for part in private)
    else:
        is_private = any(_all_are_of(pool, part) for part in private)
    if is_private and not shares_entities:
        raise ConfigError(
            "`pool` must be public, got protected entities of the training graph in it. If it was made without that "
            "graph, such as a catalog that everybody knows, say so with `pool_shares_entities=True`."
        )


def share_ids(graph: EntityGraph, private: EntityGraph) -> bool:
    """Return whether a protected entity has the id, or the owner, of an entity of the graph."""
    is_shared = pc.is_in(_protected_ids(private), value_set=graph.ids.cast(pa.string()))
    return bool(pc.any(is_shared).as_py()) or _share_owners(graph, private)


def share_entities(graph: EntityGraph, private: EntityGraph) -> bool:
    """Return whether a protected entity has id and content of an entity of the graph."""
    places = pc.index_in(_protected_ids(private), value_set=graph.ids.cast(pa.string()))
    is_shared = places.is_valid().to_numpy(zero_copy_only=False)
    ours = np.flatnonzero(private.protected)[is_shared]
    theirs = places.drop_null().to_numpy(zero_copy_only=False)
    if "text" in private.columns and "text" in graph.columns:
        pairs = zip(private.column("text", ours), graph.column("text", theirs), strict=True)
        return any(left == right for left, right in pairs)
    mine, other = private.features, graph.features
    if mine is None or other is None or mine.shape[1:] != other.shape[1:]:
        return False
    return bool((np.asarray(mine)[ours] == np.asarray(other)[theirs]).all(axis=1).any())


def _all_are_of(pool: Any, private: EntityGraph) -> bool:
    """Return whether all texts, or all rows of features, are those of protected entities."""
    rows = np.flatnonzero(private.protected)
    if isinstance(pool, np.ndarray) and len(pool):
        features = private.features
        if features is None or pool.shape[1:] != features.shape[1:]:
            return False
        private_rows = {row.tobytes() for row in np.asarray(features, np.float32)[rows]}
        return all(row.tobytes() in private_rows for row in np.asarray(pool, np.float32))
    is_text = isinstance(pool, list | tuple) and all(isinstance(text, str) for text in pool)
    if not is_text or not pool or "text" not in private.columns:
        return False
    return set(pool) <= set(private.column("text", rows))


def _protected_ids(private: EntityGraph) -> Any:
    ids = private.ids.filter(pa.array(private.protected)).cast(pa.string())
    return ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids


def _share_owners(graph: EntityGraph, private: EntityGraph) -> bool:
    """Return whether both graphs have owners, and a protected one occurs in the public graph."""
    if "owner" not in graph.columns or "owner" not in private.columns:
        return False
    protected = {str(owner) for owner in private.column("owner", np.flatnonzero(private.protected))}
    owners = pa.array(sorted(protected - {"None"}), pa.string())
    public = pa.array(
        [str(owner) for owner in graph.column("owner") if owner is not None], pa.string()
    )
    return bool(pc.any(pc.is_in(public, value_set=owners)).as_py())
