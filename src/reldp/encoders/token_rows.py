"""Rows with tokens: how an encoder says that its rows have different lengths.

Training puts rows of similar length in one microbatch and pads them to a public length
(`reldp.gradients.microbatches`). Rows that all have one shape have no tokens to it.

Public: `TokenRows`, which `reldp.encoders.Encoder.token_rows` returns.

>>> TokenRows(lengths=np.array([3, 1]), max_length=8, padding={"ids": 0}).max_length
8
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp._validate import check_integer
from reldp.errors import EncoderError

__all__ = ["TokenRows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenRows:
    """Lengths of the rows of a table, and what fills a row that is shorter than its microbatch.

    Attributes:
        lengths: Number of tokens of each entity, (entities,); 1 for rows without tokens. Sensitive.
        max_length: Largest number of tokens that a row can have, a public setting: shapes of microbatches follow
            from it. None for rows without tokens.
        padding: Value after the tokens of a short row, for each input of ``embed`` that has tokens, (rows,
            tokens, ...). It must not change the row's embedding. Inputs with another name have one shape.
        mask: The input among them that is 1 for a token and 0 for padding, if there is one.
    """

    lengths: npt.NDArray[np.integer[Any]] = field(repr=False)
    max_length: int | None
    padding: Mapping[str, int]
    mask: str | None = None

    @classmethod
    def without_tokens(cls, count: int) -> "TokenRows":
        """Return what an encoder states whose rows all have one shape."""
        return cls(lengths=np.ones(count, dtype=np.int64), max_length=None, padding={})

    def __post_init__(self) -> None:
        if self.max_length is None and not self.padding:
            return
        check_integer("max_length", self.max_length, low=1, error=EncoderError)
        if self.mask is not None and self.mask not in self.padding:
            raise EncoderError(
                f"`mask` must be one of the inputs with tokens, got {self.mask!r} and "
                f"{', '.join(self.padding) or 'none'}."
            )
        if self.max_length is not None and self.lengths.max(initial=0) > self.max_length:
            raise EncoderError(
                f"`lengths` must be at most max_length, got {self.max_length} and a longer row. Cut rows to it."
            )
