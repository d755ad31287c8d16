"""The check that padding at the end, or the beginning, of some units' rows changes no other unit.

Rows of a fixed shape are often short texts or lists, filled up with zeros or with one word number. Random rows have
hardly any padding. What a module takes from the whole batch to deal with it, such as the length of the longest row, is
then the same in every microbatch, and remains hidden.

Private to the package: `refuse_mixing_of_padding`.

>>> rows = {"words": torch.arange(1, 7).view(1, 6)}
>>> [made["words"].tolist() for made in padded_rows(rows, [True], {})]
[[[1, 2, 3, 4, 0, 0]], [[0, 0, 3, 4, 5, 6]]]
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from reldp.errors import InputError
from reldp.gradients import ClippedSum
from reldp.gradients.microbatches import MicrobatchShape
from reldp.training.locality import MIXED, Run, SyntheticUnits, difference, run_counted

__all__ = ["padded_rows", "refuse_mixing_of_padding"]


def refuse_mixing_of_padding(
    shape: MicrobatchShape, run: Run, units: SyntheticUnits, num_values: Mapping[str, int]
) -> None:
    """Refuse a unit that changes when the rows of all other units are padded, or no longer are.

    Args:
        shape: Shape of the microbatch.
        run: Runs a microbatch.
        units: As many public random units as the microbatch has; the first is compared, without and with padding.
        num_values: By the name of an input how many whole numbers it may hold, where that is known: the largest one
            may stand for padding.

    Raises:
        InputError: It does, as with a module that looks for the longest row of the batch.
    """
    if shape.units == 1:
        return
    rest = shape.units - 1
    # Which units are padded: without padding in the first one, then with it.
    for one, other in (
        ([False] * shape.units, [False] + [True] * rest),
        ([True] + [False] * rest, [True] * shape.units),
    ):
        for rows, changed in zip(
            _padded(units, shape, one, num_values),
            _padded(units, shape, other, num_values),
            strict=True,
        ):
            _compare(shape, run, rows, changed)


def _compare(shape: MicrobatchShape, run: Run, one: SyntheticUnits, other: SyntheticUnits) -> None:
    """Refuse the first unit if it differs between two microbatches."""
    order = [*range(shape.units)]
    try:
        ordinary = run_counted(shape, run, one, order, counted=0)
        among = run_counted(shape, run, other, order, counted=0)
    except Exception:  # a module may stop a run that has such rows
        return
    if _is_finite(ordinary) and difference(ordinary, 0, among, 0, of_sums=True) > 0:
        raise InputError(MIXED)


def _is_finite(result: ClippedSum) -> bool:
    """Whether the first unit has a loss and a gradient: a module may need more of a row than is left."""
    return bool(torch.isfinite(result.losses[0]) & torch.isfinite(result.norms[0]))


def _padded(
    units: SyntheticUnits,
    shape: MicrobatchShape,
    is_padded: Sequence[bool],
    num_values: Mapping[str, int],
) -> Iterator[SyntheticUnits]:
    """Yield the units, of which some have padding, once for each kind of padding."""
    count = len(next(iter(units.rows.values()))) // shape.units
    chosen = [padded for padded in is_padded for _ in range(count)]
    for rows in padded_rows(units.rows, chosen, num_values):
        yield replace(units, rows=rows)


def padded_rows(
    rows: Mapping[str, Tensor], is_padded: Sequence[bool], num_values: Mapping[str, int]
) -> Iterator[dict[str, Tensor]]:
    """Yield rows, of which some end or begin with a third of padding, once for each kind of padding.

    Args:
        rows: Inputs by name, (rows, *shape). All of them are padded at once; those of one number stay as they are.
        is_padded: Which rows are padded.
        num_values: See `refuse_mixing_of_padding`.

    Yields:
        Copies, padded with 0 or the largest number, at the end or at the beginning, along the first dimension of a row
        or the last one. Nothing if no input has a dimension that can be padded.
    """
    wide = [value for value in rows.values() if any(side > 1 for side in value.shape[1:])]
    if not wide:
        return
    for dim in (1, -1) if any(value.dim() > 2 for value in wide) else (1,):
        for use_largest in (False, True) if num_values else (False,):
            for at_end in (True, False):
                yield {
                    name: _filled(
                        value,
                        is_padded,
                        dim,
                        at_end,
                        num_values.get(name, 1) - 1 if use_largest else 0,
                    )
                    for name, value in rows.items()
                }


def _filled(
    value: Tensor, is_padded: Sequence[bool], dim: int, at_end: bool, padding: int
) -> Tensor:
    """Return a copy in which a third of a dimension of some rows has one value."""
    filled = value.clone()
    side = value.shape[dim] if value.dim() > 1 else 1
    if side > 1:
        index = torch.tensor(is_padded, device=value.device).nonzero().flatten()
        part = filled[index]
        width = max(
            1, side // 3
        )  # half of it would scale sums by 2, which changes no bits of a cosine
        part.narrow(dim, side - width if at_end else 0, width).fill_(padding)
        filled[index] = part
    return filled
