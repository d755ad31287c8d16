"""What a graph looks like before training: sizes, degrees, what capping keeps, duplicate texts.

Guarantees: nothing but counts and lengths leaves this module, never a text or an id. The counts are
computed from the data without noise, so they are **sensitive**: look at them on the side of the
data. Public: :func:`inspect_graph`, :class:`GraphInspection`, :func:`suggest_settings`. theory.md
section 2.2 says what capping means for the guarantee.

>>> from reldp.graph import EntityGraph
>>> star = EntityGraph.from_lists("abcd", [("a", "b"), ("a", "c"), ("a", "d")], text=["x"] * 4)
>>> report = inspect_graph(star, caps=(2,))
>>> report.degrees.largest, report.caps[0].num_relations, report.texts.num_sharing
(3, 2, 4)
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from reldp.errors import GraphError
from reldp.graph.capping import degrees
from reldp.graph.entity_graph import EntityGraph

__all__ = [
    "CAPS",
    "CapPreview",
    "DegreeBar",
    "DegreeSummary",
    "GraphInspection",
    "SuggestedSettings",
    "TextSummary",
    "inspect_graph",
    "suggest_settings",
]

CAPS = (2, 5, 10, 20)
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
    """Degrees of all entities.

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
    """Everything that an inspection counts; sensitive.

    Attributes:
        num_entities: Entities.
        num_relations: Relations.
        num_protected: Entities that are promised privacy.
        feature_size: Length of the feature vectors, or None.
        degrees: Summary and histogram of the degrees.
        caps: What capping keeps, by bound.
        texts: Lengths and duplicates, or None without texts.
        record: The graph's record, as plain values.
    """

    num_entities: int
    num_relations: int
    num_protected: int
    feature_size: int | None
    degrees: DegreeSummary
    caps: tuple[CapPreview, ...]
    texts: TextSummary | None
    record: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The inspection as plain values for ``json.dumps``."""
        return {**asdict(self), "sensitive": True}


@dataclass(frozen=True, kw_only=True)
class SuggestedSettings:
    """Settings of a first plan: a start to measure from, not an optimum.

    Attributes:
        max_degree: The bound to cap at.
        num_negatives: Negatives per positive.
        expected_batch_size: Relations per step on average.
        num_steps: Steps, about two and a half passes over the capped relations.
    """

    max_degree: int
    num_negatives: int
    expected_batch_size: int
    num_steps: int


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
    counts = graph.degrees
    return DegreeSummary(
        median=float(np.median(counts)),
        mean=float(counts.mean()),
        largest=int(counts.max(initial=0)),
        largest_protected=int(counts[graph.protected].max(initial=0)),
        num_isolated=int((counts == 0).sum()),
        bars=_bars(counts),
    )


def _cap_preview(graph: EntityGraph, max_degree: int) -> CapPreview:
    # The seed moves the counts a little; a fixed one makes two inspections agree.
    capped = graph.cap_degrees(max_degree, seed=0)
    after = degrees(capped.relations, graph.num_entities)
    return CapPreview(
        max_degree=max_degree,
        num_relations=capped.num_relations,
        share=capped.report.kept_share,
        num_over=capped.report.num_over,
        num_left_alone=int(((graph.degrees > 0) & (after == 0)).sum()),
    )


def _text_summary(graph: EntityGraph) -> TextSummary:
    texts = graph.entities.column("text")
    words = pc.list_value_length(pc.utf8_split_whitespace(texts)).to_numpy()
    groups = pc.value_counts(texts.combine_chunks()).field("counts").to_numpy()
    return TextSummary(
        median_words=float(np.median(words)),
        longest_words=int(words.max()),
        num_distinct=len(groups),
        num_sharing=int(groups[groups > 1].sum()),
        largest_group=int(groups.max()),
    )


def inspect_graph(graph: EntityGraph, caps: Sequence[int] = CAPS) -> GraphInspection:
    """Counts what there is to know before training.

    Args:
        graph: The graph, not capped.
        caps: Degree bounds to try.

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
        caps=tuple(_cap_preview(graph, max_degree) for max_degree in caps),
        texts=_text_summary(graph) if graph.has_text else None,
        record=asdict(graph.record),
    )


def suggest_settings(max_degree: int, num_relations: int) -> SuggestedSettings:
    """Settings to start from, by size alone.

    Batches hold at most half a percent of the relations (amplification by sampling fades above
    that) and at most 256; the steps make about two and a half passes: with a target of epsilon,
    more steps need more noise.

    Args:
        max_degree: The bound that the graph is capped at.
        num_relations: Relations to plan for: a public bound on their number (`SizeBounds`), or the
            exact number where it is public. Settings that follow from a sensitive number tell it.
    """
    size = num_relations
    if size < 1:
        raise GraphError("The graph must have a relation to plan for, got none.")
    batch = 2 ** int(math.log2(min(max(size / 200, 1), 256)))
    steps = max(1, round(2.5 * size / batch))
    scale = 10 ** max(len(str(steps)) - 2, 0)  # two significant digits
    return SuggestedSettings(
        max_degree=max_degree,
        num_negatives=4,
        expected_batch_size=batch,
        num_steps=round(steps / scale) * scale,
    )
