"""Token tables of graph stores: built once, in parallel processes, into mapped files beside the store.

The table is named by a hash of the texts, of the tokenizer's rules and of the maximum length, so every run with the
same tokenizer uses it. Its arrays are those of `TokenTable`; the system reads the pages that steps ask for.

Private to the package: `store_tokens`, `TOKENIZE`, `StoredTokens`.

>>> TOKENIZE
('ahead', 'on the fly')
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp._validate import TOKENIZE, check_choice
from reldp.encoders.lazy_tokens import JoinedTokens, LazyTokens, joined_sha256
from reldp.encoders.tokens import TokenTable, tokenize_batch, tokenizer_rules
from reldp.errors import EncoderError
from reldp.graph.store.arrays import GrowingArray, row_chunks
from reldp.graph.store.derived import derived, is_derived
from reldp.graph.store.lookahead import in_processes
from reldp.graph.store.progress import Progress, Tick

if TYPE_CHECKING:
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["TOKENIZE", "StoredTokens", "store_tokens"]

_FEW = 1 << 20  # texts that are tokenized ahead unless asked otherwise
_AT_ONCE = 1 << 14  # texts that a process tokenizes at a time
_COMPARED = 16  # texts that are tokenized again when a table is opened
_MANY = 8  # such parts are worth the seconds that processes take to start
_CHECKED = 1 << 20  # values that are checked at a time
_IDS, _OFFSETS = "tokens.npy", "offsets.npy"


@dataclass(frozen=True, kw_only=True)
class StoredTokens(TokenTable):
    """A token table in mapped files.

    Attributes:
        content_sha256: Hash of the texts and of the tokenizer's rules, which stands for the table.
        files_sha256: Hash of the files, which a run commits to.
        max_length: Longer texts were cut.
    """

    content_sha256: str = field(repr=False)
    files_sha256: str = field(repr=False)
    max_length: int

    def token_lists(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int32]]:
        """Return the token ids of some texts."""
        starts, stops = self.offsets[indices], self.offsets[indices + 1]
        return [self.ids[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]

    def join(self, other: TokenTable) -> Any:
        """Return this table with the texts of another one after it; a large one is not copied."""
        if len(self) > _FEW:
            return JoinedTokens(self, other)
        both = super().join(other)
        content = joined_sha256(self.content_sha256, other)
        return replace(self, ids=both.ids, offsets=both.offsets, content_sha256=content)


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
    if set(files.files) != {_IDS, _OFFSETS}:
        raise _refusal()
    ids, offsets = files.array(_IDS), files.array(_OFFSETS)
    if not files.is_new:
        _check_values(ids, offsets, graph.num_entities, tokenizer, max_length)
    table = StoredTokens(
        ids=ids,
        offsets=offsets,
        pad_id=int(tokenizer.pad_token_id),
        content_sha256=content,
        files_sha256=files.sha256,
        max_length=max_length,
    )
    _compare(table, graph, tokenizer)
    return table


def _compare(table: StoredTokens, graph: "StoredGraph", tokenizer: Any) -> None:
    """Refuse a table that is not what the tokenizer makes of some texts: files of another, put in its place.

    Raises:
        EncoderError: It is not.
    """
    count = graph.num_entities
    rows = np.unique([0, count - 1, *np.random.default_rng().integers(0, count, _COMPARED)])
    if len(table) == count:
        lists = tokenize_batch(tokenizer, graph.text(rows), 0, table.max_length)
        stored = [tokens.tolist() for tokens in table.token_lists(rows)]
        if stored == [list(tokens) for tokens in lists]:
            return
    raise _refusal()


def _check_values(
    ids: npt.NDArray[Any],
    offsets: npt.NDArray[Any],
    count: int,
    tokenizer: Any,
    max_length: int,
) -> None:
    """Refuse a table that the tokenizer cannot have made, whatever its hashes: whoever wrote it wrote them too.

    An offset out of range would read memory without bound, and an unknown token id has no row in a model.

    Raises:
        EncoderError: Types, offsets, lengths or token ids are others.
    """
    if ids.dtype != np.int32 or ids.ndim != 1:
        raise _refusal()
    if offsets.dtype != np.int64 or offsets.shape != (count + 1,):
        raise _refusal()
    if offsets[0] != 0 or offsets[-1] != len(ids):
        raise _refusal()
    # A tokenizer cuts nothing where the maximum is below the number of its special tokens.
    longest = max_length if max_length >= tokenizer.num_special_tokens_to_add() else len(ids)
    for start, stop in row_chunks(count, _CHECKED):
        limits = offsets[start : stop + 1]
        # Each in range first: differences of others could overflow.
        if limits.min() < 0 or limits.max() > len(ids):
            raise _refusal()
        lengths = np.diff(limits)
        if lengths.min() < 1 or lengths.max() > longest:
            raise _refusal()
    largest = max(tokenizer.get_vocab().values(), default=0)
    largest = max(largest, int(tokenizer.pad_token_id))
    for start, stop in row_chunks(len(ids), _CHECKED):
        some = ids[start:stop]
        if some.min() < 0 or some.max() > largest:
            raise _refusal()


def _refusal() -> EncoderError:
    return EncoderError(
        "The token table beside the store must hold the tokens of the store's texts, got others. "
        "Delete the folder `tokens` in the store."
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
    arguments = (tokenizer, graph, max_length)
    yield from in_processes(_tokenize_part, parts, count, _start, arguments)


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
