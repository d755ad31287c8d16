"""Counts that an inspection needs and that a graph in memory and a store compute in different ways.

Inside the package: `Counting`, a base class of `EntityGraph`; `CapCount`, `TextGroups`.

>>> from reldp.graph import EntityGraph
>>> star = EntityGraph.from_lists(["a", "b", "c"], [("a", "b"), ("a", "c")], text=["x", "y z", "x"])
>>> words, groups = star.count_texts()
>>> words.tolist(), groups.num_sharing, star.count_caps((1,), seed=0)[1].num_left_alone
([1, 2, 1], 2, 1)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from reldp.graph.capping import degrees

__all__ = ["CapCount", "Counting", "TextGroups"]


@dataclass(frozen=True, kw_only=True)
class CapCount:
    """What a cap keeps, counted.

    Attributes:
        num_relations: Relations kept.
        num_left_alone: Entities that had relations and have none after capping.
    """

    num_relations: int
    num_left_alone: int


@dataclass(frozen=True, kw_only=True)
class TextGroups:
    """Groups of entities with the same text.

    Attributes:
        num_distinct: Different texts.
        num_sharing: Entities whose text another entity has too.
        largest: How many entities share the most common text.
    """

    num_distinct: int
    num_sharing: int
    largest: int


class Counting:
    """Counts of an `EntityGraph`; all of them are sensitive."""

    def count_caps(self: Any, bounds: Sequence[int], seed: int | bytes) -> dict[int, CapCount]:
        """Return what capping at each of several bounds keeps."""
        counts = {}
        for bound in bounds:
            capped = self.cap_degrees(bound, seed)
            after = degrees(capped.relations, self.num_entities)
            counts[bound] = CapCount(
                num_relations=capped.num_relations,
                num_left_alone=int(((self.degrees > 0) & (after == 0)).sum()),
            )
        return counts

    def count_texts(self: Any) -> tuple[npt.NDArray[np.integer[Any]], TextGroups]:
        """Return the number of words of every text, and how many texts are the same."""
        texts = self.entities.column("text")
        words = pc.list_value_length(pc.utf8_split_whitespace(texts)).to_numpy()
        groups = pc.value_counts(texts.combine_chunks()).field("counts").to_numpy()
        return words, TextGroups(
            num_distinct=len(groups),
            num_sharing=int(groups[groups > 1].sum()),
            largest=int(groups.max()),
        )

    def search_mentions(self) -> Any:
        """Return ids found in texts, or None to have `mentions` look for them with the ids in memory."""
        return None
