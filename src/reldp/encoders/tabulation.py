"""Vectors of a frozen model for all texts; the bits of a vector depend on its text alone.

A private step is trained on these vectors, so a vector must not depend on any other text, to the bit
(theory.md 6). The length of a text alone determines the shape of its batch. A batch that is not full
is padded with copies of its first text; the last row is always padding and has a masked token,
because models choose other kernels where nothing is masked. For every shape, public random rows
check that the bits of a row depend neither on its position nor on the other rows. Where they do, or
where control flow depends on the rows (`reldp.encoders.control_flow`), texts are run one at a time.

Private to the package: `tabulate`.

>>> rows = lambda places, length: {"attention_mask": torch.ones((len(places), length))}
>>> lengths = np.array([3, 9])
>>> outputs = tabulate(lambda r: r["attention_mask"], rows, lambda n, m: rows(range(n), m), lengths,
...                    max_length=16, max_tokens=64)
>>> [(places.tolist(), tuple(vectors.shape)) for places, vectors in outputs]
[([1], (1, 16)), ([0], (1, 8))]
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reldp.encoders.control_flow import depends_on_values

__all__ = ["tabulate"]

_Rows = dict[str, Tensor]
_Places = npt.NDArray[np.int64]


def tabulate(
    run: Callable[[_Rows], Tensor],
    rows: Callable[[_Places, int], _Rows],
    synthetic: Callable[[int, int], _Rows],
    lengths: npt.NDArray[np.integer[Any]],
    *,
    max_length: int,
    max_tokens: int,
) -> Iterator[tuple[_Places, Tensor]]:
    """Run a model on all texts.

    Args:
        run: Function that runs the model on rows and returns one result per row.
        rows: Function that returns the rows of texts, padded to a length.
        synthetic: Function that returns public random rows of a length.
        lengths: Number of tokens of every text.
        max_length: Largest number of tokens of a text.
        max_tokens: Maximum number of tokens in a batch.

    Yields:
        Places of some texts, and the model's outputs for them.
    """
    step = np.where(lengths <= 64, 8, 32)
    padded = np.maximum(lengths, np.minimum(-(-lengths // step) * step, max_length))
    with torch.no_grad():
        for length in np.unique(padded)[::-1].tolist():
            places = np.flatnonzero(padded == length)
            size = max(2, max_tokens // length)
            decides = depends_on_values(
                lambda **inputs: run(inputs), synthetic(2, length), mask="attention_mask"
            )
            if decides or not _is_independent(run, synthetic, size, length):
                size = 1
            yield from _batches(run, rows, places, size, length)


def _batches(
    run: Callable[[_Rows], Tensor],
    rows: Callable[[_Places, int], _Rows],
    places: _Places,
    size: int,
    length: int,
) -> Iterator[tuple[_Places, Tensor]]:
    """Run the texts of one length in batches of one size."""
    real = max(1, size - 1)
    for start in range(0, len(places), real):
        texts = places[start : start + real]
        filled = np.concatenate([texts, np.repeat(texts[:1], size - len(texts))])
        yield texts, run(_with_masked_end(rows(filled, length)))[: len(texts)]


def _with_masked_end(rows: _Rows) -> _Rows:
    """Mask a token of the last row, which is padding; a single row stays unchanged."""
    mask = rows["attention_mask"]
    if mask.shape[0] > 1 and mask.shape[1] > 1:
        mask[-1, -1] = 0
    return rows


def _is_independent(
    run: Callable[[_Rows], Tensor], synthetic: Callable[[int, int], _Rows], size: int, length: int
) -> bool:
    """Return whether a row's bits are independent of its position and of the other rows."""
    mixed = _with_masked_end(synthetic(size, length))
    alike = {name: value[:1].expand_as(value).clone() for name, value in mixed.items()}
    same = run(_with_masked_end(alike))[: size - 1]
    among = run(mixed)
    if not torch.equal(same, same[:1].expand_as(same)) or not torch.equal(among[0], same[0]):
        return False
    turned = {name: value[: size - 1].flip(0) for name, value in mixed.items()}
    back = run({name: torch.cat([v, mixed[name][-1:]]) for name, v in turned.items()})
    return torch.equal(back[: size - 1].flip(0), among[: size - 1])
