"""Texts in batches: what is tokenized at a time, and what is embedded at a time.

Batches of `length_batches` serve inference (`TextEncoder.encode`), where a batch may be cut by the
lengths of its texts. Training uses `reldp.gradients` for that, with shapes that are public.

Private to the package: `graph_tokens`, `length_batches`, `random_tokens`,
`rows_in_order`, `string_batches`, `text_rows`.

>>> [batch.tolist() for batch in length_batches(np.array([1, 9, 4, 1, 4, 1]), max_tokens=8)]
[[1], [2, 4], [0, 3, 5]]
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reldp._progress import followed, tick
from reldp.encoders.encoder import entities_of
from reldp.encoders.lazy_tokens import JoinedTokens, LazyTokens
from reldp.encoders.token_rows import TokenRows
from reldp.encoders.tokens import (
    RowTable,
    TokenTable,
    checked_indices,
    shared_table,
    tokenize,
)
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = [
    "graph_tokens",
    "length_batches",
    "random_tokens",
    "rows_in_order",
    "string_batches",
    "text_rows",
]

_TEXTS_PER_BATCH = 8192
_Places = npt.NDArray[np.int64]


def graph_tokens(
    tokenizer: Any,
    graph: "EntityGraph | CappedGraph",
    indices: Any,
    max_length: int,
    tokenize_texts: str | None = "ahead",
) -> Any:
    """Return the token table of a graph's texts, or of the entities at some indices.

    Args:
        tokenizer: A Hugging Face tokenizer with a padding token.
        graph: Graph of texts.
        indices: Entities, in the order of the table; None for all.
        max_length: Longer texts are cut.
        tokenize_texts: When the texts of a store are tokenized: "ahead", "on the fly", or None for
            what its size suggests.

    Raises:
        EncoderError: The graph has no texts, or an index is outside of it.
    """
    entities = entities_of(graph)
    if not entities.has_text:
        raise EncoderError(
            "`graph` must have text, got features only. Use FeatureEncoder for them."
        )
    count = entities.num_entities
    chosen = np.arange(count) if indices is None else checked_indices(indices, count)
    batches = followed(
        "tokenizing", (entities.text(chosen[part]) for part in _slices(len(chosen))), len(chosen)
    )
    if indices is not None:
        return tokenize(tokenizer, batches, max_length)
    from reldp.graph.store.stored_graph import StoredGraph

    if isinstance(entities, StoredGraph):
        from reldp.encoders.stored_tokens import store_tokens

        return store_tokens(tokenizer, entities, max_length, tokenize_texts)
    return shared_table(entities.fingerprint, tokenizer, batches, max_length)


def string_batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield texts in batches; a single string in place of a list is refused."""
    if isinstance(texts, str):
        raise EncoderError("`texts` must be a list of strings, got one string.")
    return (texts[part] for part in _slices(len(texts)))


def length_batches(
    lengths: npt.NDArray[np.int64], *, max_tokens: int, batch_size: int | None = None
) -> list[_Places]:
    """Return the places of texts in batches of similar length, longest first.

    Args:
        lengths: Number of tokens of every text.
        max_tokens: Maximum of rows times longest row in a batch; a longer text is alone.
        batch_size: Number of texts in a batch, in place of `max_tokens`.
    """
    order = np.argsort(-lengths, kind="stable")
    if batch_size is not None:
        return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    batches, start = [], 0
    for stop in range(1, len(order) + 1):
        # The first text of a batch is its longest.
        is_full = (stop + 1 - start) * lengths[order[start]] > max_tokens
        if is_full or stop == len(order):
            batches.append(order[start:stop])
            start = stop
    return batches


def rows_in_order(
    outputs: Iterable[tuple[_Places, Tensor]], count: int, dim: int
) -> npt.NDArray[np.float32]:
    """Return vectors (texts, dim) in the order of the texts.

    Args:
        outputs: Places of texts and their vectors, batch after batch.
        count: Number of texts.
        dim: Length of a vector if there are no texts.
    """
    out: npt.NDArray[np.float32] | None = None
    done = 0
    for places, vectors in outputs:
        values = vectors.float().cpu().numpy()
        out = np.empty((count, values.shape[1]), np.float32) if out is None else out
        out[places] = values
        done += len(places)
        tick("embedding", done, count)
    return np.zeros((0, dim), np.float32) if out is None else out


def random_tokens(
    tokenizer: Any, vocabulary: int, count: int, length: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return public random rows of random lengths: token ids and attention mask, on the CPU.

    One token in eight is a special token of the tokenizer.

    Args:
        tokenizer: A Hugging Face tokenizer with a padding token.
        vocabulary: Number of token ids.
        count: Number of rows.
        length: Number of tokens of the padded rows.
        generator: Source of the random numbers.
    """
    lengths = torch.randint(1, length + 1, (count, 1), generator=generator)
    mask = (torch.arange(length) < lengths).long()  # (rows, tokens)
    ids = torch.randint(vocabulary, (count, length), generator=generator)
    special = torch.tensor(tokenizer.all_special_ids)
    drawn = torch.randint(8 * len(special), (count, length), generator=generator)
    ids = torch.where(drawn < len(special), special[drawn % len(special)], ids)
    ids = torch.where(mask > 0, ids, int(tokenizer.pad_token_id))
    return {"input_ids": ids, "attention_mask": mask}


def text_rows(table: Any, max_length: int) -> TokenRows:
    """Return the lengths of texts in a table of tokens or of states; a table of vectors has none."""
    if not isinstance(table, RowTable | LazyTokens | JoinedTokens):
        return TokenRows.without_tokens(len(table))
    if isinstance(table, TokenTable | LazyTokens | JoinedTokens):
        padding = {"input_ids": table.pad_id, "attention_mask": 0}
    else:
        padding = {"hidden": 0, "attention_mask": 0}
    lengths: Any = table.lengths
    return TokenRows(lengths=lengths, max_length=max_length, padding=padding, mask="attention_mask")


def _slices(count: int) -> Iterator[slice]:
    for start in range(0, count, _TEXTS_PER_BATCH):
        yield slice(start, start + _TEXTS_PER_BATCH)
