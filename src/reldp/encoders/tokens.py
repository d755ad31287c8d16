"""Token tables: every text of a graph tokenized once, held in two flat arrays.

A million texts of 30 tokens take 120 MB and no Python object each. Rows come out padded on the
right, for every architecture, and no wider than the longest row asked for: a text's embedding does
not depend on the other texts of its batch, beyond rounding (theory.md 2 needs units that
depend on themselves alone).

Public: `TokenTable`, `tokenize`, `shared_table`. Needs numpy only; the tokenizer is handed in.

>>> table = TokenTable(ids=np.array([7, 8, 9, 5]), offsets=np.array([0, 3, 4]), pad_id=0)
>>> table.rows([1, 0])[0]
array([[5, 0, 0],
       [7, 8, 9]])
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from reldp.encoders.bounded import within_bounds
from reldp.encoders.model_files import refuse_panic
from reldp.errors import EncoderError, ReldpError

__all__ = [
    "RowTable",
    "TokenTable",
    "checked_indices",
    "padded_rows",
    "shared_table",
    "tokenize",
    "tokenize_batch",
    "tokenizer_rules",
]

# Tables in use, by graph, rules of the tokenizer and length.
_SURROGATE = re.compile("[\ud800-\udfff]")  # alone: text cannot be encoded
_TABLES: "WeakValueDictionary[tuple[str, str, str, int], TokenTable]" = WeakValueDictionary()
# Characters that are split at once; the time for them, and the fewest characters per second of a long text.
_AT_ONCE, _SECONDS, _SLOWEST = 200_000, 8.0, 100_000.0
_Indices = Sequence[int] | npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """Texts of different lengths, one after the other in flat arrays.

    Attributes:
        offsets: Shape (texts + 1,), int64: text i is at ``offsets[i]:offsets[i + 1]``.
    """

    offsets: npt.NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each text."""
        return np.diff(self.offsets)

    def places(self, indices: _Indices) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return indices of the tokens of texts, and a mask of tokens: both (rows, longest)."""
        chosen = checked_indices(indices, len(self))
        starts = self.offsets[chosen]
        lengths = self.offsets[chosen + 1] - starts
        columns = np.arange(lengths.max(initial=0))
        mask = columns < lengths[:, None]
        return np.where(mask, starts[:, None] + columns, 0), mask

    def joined_offsets(self, other: "RowTable") -> npt.NDArray[np.int64]:
        """Return the offsets of this table's texts, then of the other's."""
        return np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])


@dataclass(frozen=True, kw_only=True)
class TokenTable(RowTable):
    """Token ids of many texts.

    Attributes:
        ids: Shape (tokens,), int32.
        offsets: Shape (texts + 1,), int64: text i is ``ids[offsets[i]:offsets[i + 1]]``.
        pad_id: The id that fills short rows; what stands there never reaches an embedding.
    """

    ids: npt.NDArray[np.int32] = field(repr=False)
    pad_id: int

    def rows(self, indices: _Indices) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return padded rows of the texts asked for.

        Args:
            indices: Shape (rows,); a text may be asked for more than once.

        Returns:
            The token ids and the attention mask (1 = token), both (rows, longest), int64.
        """
        places, mask = self.places(indices)
        # An empty table has no token to stand at the padded places.
        ids = np.where(mask, self.ids[places], self.pad_id) if mask.size else places
        return ids.astype(np.int64), mask.astype(np.int64)

    def content_hash(self) -> str:
        """Return the SHA-256 of all token ids."""
        digest = hashlib.sha256(np.ascontiguousarray(self.offsets, "<i8").data)
        digest.update(np.ascontiguousarray(self.ids, "<i4").data)
        return digest.hexdigest()

    def join(self, other: "TokenTable") -> "TokenTable":
        """Return this table with the texts of the other after it: a public pool after the graph."""
        if other.pad_id != self.pad_id:
            raise EncoderError(
                f"`pad_id` must agree, got {self.pad_id} and {other.pad_id}. "
                "Both tables must come from the same encoder."
            )
        return TokenTable(
            ids=np.concatenate([self.ids, other.ids]),
            offsets=self.joined_offsets(other),
            pad_id=self.pad_id,
        )


def tokenize(tokenizer: Any, batches: Iterable[Sequence[str]], max_length: int) -> TokenTable:
    """Return the token table of all texts, batch after batch.

    Args:
        tokenizer: A Hugging Face tokenizer with a padding token.
        batches: The texts, in order; a million strings need not stand in memory at once.
        max_length: Longer texts are cut, as the model's own tokenizer cuts them.
    """
    ids: list[npt.NDArray[np.int32]] = []
    lengths: list[int] = []
    for texts in batches:
        rows = tokenize_batch(tokenizer, texts, len(lengths), max_length)
        lengths += map(len, rows)
        ids.append(np.fromiter(chain.from_iterable(rows), dtype=np.int32))
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    flat = np.concatenate([np.zeros(0, np.int32), *ids])
    for shared in (flat, offsets):
        shared.flags.writeable = False
    return TokenTable(ids=flat, offsets=offsets, pad_id=int(tokenizer.pad_token_id))


def shared_table(
    fingerprint: str, tokenizer: Any, batches: Iterable[Sequence[str]], max_length: int
) -> TokenTable:
    """Return the token table of a graph; encoders that tokenize alike share it while it is in use.

    Args:
        fingerprint: The graph's, which stands for its texts.
        tokenizer: A Hugging Face tokenizer with a padding token.
        batches: All texts of the graph, in order.
        max_length: Longer texts are cut.
    """
    if not tokenizer.is_fast:  # its rules cannot be read
        return tokenize(tokenizer, batches, max_length)
    key = (fingerprint, *tokenizer_rules(tokenizer), max_length)
    table = _TABLES.get(key)
    if table is None:
        table = _TABLES[key] = tokenize(tokenizer, batches, max_length)
    return table


def tokenizer_rules(tokenizer: Any) -> tuple[str, str]:
    """Return what a tokenizer does to a text, wherever it came from: a hash of its rules, and its settings."""
    if not tokenizer.is_fast:
        rules = {"vocabulary": sorted(tokenizer.get_vocab().items())}
    else:
        rules = json.loads(tokenizer.backend_tokenizer.to_str())
        # Every call sets these anew, from the length and from the side.
        rules = {k: value for k, value in rules.items() if k not in ("truncation", "padding")}
    names = ("padding_side", "truncation_side", "special_tokens_map")
    settings = {name: getattr(tokenizer, name, None) for name in names}
    settings["class"] = type(tokenizer).__name__
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(json.dumps(rules).encode()).hexdigest(), text


def padded_rows(
    rows: Sequence[npt.NDArray[np.integer[Any]]], pad_id: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return token ids and attention mask, both (rows, longest), of rows of different lengths."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    if mask.size:
        ids[mask] = np.concatenate(rows)
    return ids, mask.astype(np.int64)


def checked_indices(indices: _Indices, count: int) -> npt.NDArray[np.int64]:
    """Return the indices as int64; one that is negative or too large is refused, never wrapped around."""
    try:
        chosen = np.asarray(indices, dtype=np.int64)
    except (ValueError, TypeError, OverflowError):  # it would quote the value, perhaps an id
        raise EncoderError("`indices` must be rows of entities, got other values.") from None
    if chosen.size and (chosen.min() < 0 or chosen.max() >= count):
        wrong = chosen[(chosen < 0) | (chosen >= count)][0]
        raise EncoderError(f"`indices` must lie in 0..{count - 1}, got {wrong}.")
    return chosen


def tokenize_batch(
    tokenizer: Any, texts: Sequence[Any], first: int, max_length: int
) -> list[list[int]]:
    """Return the token ids of one batch; a text without a single token becomes one neutral token."""
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise EncoderError(f"`texts` must be strings, got {kind} at index {first + position}.")
        if not text.isascii() and _SURROGATE.search(text):
            raise EncoderError(
                f"`texts` must be without half of a surrogate pair, got one at index {first + position}."
            )
    if not len(texts):
        return []
    rows: list[list[int]] = []
    for part in _short_parts(texts):

        def split(part: Sequence[str] = part) -> list[list[int]]:
            ids: list[list[int]] = tokenizer(
                part,
                truncation=True,
                max_length=max_length,
                padding=False,
                return_attention_mask=False,
                return_token_type_ids=False,
            )["input_ids"]
            return ids

        seconds = _SECONDS + sum(map(len, part)) / _SLOWEST
        with _as_tokenizer_error():
            rows += within_bounds(split, seconds=seconds, refusal=_too_slow())
    # A row of length 0 has no mean and no last token.
    return [row or [int(tokenizer.pad_token_id)] for row in rows]


def _short_parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield texts in parts that a tokenizer splits at once, in less than a second."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > _AT_ONCE:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    yield part


def _too_slow() -> EncoderError:
    return EncoderError(
        f"`source` must have a tokenizer that splits texts in little time, got one that takes more than {_SECONDS:g} "
        "seconds for a few of these, mostly because of a slow regular expression. Copy the tokenizer's files from the "
        "original model."
    )


@contextmanager
def _as_tokenizer_error() -> Iterator[None]:
    """Turn what a tokenizer raises for a text that it cannot split into one line, which quotes no text.

    Those in Rust raise a bare `Exception`, for example for a character without a token, and a panic when they give up.
    """
    try:
        yield
    except (ReldpError, MemoryError):
        raise
    except BaseException as error:
        refuse_panic(error)
        if not isinstance(error, Exception):
            raise
        raise EncoderError(
            f"`source` must have a tokenizer that can split every text, got {type(error).__name__} for some. Has it a "
            "token for what it does not know? Copy the tokenizer's files from the original model."
        ) from None
