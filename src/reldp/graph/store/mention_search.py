"""Ids of entities in the texts of others, looked for with the engine: names need not fit into memory.

The words and runs of words are those of `reldp.graph.mentions`, and so is the result.

Inside the package: `search_mentions`, `text_groups`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reldp.graph.counting import TextGroups
from reldp.graph.mentions import (
    MentionSearch,
    is_searched,
    normalized_words,
    num_words,
    text_runs,
)
from reldp.graph.store.column_file import BATCH_ROWS, ColumnFile
from reldp.graph.store.engine import opened
from reldp.graph.store.settings import BuildSettings

__all__ = ["search_mentions", "text_groups"]

_Rows = npt.NDArray[np.int64]


def search_mentions(
    columns: ColumnFile, num_entities: int, settings: BuildSettings, scratch: Path
) -> MentionSearch:
    """Look for all names in all texts; the code of a name is the first entity that has it.

    Args:
        columns: Columns of the entities.
        num_entities: Number of entities.
        settings: Memory and threads.
        scratch: Folder for temporary files.
    """
    wanted = np.zeros(num_entities, dtype=bool)
    name_codes = np.arange(num_entities)
    sizes: set[int] = set()
    lengths: set[int] = set()

    def names() -> Iterator[Any]:
        for start, words in _words(columns):
            searched = is_searched(words)
            wanted[start : start + len(words)] = searched
            some = words.filter(pa.array(searched))
            sizes.update(np.unique(pc.binary_length(some).to_numpy()).tolist())
            lengths.update(np.unique(num_words(some)).tolist())
            yield pa.record_batch([words, _rows(start, len(words))], names=["id", "row"])

    with opened(settings, scratch) as engine:
        engine.keep_ids(pa.large_string(), names())
        again = engine.repeated_rows()
        wanted[again] = False
        if len(again):
            for places, codes in engine.lookups(pa.large_string(), _names_by_entity(columns)):
                name_codes[places] = codes
        hits = [np.empty((0, 2), np.int64)]
        runs = _runs(columns, sorted(lengths), np.array(sorted(sizes)))
        for places, codes in engine.lookups(pa.large_string(), runs):
            is_wanted = wanted[codes]
            hits.append(np.stack([places[is_wanted], codes[is_wanted]], axis=1))
    return MentionSearch(
        matches=np.concatenate(hits),
        name_codes=name_codes,
        wanted=wanted,
        num_names=num_entities - len(again),
        spelled=lambda some: normalized_words(
            pa.array(map(str, columns.take("id", some)), pa.large_string())
        ),
        first_rows=lambda some: some,
    )


def text_groups(columns: ColumnFile, settings: BuildSettings, scratch: Path) -> TextGroups:
    """Count entities with the same text."""

    def texts() -> Iterator[Any]:
        for number, batch in enumerate(columns.batches()):
            start = number * BATCH_ROWS
            yield pa.record_batch(
                [batch.column("text"), _rows(start, len(batch))], names=["id", "row"]
            )

    with opened(settings, scratch) as engine:
        sizes = engine.group_sizes(texts())
    return TextGroups(num_distinct=sizes[0], num_sharing=sizes[1], largest=sizes[2])


def _words(columns: ColumnFile) -> Iterator[tuple[int, Any]]:
    """Yield the names of entities, and the number of the first one."""
    for number, batch in enumerate(columns.batches()):
        words = normalized_words(batch.column("id").cast(pa.large_string()))
        yield number * BATCH_ROWS, words


def _names_by_entity(columns: ColumnFile) -> Iterator[Any]:
    for start, words in _words(columns):
        yield pa.record_batch([_rows(start, len(words)), words], names=["place", "id"])


def _runs(columns: ColumnFile, lengths: list[int], sizes: _Rows) -> Iterator[Any]:
    """Yield runs of words that have the size of a name, and the text of each."""
    if not lengths:
        return
    right = np.zeros(int(sizes.max()) + 1, dtype=bool)
    right[sizes] = True
    for number, batch in enumerate(columns.batches()):
        for runs, rows in text_runs(batch.column("text"), lengths):
            size = pc.binary_length(runs).to_numpy()
            fits = right[np.minimum(size, len(right) - 1)] & (size < len(right))
            places = pa.array(rows[fits].astype(np.int64) + number * BATCH_ROWS)
            yield pa.record_batch([places, runs.filter(pa.array(fits))], names=["place", "id"])


def _rows(start: int, count: int) -> Any:
    return pa.array(np.arange(start, start + count))
