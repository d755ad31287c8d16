"""Texts that contain the id of another entity, counted.

Such a text depends on that other entity, which the guarantee assumes it does not (theory.md 6).
An id is found as a whole run of words: both sides are lowered, everything that is no letter or
digit separates words, and "bob@example.com" is the three words "bob example com" wherever they stand.

Which ids are looked for: those of at least `MIN_LETTERS` letters and digits; numbers of at least
`MIN_DIGITS`. An id of letters alone may be an ordinary word, so such ids are left out where more than
`COMMON_SHARE` of the texts contain them, and counted. No id and no text leaves this module unless
asked for. Everything counted here is **sensitive**.

Public: `find_mentions`, `MentionSummary`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["alice", "user-17"], [], text=["likes tea", "friend of Alice"])
>>> find_mentions(graph).num_texts
1
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.graph.entity_graph import EntityGraph

__all__ = [
    "COMMON_SHARE",
    "MIN_DIGITS",
    "MIN_LETTERS",
    "MentionSearch",
    "MentionSummary",
    "find_mentions",
    "is_searched",
    "normalized_words",
    "num_words",
    "text_runs",
]

MIN_LETTERS = 4
MIN_DIGITS = 6
COMMON_SHARE = 0.001
_LONGEST = 8  # words of an id: longer ones are not looked for
_COMMON_LEAST = 20  # texts: a word in so few is not common in a small graph either
_AT_ONCE = 200_000  # texts looked at in one go
_EXAMPLES = 5
_SPACE = pa.scalar(" ", pa.large_string())

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class MentionSummary:
    """How many texts contain another entity's id; sensitive.

    Attributes:
        num_texts: Texts with the id of another entity.
        num_ids: Distinct ids found in texts of others.
        num_searched: Ids that were looked for.
        num_short: Ids that are too short to tell from ordinary words and numbers, or too long.
        num_common: Ids left out because so many texts contain them that they are ordinary words.
        rows: The first rows (from 1) whose texts contain another's id.
        shown: The ids of these rows and the ids that they mention, where asked for.
    """

    num_texts: int
    num_ids: int
    num_searched: int
    num_short: int
    num_common: int
    rows: tuple[int, ...] = ()
    shown: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class MentionSearch:
    """Ids found in texts, before any is left out. A name is an id as words; its code is a number.

    Attributes:
        found: (mentions, 2): a text and the code of a name in it; repeats are allowed.
        name_codes: (n,) code of each entity's own name.
        wanted: (codes,) which names were looked for.
        num_names: Number of different names.
        spelled: Returns the names of codes.
        first_rows: Returns the first entity of each code.
    """

    matches: _Rows
    name_codes: _Rows
    wanted: npt.NDArray[np.bool_]
    num_names: int
    spelled: Callable[[_Rows], Any]
    first_rows: Callable[[_Rows], _Rows]


def find_mentions(graph: EntityGraph, *, show_ids: bool = False) -> MentionSummary:
    """Count the texts of a graph that contain the id of another entity.

    Args:
        graph: A graph with texts.
        show_ids: Whether to return a few of the ids.
    """
    search: MentionSearch | None = graph.search_mentions()
    if search is None:
        search = _search(graph)
    mentions = search.matches
    mentions = np.unique(
        mentions[mentions[:, 1] != search.name_codes[mentions[:, 0]]], axis=0
    )  # an entity may name itself
    if graph.owners is not None:  # and others of its owner
        by_owner = _owners_of_names(search.name_codes, graph.owners, len(search.wanted))
        mentions = mentions[by_owner[mentions[:, 1]] != graph.owners[mentions[:, 0]]]
    common = _common(mentions[:, 1], search, graph.num_entities)
    mentions = mentions[~common[mentions[:, 1]]]
    texts = np.unique(mentions[:, 0])
    first = mentions[np.unique(mentions[:, 0], return_index=True)[1]][:_EXAMPLES]
    shown: tuple[tuple[str, str], ...] = ()
    if show_ids and len(first):
        owners = graph.column("id", first[:, 0])
        mentioned = graph.column("id", search.first_rows(first[:, 1]))
        shown = tuple((str(one), str(other)) for one, other in zip(owners, mentioned, strict=True))
    return MentionSummary(
        num_texts=len(texts),
        num_ids=len(np.unique(mentions[:, 1])),
        num_searched=int(search.wanted.sum() - common.sum()),
        num_short=int(search.num_names - search.wanted.sum()),
        num_common=int(common.sum()),
        rows=tuple(int(row) + 1 for row in first[:, 0]),
        shown=shown,
    )


def _owners_of_names(
    codes: npt.NDArray[np.int64], owners: npt.NDArray[np.int64], num: int
) -> npt.NDArray[np.int64]:
    """Return the owner of all entities of each name, -1 where they have several."""
    low, high = np.full(num, np.iinfo(np.int64).max), np.full(num, -1)
    named = codes >= 0
    np.minimum.at(low, codes[named], owners[named])
    np.maximum.at(high, codes[named], owners[named])
    return np.where(low == high, high, -1)


def _search(graph: EntityGraph) -> MentionSearch:
    """Look for all names in all texts, with the names in memory."""
    encoded = normalized_words(graph.ids.cast(pa.large_string())).dictionary_encode()
    names = encoded.dictionary
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    wanted = is_searched(names)
    matches = np.concatenate(
        [np.empty((0, 2), np.int64), *_matches(graph, names.filter(pa.array(wanted)))]
    )
    matches[:, 1] = np.flatnonzero(wanted)[matches[:, 1]]
    by_name = _first_rows(codes, len(names))
    return MentionSearch(
        matches=matches,
        name_codes=codes,
        wanted=wanted,
        num_names=len(names),
        spelled=lambda some: names.take(pa.array(some)),
        first_rows=lambda some: by_name[some],
    )


def normalized_words(texts: Any) -> Any:
    """Return texts as lowered words with one space between them."""
    plain = pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\pL\pN]+", " ")
    return pc.utf8_trim_whitespace(plain)


def is_searched(names: Any) -> npt.NDArray[np.bool_]:
    """Return which names are looked for: neither too short nor too long."""
    size = pc.utf8_length(pc.replace_substring(names, " ", "")).to_numpy(zero_copy_only=False)
    digits = pc.match_substring_regex(names, r"^[\pN ]*$").to_numpy(zero_copy_only=False)
    wanted = size >= np.where(digits, MIN_DIGITS, MIN_LETTERS)
    return np.asarray(wanted & (num_words(names) <= _LONGEST))


def num_words(names: Any) -> npt.NDArray[np.int64]:
    """Return the number of words of each name."""
    return np.asarray(1 + pc.count_substring(names, " ").to_numpy(zero_copy_only=False))


def text_runs(texts: Any, lengths: Sequence[int]) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
    """Yield all runs of each of some numbers of words inside texts, and the text of each run."""
    split = pc.split_pattern(normalized_words(texts.cast(pa.large_string())), " ")
    flat, parent = split.flatten(), pc.list_parent_indices(split).to_numpy()
    for length in lengths:
        yield _runs(flat, parent, int(length))


def _matches(graph: EntityGraph, names: Any) -> Iterator[_Rows]:
    """Pairs of a text and a name that it contains, a bounded number of texts at a time."""
    if not len(names):
        return
    lengths = np.unique(num_words(names)).tolist()
    texts = graph.entities.column("text")
    for start in range(0, graph.num_entities, _AT_ONCE):
        some = texts.slice(start, _AT_ONCE).combine_chunks()
        for runs, rows in text_runs(some, lengths):
            code = pc.fill_null(pc.index_in(runs, value_set=names), -1)
            hits = code.to_numpy(zero_copy_only=False)
            at = np.flatnonzero(hits >= 0)
            yield np.stack([rows[at] + start, hits[at]], axis=1).astype(np.int64)


def _runs(flat: Any, parent: npt.NDArray[Any], length: int) -> tuple[Any, npt.NDArray[Any]]:
    """All runs of so many words inside one text, and the text of each."""
    count = len(flat) - length + 1
    if count <= 0:
        return flat.slice(0, 0), parent[:0]
    slices = [flat.slice(offset, count) for offset in range(length)]
    inside = parent[:count] == parent[length - 1 :]
    runs = slices[0] if length == 1 else pc.binary_join_element_wise(*slices, _SPACE)
    return runs.filter(pa.array(inside)), parent[:count][inside]


def _common(mentioned: _Rows, search: MentionSearch, num_texts: int) -> npt.NDArray[np.bool_]:
    """Which names are ordinary words: letters alone, and in many texts."""
    count = np.bincount(mentioned, minlength=len(search.wanted))
    often = np.flatnonzero(count > max(_COMMON_LEAST, COMMON_SHARE * num_texts))
    letters = pc.match_substring_regex(search.spelled(often), r"^\pL+$")
    common = np.zeros(len(search.wanted), dtype=bool)
    common[often[letters.to_numpy(zero_copy_only=False)]] = True
    return common


def _first_rows(codes: _Rows, num_names: int) -> _Rows:
    """Return the first row of each name."""
    rows = np.zeros(num_names, dtype=np.int64)
    rows[codes[::-1]] = np.arange(len(codes))[::-1]
    return rows
