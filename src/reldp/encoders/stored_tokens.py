"""Token tables of graph stores: built once, in parallel processes, into mapped files beside the store.

The table is named by a hash of the texts, of the tokenizer's rules and of the maximum length, so every run with the
same tokenizer uses it. Its arrays are those of `TokenTable`; the system reads the pages that steps ask for.

Private to the package: `store_tokens`, `TOKENIZE`, `StoredTokens`.

>>> TOKENIZE
('ahead', 'on the fly')
"""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp._validate import check_choice
from reldp.encoders.lazy_tokens import JoinedTokens, LazyTokens
from reldp.encoders.tokens import TokenTable, tokenize_batch, tokenizer_rules
from reldp.errors import EncoderError
from reldp.graph.store.arrays import GrowingArray, row_chunks
from reldp.graph.store.derived import derived, is_derived
from reldp.graph.store.progress import Progress, Tick

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["TOKENIZE", "StoredTokens", "store_tokens"]

TOKENIZE = ("ahead", "on the fly")
_FEW = 1 << 20  # texts that are tokenized ahead unless asked otherwise
_AT_ONCE = 1 << 14  # texts that a process tokenizes at a time
_MANY = 8  # such parts are worth the seconds that processes take to start
_IDS, _OFFSETS = "tokens.npy", "offsets.npy"


@dataclass(frozen=True, kw_only=True)
class StoredTokens(TokenTable):
    """A token table in mapped files.

    Attributes:
        content_sha256: Hash of the texts and of the tokenizer's rules, which stands for the table.
        max_length: Longer texts were cut.
    """

    content_sha256: str = field(repr=False)
    max_length: int

    def token_lists(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int32]]:
        """Return the token ids of some texts."""
        starts, stops = self.offsets[indices], self.offsets[indices + 1]
        return [self.ids[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]

    def join(self, other: TokenTable) -> Any:
        """Return this table with the texts of another one after it; a large one is not copied."""
        return JoinedTokens(self, other) if len(self) > _FEW else super().join(other)


def store_tokens(
    tokenizer: Any,
    graph: "StoredGraph",
    max_length: int,
    tokenize: str | None = None,
    *,
    processes: int | None = None,
    report: Callable[[Tick], None] | None = None,
) -> StoredTokens | LazyTokens:
    """Return the tokens of a store's texts.

    Args:
        tokenizer: A Hugging Face tokenizer with a padding token.
        graph: The store.
        max_length: Longer texts are cut.
        tokenize: "ahead" for a table in files beside the store, which is built if it is not there; "on the
            fly" to tokenize what a step asks for (default: the table if it is there or the store is small).
        processes: Number of processes that build a table (default: one per core, for many texts).
        report: Called with the progress.
    """
    if tokenize is not None:
        check_choice("tokenize", tokenize, TOKENIZE, error=EncoderError)
    rules = tokenizer_rules(tokenizer)
    depends_on = {"texts": graph.text_hash, "rules": rules, "max_length": max_length}
    content = hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()
    small = graph.num_entities <= _FEW or is_derived(graph.folder, "tokens", depends_on)
    if tokenize == "on the fly" or (tokenize is None and not small):
        return LazyTokens(
            graph.text,
            graph.num_entities,
            tokenizer,
            max_length=max_length,
            content_sha256=content,
        )

    def make(folder: Path) -> dict[str, Any]:
        _write(folder, tokenizer, graph, max_length, processes, Progress(report))
        return {}

    files = derived(graph.folder, "tokens", depends_on, make)
    return StoredTokens(
        ids=files.array(_IDS),
        offsets=files.array(_OFFSETS),
        pad_id=int(tokenizer.pad_token_id),
        content_sha256=content,
        max_length=max_length,
    )


def _write(
    folder: Path,
    tokenizer: Any,
    graph: "StoredGraph",
    max_length: int,
    processes: int | None,
    progress: Progress,
) -> None:
    """Write the tokens of all texts, in order."""
    ids = GrowingArray(folder / _IDS, np.int32)
    offsets = GrowingArray(folder / _OFFSETS, np.int64)
    offsets.grow(graph.num_entities + 1)
    total, done = 0, 0
    with progress.phase("tokenizing", graph.num_entities, "texts") as advance:
        for tokens, lengths in _tokenized(tokenizer, graph, max_length, processes):
            ids.grow(total + len(tokens))
            ids.rows[total : total + len(tokens)] = tokens
            stops = total + np.cumsum(lengths)
            offsets.rows[done + 1 : done + 1 + len(lengths)] = stops
            total, done = total + len(tokens), done + len(lengths)
            advance(len(lengths))
    ids.close(total)
    offsets.close(graph.num_entities + 1)


_Part = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]


def _tokenized(
    tokenizer: Any, graph: "StoredGraph", max_length: int, processes: int | None
) -> Iterator[_Part]:
    """Yield the tokens and lengths of all texts in order, a bounded number at a time."""
    parts = list(row_chunks(graph.num_entities, _AT_ONCE))
    count = processes or (len(os.sched_getaffinity(0)) if len(parts) >= _MANY else 1)
    if count == 1:
        _start(tokenizer, graph, max_length)
        try:
            yield from map(_tokenize_part, parts)
        finally:
            _WORK.clear()
        return
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        count, mp_context=spawned, initializer=_start, initargs=(tokenizer, graph, max_length)
    ) as pool:
        waiting = []
        for part in parts:  # a few ahead, so that results never pile up
            waiting.append(pool.submit(_tokenize_part, part))
            if len(waiting) > 2 * count:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


_WORK: dict[str, Any] = {}  # of this process


def _start(tokenizer: Any, graph: "StoredGraph", max_length: int) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # there is a process per core
    _WORK.update(tokenizer=tokenizer, graph=graph, max_length=max_length)


def _tokenize_part(part: tuple[int, int]) -> _Part:
    """Return the tokens and lengths of the texts from a first row up to another."""
    texts = _WORK["graph"].text(np.arange(*part))
    lists = tokenize_batch(_WORK["tokenizer"], texts, part[0], _WORK["max_length"])
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return np.fromiter(chain.from_iterable(lists), np.int32, int(lengths.sum())), lengths
