"""What a graph looks like before training: sizes, degrees, what capping keeps, what to worry about.

Guarantees: nothing but counts and lengths leaves this module, never a text, and an id only where
asked for. The counts are computed from the data without noise, so they are **sensitive**: look at
them on the side of the data. Public: :func:`inspect_graph`, :class:`GraphInspection`. theory.md 2.2
says what capping means for the guarantee.

>>> from reldp.graph import EntityGraph
>>> star = EntityGraph.from_lists("abcd", [("a", "b"), ("a", "c"), ("a", "d")], text=["x"] * 4)
>>> report = inspect_graph(star, caps=(2,))
>>> report.degrees.largest, report.caps[0].num_relations, report.texts.num_sharing
(3, 2, 4)
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.errors import GraphError
from reldp.graph.derivation import DerivedFeatures, find_derived
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.mentions import MentionSummary, find_mentions

__all__ = [
    "CAPS",
    "CapPreview",
    "DegreeBar",
    "DegreeSummary",
    "GraphInspection",
    "TextSummary",
    "inspect_graph",
]

CAPS = (1, 2, 5, 10, 20)
"""Bounds that an inspection tries."""


@dataclass(frozen=True, kw_only=True)
class DegreeBar:
    """How many entities have between ``low`` and ``high`` relations, both included."""

    low: int
    high: int
    num_entities: int

    @property
    def label(self) -> str:
        """The range in words: ``3-4``, or ``2`` where it is one number."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}-{self.high:,}"


@dataclass(frozen=True, kw_only=True)
class DegreeSummary:
    """Degrees of all entities, or of all owners where entities have owners.

    Attributes:
        median: The middle degree.
        mean: The average degree.
        largest: The largest degree of any entity.
        largest_protected: The largest degree of a protected entity, which a bound must meet.
        num_isolated: Entities without a relation; they can still be drawn as negatives.
        bars: Histogram over ranges that double: 0, 1, 2, 3-4, 5-8, ...
    """

    median: float
    mean: float
    largest: int
    largest_protected: int
    num_isolated: int
    bars: tuple[DegreeBar, ...]


@dataclass(frozen=True, kw_only=True)
class CapPreview:
    """What capping at one bound keeps.

    Attributes:
        max_degree: The bound.
        num_relations: Relations kept.
        share: Share of the relations kept.
        num_over: Protected entities that had more relations than the bound.
        num_left_alone: Entities that had relations and have none after capping.
    """

    max_degree: int
    num_relations: int
    share: float
    num_over: int
    num_left_alone: int


@dataclass(frozen=True, kw_only=True)
class TextSummary:
    """Lengths and duplicates of the texts.

    Attributes:
        median_words: Words of the middle text.
        longest_words: Words of the longest text.
        num_distinct: Different texts.
        num_sharing: Entities whose text another entity has too; a model cannot tell them apart.
        largest_group: How many entities share the most common text.
    """

    median_words: float
    longest_words: int
    num_distinct: int
    num_sharing: int
    largest_group: int


@dataclass(frozen=True, kw_only=True)
class GraphInspection:
    """Everything that an inspection counts; **sensitive**.

    Attributes:
        num_entities: Entities.
        num_relations: Relations.
        num_protected: Entities that the guarantee protects.
        feature_size: Length of the feature vectors, or None.
        degrees: Summary and histogram of the degrees.
        caps: What capping keeps, by bound.
        texts: Lengths and duplicates, or None without texts.
        mentions: Texts that contain another entity's id, or None without texts.
        derived: Signs that features were derived from relations, or None without features.
        record: The graph's record, as plain values.
        types: Number of relations of each type, or None without types.
        num_owners: Owners of entities, or None without owners. Degrees and bounds are then about owners.
    """

    num_entities: int
    num_relations: int
    num_protected: int
    feature_size: int | None
    degrees: DegreeSummary
    caps: tuple[CapPreview, ...]
    texts: TextSummary | None
    mentions: MentionSummary | None
    derived: DerivedFeatures | None
    record: dict[str, Any]
    types: dict[str, int] | None = None
    num_owners: int | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against the assumption that texts and features are an entity's own."""
        return (*_mention_words(self.mentions), *_derived_words(self.derived))

    def to_json(self) -> dict[str, Any]:
        """Return the inspection as plain values for ``json.dumps``."""
        return {**asdict(self), "warnings": list(self.warnings), "sensitive": True}


def _bars(counts: npt.NDArray[np.int64]) -> tuple[DegreeBar, ...]:
    """Ranges 0, 1, 2, 3-4, 5-8, ... up to the largest degree; 0 only if some entity has it."""
    largest = int(counts.max(initial=0))
    ranges = [(0, 0), (1, 1)]
    while ranges[-1][1] < largest:
        ranges.append((ranges[-1][1] + 1, 2 * ranges[-1][1]))
    bars = [
        DegreeBar(low=low, high=high, num_entities=int(((counts >= low) & (counts <= high)).sum()))
        for low, high in ranges
    ]
    return tuple(bars if bars[0].num_entities else bars[1:])


def _degree_summary(graph: EntityGraph) -> DegreeSummary:
    counts = graph.owner_degrees
    return DegreeSummary(
        median=float(np.median(counts)),
        mean=float(counts.mean()),
        largest=int(counts.max(initial=0)),
        largest_protected=int(counts[graph.protected_owners].max(initial=0)),
        num_isolated=int((counts == 0).sum()),
        bars=_bars(counts),
    )


def _cap_previews(graph: EntityGraph, bounds: Sequence[int]) -> tuple[CapPreview, ...]:
    # The seed moves the counts a little; a fixed one makes two inspections agree.
    counts = graph.count_caps(bounds, seed=0)
    return tuple(
        CapPreview(
            max_degree=bound,
            num_relations=count.num_relations,
            share=count.num_relations / max(graph.num_relations, 1),
            num_over=int(np.count_nonzero(graph.protected_owners & (graph.owner_degrees > bound))),
            num_left_alone=count.num_left_alone,
        )
        for bound, count in counts.items()
    )


def _type_counts(graph: EntityGraph) -> dict[str, int] | None:
    """Return the number of relations of each type, declared types without relations included."""
    if graph.relation_types is None:
        return None
    counts = np.bincount(graph.relation_types, minlength=len(graph.type_names))
    return dict(zip(graph.type_names, counts.tolist(), strict=True))


def _text_summary(graph: EntityGraph) -> TextSummary:
    words, groups = graph.count_texts()
    return TextSummary(
        median_words=float(np.median(words)),
        longest_words=int(words.max()),
        num_distinct=groups.num_distinct,
        num_sharing=groups.num_sharing,
        largest_group=groups.largest,
    )


def _mention_words(summary: MentionSummary | None) -> tuple[str, ...]:
    """Return the warning about texts that contain ids of others, if there are any."""
    if summary is None or not summary.num_texts:
        return ()
    rows = ", ".join(f"row {row}" for row in summary.rows)
    if summary.shown:
        rows = ", ".join(f"{entity!r} mentions {other!r}" for entity, other in summary.shown)
    more = ", ..." if summary.num_texts > len(summary.rows) else ""
    return (
        f"{summary.num_texts:,} {'text contains' if summary.num_texts == 1 else 'texts contain'} the id of "
        f"another entity ({rows}{more}). The guarantee "
        "assumes that a text depends on its own entity alone: take the mentions out.",
    )


def _derived_words(summary: DerivedFeatures | None) -> tuple[str, ...]:
    """One warning for each sign that features were derived from relations."""
    if summary is None:
        return ()
    words = {
        "degree": f"follow from the number of relations ({_columns(summary.degree_columns)})",
        "pooled": f"are pooled over related entities ({_columns(summary.pooled_columns)})",
        "twins": f"are the same for {summary.twin_share:.0%} of the entities with the same relations",
        "spread": f"spread by degree as averages or sums over related entities do "
        f"(slope {summary.spread_slope:+.2f}; {_columns(summary.spread_columns)})",
        "alike": f"are as alike among related entities as averages over them (correlation "
        f"{summary.alike:.2f}; {_columns(summary.alike_columns)})",
    }
    fix = (
        "The guarantee assumes that features depend on their own entity alone: if these were "
        "computed from relations, use others."
    )
    return tuple(f"Features {words[sign]}. {fix}" for sign in summary.signs)


def _columns(numbers: tuple[int, ...]) -> str:
    """Return the first few columns in words."""
    if not numbers:
        return "all columns together"
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"column{'s' if len(numbers) > 1 else ''} {shown}"


def inspect_graph(
    graph: EntityGraph, caps: Sequence[int] = CAPS, *, show_ids: bool = False
) -> GraphInspection:
    """Count what there is to know before training.

    Args:
        graph: The graph, not capped.
        caps: Degree bounds to try.
        show_ids: Whether warnings may show ids.

    Raises:
        GraphError: The graph has no entity.
    """
    if not graph.num_entities:
        raise GraphError("The graph must have entities to inspect, got none.")
    return GraphInspection(
        num_entities=graph.num_entities,
        num_relations=graph.num_relations,
        num_protected=int(graph.protected.sum()),
        feature_size=None if graph.features is None else int(graph.features.shape[1]),
        degrees=_degree_summary(graph),
        caps=_cap_previews(graph, caps),
        texts=_text_summary(graph) if graph.has_text else None,
        mentions=find_mentions(graph, show_ids=show_ids) if graph.has_text else None,
        derived=None if graph.features is None else find_derived(graph),
        record=asdict(graph.record),
        types=_type_counts(graph),
        num_owners=None if graph.owners is None else graph.num_owners,
    )
