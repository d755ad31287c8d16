"""Feature columns that look derived from relations.

Such features depend on other entities, which the guarantee assumes they do not (theory.md 6).
Nothing can prove that features depend on their entity alone; these five signs are those that the usual ways of
deriving features leave behind:

* **degree**: a column is a function of the degree. Degrees explain at least `DEGREE_SHARE` of its
  variance, beyond what as many random groups would.
* **pooled**: a column is the mean, sum, largest or smallest value of a column over the neighbors, with
  or without the entity itself: correlation of at least `POOLED_CORRELATION`.
* **twins**: entities with the same neighbors have the same features, and others of the same degree
  do not.
* **spread**: the spread of a column, or of all together, changes with the degree as that of an average
  or a sum does: its logarithm has a slope beyond `SPREAD_SLOPE` in the logarithm of 1 + degree (features
  of the entity alone: 0, the average of independent ones: -1, their sum: 1), by at least `SPREAD_ERRORS`
  standard errors.
* **alike**: a column, or all together, correlates with its mean over those one or two relations away
  by at least `ALIKE_CORRELATION` (single columns: where there are `MIN_SINGLE` entities). Features of
  the entity alone can be this alike where related entities really are.

Statistical signs need `MIN_ENTITIES` entities with relations. At most `_ENTITIES` entities and
`_COLUMNS` columns are looked at, chosen by a fixed seed. All results are **sensitive**.

Public: `find_derived`, `DerivedFeatures`.

>>> from reldp.graph import EntityGraph
>>> star = [(0, i) for i in range(1, 40)]
>>> ring = [(i, i + 1) for i in range(40, 79)]
>>> values = np.random.default_rng(0).normal(size=(80, 2))
>>> find_derived(EntityGraph.from_lists(range(80), star + ring, features=values)).signs
()
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.graph.entity_graph import EntityGraph

__all__ = [
    "ALIKE_CORRELATION",
    "DEGREE_SHARE",
    "MIN_ENTITIES",
    "MIN_SINGLE",
    "POOLED_CORRELATION",
    "SPREAD_ERRORS",
    "SPREAD_SLOPE",
    "DerivedFeatures",
    "find_derived",
]

DEGREE_SHARE = 0.8
POOLED_CORRELATION = 0.99
SPREAD_SLOPE = 0.5
SPREAD_ERRORS = 8.0
ALIKE_CORRELATION = 0.6
MIN_ENTITIES = 50
MIN_SINGLE = 200

_ENTITIES, _COLUMNS = 5_000, 256
_TWINS, _TWIN_SHARE, _DIFFERENT_SHARE = 10, 0.9, 0.1
_GROUP = 5  # fewest entities of a degree that counts
_MAX_NEIGHBORS = 2_000  # entities with more are not examined
_HOPS = 8  # neighbors taken at each of two relations

_Matrix = npt.NDArray[np.float64]
_Index = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class DerivedFeatures:
    """Signs that features were derived from relations; sensitive.

    Attributes:
        signs: Names of the signs found, in the order of the module's list.
        degree_columns: Columns (from 1) that are functions of the degree.
        pooled_columns: Columns (from 1) that are pooled over neighbors.
        twin_share: Share of the entities with equal neighbors whose features are equal too.
        spread_columns: Columns (from 1) whose spread changes with the degree.
        spread_slope: Of all columns together, in the logarithm of 1 + degree.
        alike_columns: Columns (from 1) that correlate with those of related entities.
        alike: That correlation on average over columns.
        num_entities: Entities looked at: with relations and not too many.
        num_columns: Columns looked at: those that are not constant.
    """

    signs: tuple[str, ...] = ()
    degree_columns: tuple[int, ...] = ()
    pooled_columns: tuple[int, ...] = ()
    twin_share: float = 0.0
    spread_columns: tuple[int, ...] = ()
    spread_slope: float = 0.0
    alike_columns: tuple[int, ...] = ()
    alike: float = 0.0
    num_entities: int = 0
    num_columns: int = 0


def find_derived(graph: EntityGraph) -> DerivedFeatures:
    """Look for signs that the features of a graph were derived from its relations.

    Args:
        graph: A graph with features.
    """
    links = _Links(graph.relations, graph.num_entities)
    rows, columns = _sample(graph, links)
    if len(rows) >= MIN_ENTITIES:
        columns = columns[_Values(graph.features, columns)[rows].std(axis=0) > 0]
    if len(rows) < MIN_ENTITIES or not len(columns):
        return DerivedFeatures()
    values = _Values(graph.features, columns)
    entity_values, degrees = values[rows], links.degrees[rows]
    pooled = _pooled_columns(values, rows, links)
    degree = _degree_columns(entity_values, degrees)
    slopes, is_spread = _spread(entity_values, degrees)
    alike = _alike(values, rows, links)
    twins, different = _twin_shares(values, links)
    single = alike >= (ALIKE_CORRELATION if len(rows) >= MIN_SINGLE else np.inf)
    together = float(alike.mean())
    signs_seen = {
        "degree": len(degree) > 0,
        "pooled": len(pooled) > 0,
        "twins": twins >= _TWIN_SHARE and different <= _DIFFERENT_SHARE,
        "spread": bool(is_spread.any()),
        "alike": together >= ALIKE_CORRELATION or bool(single.any()),
    }
    return DerivedFeatures(
        signs=tuple(name for name, is_there in signs_seen.items() if is_there),
        degree_columns=_numbers(columns[degree]),
        pooled_columns=_numbers(columns[pooled]),
        twin_share=twins,
        spread_columns=_numbers(columns[is_spread[1:]]),
        spread_slope=float(slopes[0]),
        alike_columns=_numbers(columns[single]),
        alike=together,
        num_entities=len(rows),
        num_columns=len(columns),
    )


def _numbers(columns: _Index) -> tuple[int, ...]:
    """Columns as people count them."""
    return tuple(int(column) + 1 for column in columns)


class _Links:
    """The neighbors of every entity, one list after the other.

    Attributes:
        degrees: (n,) how many neighbors each entity has.
        starts: (n,) where its list starts.
        targets: (2m,) the lists.
    """

    def __init__(self, relations: _Index, num: int) -> None:
        endpoints = np.concatenate([relations, relations[:, ::-1]])
        order = np.argsort(endpoints[:, 0], kind="stable")
        self.targets: _Index = endpoints[order, 1]
        self.degrees: _Index = np.bincount(endpoints[:, 0], minlength=num)
        self.starts: _Index = np.concatenate([[0], np.cumsum(self.degrees)[:-1]]).astype(np.int64)

    def of(self, entity: int) -> _Index:
        """Return the neighbors of one entity."""
        return self.targets[self.starts[entity] : self.starts[entity] + self.degrees[entity]]

    def pooled(self, values: "_Values", rows: _Index, pool: Callable[..., Any]) -> _Matrix:
        """Return what `pool` makes of the neighbors' values, (rows, c)."""
        return np.stack([pool(values[self.of(int(row))], axis=0) for row in rows])


def _sample(graph: EntityGraph, links: _Links) -> tuple[_Index, _Index]:
    """Return the entities and columns to look at."""
    generator = np.random.default_rng(0)
    related = np.flatnonzero((links.degrees > 0) & (links.degrees <= _MAX_NEIGHBORS))
    rows = generator.permutation(related)[:_ENTITIES]
    assert graph.features is not None
    columns = np.sort(generator.permutation(graph.features.shape[1])[:_COLUMNS])
    return np.sort(rows), columns


class _Values:
    """Some columns of the features, read where they are asked for: a mapped file stays mapped.

    Attributes:
        columns: Which.
        num: How many entities there are.
    """

    def __init__(self, features: Any, columns: _Index, limits: Any = None) -> None:
        self._features, self.columns, self._limits = features, columns, limits
        self.num = len(features)

    def __getitem__(self, rows: _Index) -> _Matrix:
        """(..., c) values of the entities asked for."""
        values: _Matrix = self._features[rows][..., self.columns].astype(np.float64)
        return values if self._limits is None else np.clip(values, *self._limits)

    def clipped(self, low: _Matrix, high: _Matrix) -> "_Values":
        """Return the values with each column clipped to two limits."""
        return _Values(self._features, self.columns, (low, high))


def _degree_columns(values: _Matrix, degrees: _Index) -> _Index:
    """Return the columns that degrees explain, by the adjusted correlation ratio.

    Degrees that few entities have are left out: they would explain any value.
    """
    frequent = np.bincount(degrees)[degrees] >= _GROUP
    values, degrees = values[frequent], degrees[frequent]
    _, group = np.unique(degrees, return_inverse=True)
    size = np.bincount(group).astype(np.float64)
    count, groups = len(values), len(size)
    if groups < 2 or count < MIN_ENTITIES:
        return np.empty(0, np.int64)
    centered = values - values.mean(axis=0)
    sums = np.zeros((groups, values.shape[1]))
    np.add.at(sums, group, centered)
    between = (sums**2 / size[:, None]).sum(axis=0)
    total = (centered**2).sum(axis=0)
    within = np.maximum(total - between, 0.0)
    varies = total > 0
    left = within / (count - groups) / np.where(varies, total / (count - 1), 1.0)
    return np.flatnonzero(varies & (1 - left >= DEGREE_SHARE))


def _pooled_columns(values: _Values, rows: _Index, links: _Links) -> _Index:
    """Return the columns that are pooled over neighbors, from the same or another column."""
    entity_values = values[rows]
    total, count = links.pooled(values, rows, np.sum), links.degrees[rows][:, None]
    highest, lowest = links.pooled(values, rows, np.max), links.pooled(values, rows, np.min)
    # Pooled with the entity itself, a column resembles itself: only other columns are evidence then.
    sources = [(total / count, True), (total, True), (highest, True), (lowest, True)]
    sources += [((total + entity_values) / (count + 1), False), (total + entity_values, False)]
    sources += [
        (np.maximum(highest, entity_values), False),
        (np.minimum(lowest, entity_values), False),
    ]
    pooled = np.zeros(entity_values.shape[1], dtype=bool)
    for source, with_itself in sources:
        strength = np.abs(_correlations(entity_values, source))  # (c, c): column, pooled column
        if not with_itself:
            np.fill_diagonal(strength, 0.0)
        pooled |= (strength >= POOLED_CORRELATION).any(axis=1)
    return np.flatnonzero(pooled)


def _correlations(one: _Matrix, other: _Matrix) -> _Matrix:
    """(c, c) correlations between columns; 0 for constant ones."""
    scaled = []
    for matrix in (one, other):
        centered = matrix - matrix.mean(axis=0)
        norm = np.sqrt((centered**2).sum(axis=0))
        scaled.append(centered / np.where(norm > 0, norm, np.inf))
    return np.asarray(scaled[0].T @ scaled[1])


def _spread(values: _Matrix, degrees: _Index) -> tuple[_Matrix, npt.NDArray[np.bool_]]:
    """Slopes of log spread in log(1 + degree), of all columns and of each, and which are signs."""
    count = values.shape[1]
    if len(np.unique(degrees)) < 3:
        return np.zeros(1 + count), np.zeros(1 + count, dtype=bool)
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    spread = np.column_stack([(scaled**2).mean(axis=1), scaled**2])  # (rows, 1 + c)
    y = np.log(np.maximum(spread, 1e-6))
    y -= y.mean(axis=0)
    x = np.log1p(degrees)[:, None]
    x = x - x.mean()
    slopes = (x * y).sum(axis=0) / (x**2).sum()
    # Robust to spreads that vary more for some degrees than for others.
    errors = np.sqrt(((x * (y - x * slopes)) ** 2).sum(axis=0)) / (x**2).sum()
    strong = np.abs(slopes) >= np.maximum(SPREAD_SLOPE, SPREAD_ERRORS * errors)
    return slopes, strong


def _alike(values: _Values, rows: _Index, links: _Links) -> _Matrix:
    """(c,) correlation of each column with its mean one, or two, relations away: the larger."""
    low, high = np.quantile(values[rows], [0.01, 0.99], axis=0)
    values = values.clipped(low, high)  # a single huge value must not decide
    correlations = _matching(values[rows], links.pooled(values, rows, np.mean))
    generator = np.random.default_rng(1)
    further = [_two_away(int(row), links, generator) for row in rows]
    has = np.array([len(some) > 0 for some in further])
    if has.sum() < MIN_ENTITIES:
        return correlations
    means = np.stack([values[some].mean(axis=0) for some in further if len(some)])
    return np.maximum(correlations, _matching(values[rows[has]], means))


def _matching(one: _Matrix, other: _Matrix) -> _Matrix:
    """(c,) correlations of matching columns."""
    return np.diag(_correlations(one, other))


def _two_away(row: int, links: _Links, generator: np.random.Generator) -> _Index:
    """Return some entities two relations away, without the entity itself."""
    near = generator.permutation(links.of(row))[:_HOPS]
    reached = np.concatenate([generator.permutation(links.of(int(n)))[:_HOPS] for n in near])
    return np.unique(reached[reached != row])


def _twin_shares(values: _Values, links: _Links) -> tuple[float, float]:
    """Return how often entities with equal neighbors have equal features, and how often others do."""
    generator = np.random.default_rng(2)
    num = values.num
    marks = generator.integers(0, 2**63, size=num, dtype=np.uint64)
    sums = np.zeros(num, dtype=np.uint64)
    np.add.at(sums, np.repeat(np.arange(num), links.degrees), marks[links.targets])
    best = (0.0, 1.0)
    for keys in (sums, sums + marks):  # without itself, and with
        pairs = _pairs(np.where(links.degrees > 0, keys, marks))
        if len(pairs) < _TWINS:
            continue
        different = np.stack(
            [pairs[:, 0], _same_degree(pairs[:, 1], links.degrees, generator)], axis=1
        )
        different = different[keys[different[:, 0]] != keys[different[:, 1]]]
        shares = _equal_share(values, pairs), _equal_share(values, different)
        best = max(best, shares, key=lambda share: share[0] - share[1])
    return best


def _pairs(keys: npt.NDArray[np.uint64]) -> _Index:
    """(pairs, 2) entities that follow one another among those of one key."""
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])[:_ENTITIES]
    return np.stack([order[same], order[same + 1]], axis=1)


def _same_degree(rows: _Index, degrees: _Index, generator: np.random.Generator) -> _Index:
    """Return another entity of the same degree for each, at random."""
    order = np.lexsort((generator.random(len(degrees)), degrees))
    ordered = degrees[order]
    low, high = (np.searchsorted(ordered, degrees[rows], side=s) for s in ("left", "right"))
    return np.asarray(order[generator.integers(low, high)])


def _equal_share(values: _Values, pairs: _Index) -> float:
    """Return the share of pairs with equal features, up to rounding."""
    if not len(pairs):
        return 1.0
    both = values[pairs]  # (pairs, 2, c)
    size = np.abs(both).max(axis=(1, 2))
    apart = np.abs(both[:, 0] - both[:, 1]).max(axis=1)
    return float((apart <= 1e-5 * size + 1e-12).mean())
