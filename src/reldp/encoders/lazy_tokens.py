"""Tokens of texts that are tokenized when a step asks for them: for graphs of many texts, of which a run sees few.

The rows are those of a `TokenTable` of all texts, to the bit: a tokenizer looks at one text at a time. Its content is
known before a text is read: it is that of the store, whose blocks are checked when they are first read, under the
rules of the tokenizer. So `content_sha256` stands for the table where a run is identified.

Private to the package: `LazyTokens`, `JoinedTokens`, `LazyLengths`, `joined_sha256`.

>>> class Letters:
...     pad_token_id = 0
...     def __call__(self, texts, **how): return {"input_ids": [[ord(c) for c in t] for t in texts]}
>>> lazy = LazyTokens(lambda rows: ["ab", "c"][rows[0]:rows[-1] + 1], 2, Letters(), max_length=8, content_sha256="")
>>> lazy.rows([1, 0])[0].tolist(), lazy.lengths[np.array([[0, 1]])].tolist()
([[99, 0], [97, 98]], [[2, 1]])
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reldp.encoders.tokens import TokenTable, checked_indices, padded_rows, tokenize_batch

__all__ = ["JoinedTokens", "LazyLengths", "LazyTokens", "joined_sha256"]

_MAX_KNOWN = 1 << 18  # texts whose tokens are kept
_Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class _Tokens(Protocol):
    """What a table of tokens can do without holding them all."""

    pad_id: int
    max_length: int

    def __len__(self) -> int: ...

    def token_lists(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int32]]: ...


class LazyLengths:
    """Numbers of tokens that are looked up when they are asked for; stands for an array of them."""

    def __init__(self, tokens: _Tokens) -> None:
        self._tokens = tokens

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, indices: Any) -> npt.NDArray[np.int64]:
        chosen = np.asarray(indices)
        rows = self._tokens.token_lists(checked_indices(chosen.reshape(-1), len(self)))
        return np.array([len(row) for row in rows], dtype=np.int64).reshape(chosen.shape)

    def max(self, initial: int = 0) -> int:
        """Return an upper bound on all lengths, which is public: the maximum length of a text."""
        return max(initial, self._tokens.max_length)


class _RowsOnRequest:
    """The rows of tokens that are looked up."""

    pad_id: int

    @property
    def lengths(self: Any) -> LazyLengths:
        """Number of tokens of each text."""
        return LazyLengths(self)

    def rows(self: Any, indices: Any) -> _Rows:
        """Return padded rows of the texts asked for, as `TokenTable.rows` does."""
        chosen = checked_indices(indices, len(self))
        return padded_rows(self.token_lists(chosen.reshape(-1)), self.pad_id)


class LazyTokens(_RowsOnRequest):
    """Tokens of a graph's texts.

    Args:
        text: Returns the texts of some entities.
        count: Number of entities.
        tokenizer: A Hugging Face tokenizer with a padding token.
        max_length: Longer texts are cut.
        content_sha256: Hash of the texts and of the tokenizer's rules.
    """

    def __init__(
        self,
        text: Callable[[npt.NDArray[np.int64]], Sequence[str]],
        count: int,
        tokenizer: Any,
        *,
        max_length: int,
        content_sha256: str,
    ) -> None:
        self._text, self._count, self._tokenizer = text, count, tokenizer
        self.max_length = max_length
        self.pad_id = int(tokenizer.pad_token_id)
        self.content_sha256 = content_sha256
        self._known: dict[int, npt.NDArray[np.int32]] = {}

    def __len__(self) -> int:
        return self._count

    def token_lists(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int32]]:
        """Return the token ids of some texts, tokenized unless they are known."""
        missing = np.array(
            sorted({row for row in indices.tolist() if row not in self._known}), dtype=np.int64
        )
        if len(missing):
            if len(self._known) + len(missing) > _MAX_KNOWN:
                self._known = {
                    row: self._known[row] for row in indices.tolist() if row in self._known
                }
            lists = tokenize_batch(
                self._tokenizer, self._text(missing), int(missing[0]), self.max_length
            )
            for row, tokens in zip(missing.tolist(), lists, strict=True):
                self._known[row] = np.array(tokens, dtype=np.int32)
        return [self._known[row] for row in indices.tolist()]

    def join(self, other: TokenTable) -> "JoinedTokens":
        """Return this table with the texts of a table after it: a public pool after the graph."""
        return JoinedTokens(self, other)


def joined_sha256(content_sha256: str, pool: TokenTable) -> str:
    """Return the hash that stands for a table with the texts of a public pool after it."""
    return f"{content_sha256} {pool.content_hash()}"


class JoinedTokens(_RowsOnRequest):
    """Tokens of a graph's texts, then those of a public pool."""

    def __init__(self, first: Any, second: TokenTable) -> None:
        """Join two tables of the same encoder."""
        self._first, self._second = first, second
        self.pad_id, self.max_length = first.pad_id, first.max_length
        self.content_sha256 = joined_sha256(first.content_sha256, second)
        self.files_sha256 = getattr(first, "files_sha256", None)

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def token_lists(self, indices: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int32]]:
        """Return the token ids of some texts."""
        inside = indices < len(self._first)
        first_lists = iter(self._first.token_lists(indices[inside]))
        table, start = self._second, len(self._first)
        return [
            next(first_lists)
            if is_first
            else table.ids[table.offsets[row - start] : table.offsets[row - start + 1]]
            for row, is_first in zip(indices.tolist(), inside.tolist(), strict=True)
        ]
