"""The bits of weights as a few whole numbers, such that every change shows.

Private to the package: `bits_of`.

>>> one = torch.tensor([1.0, 2.0])
>>> bits_of([one]) == bits_of([one.clone()]), bits_of([one]) == bits_of([one.flip(0)])
(True, False)
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from reldp.encoders.sharding import is_split
from reldp.processes import bit_witness

__all__ = ["bits_of"]

_LARGE = 1 << 16  # bytes from which on a tensor is looked at alone on a CPU
_AT_ONCE = 1 << 26  # the same on a GPU, where every operation costs a launch
_CHUNK = 1 << 14  # words that stay in a processor's cache with their products


def bits_of(values: Iterable[Tensor]) -> tuple[object, ...]:
    """Return types, shapes and places of tensors, and whole numbers that depend on all of their bits, in this order.

    A number changes with certainty if one of its tensors changes in one element. Otherwise tensors that nobody has made
    to deceive it have the same number with a probability of at most 2^-32.
    """
    described: list[object] = []
    by_device: dict[torch.device, list[Tensor]] = {}
    for value in values:
        here: Any = value.detach()
        here = here.to_local() if is_split(here) else here  # the part of this process
        described.append((here.dtype, tuple(here.shape), here.stride(), here.device))
        flat = here.contiguous().reshape(-1).view(torch.uint8)
        by_device.setdefault(here.device, []).append(flat)
    numbers: list[int] = []
    for device, flats in by_device.items():
        is_cpu = device.type == "cpu"
        parts = _joined(flats, _LARGE if is_cpu else _AT_ONCE)
        sums = [_witness_on_cpu(part) if is_cpu else bit_witness(part) for part in parts]
        numbers += torch.stack(sums).tolist()  # one wait for each device
    return *described, *numbers


def _joined(flats: list[Tensor], limit: int) -> Iterator[Tensor]:
    """Yield small tensors of bytes joined, and others as they are; the order follows from their sizes."""
    small: list[Tensor] = []
    size = 0
    for flat in flats:
        if len(flat) >= limit:
            yield flat
            continue
        if size + len(flat) > limit:
            yield torch.cat(small)
            small, size = [], 0
        small.append(flat)
        size += len(flat)
    if small:
        yield torch.cat(small)


def _witness_on_cpu(flat: Tensor) -> Tensor:
    """Return the number of `reldp.processes.bit_witness` for GPUs, in chunks that stay in the cache of a processor."""
    if len(flat) % 4 or flat.storage_offset() % 4:
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % 4)])
    words, factors = flat.view(torch.int32), _factors()
    # Products and sums of int64 wrap around, so they are exact.
    starts = range(0, max(len(words), 1), _CHUNK)
    sums = torch.stack([(words[i : i + _CHUNK] * factors[: len(words) - i]).sum() for i in starts])
    sums = sums ^ ((sums >> 32) & 0xFFFFFFFF)  # so that chunks and words cannot change places
    places = torch.arange(1, 2 * len(sums), 2) * int(factors[0])  # odd, and different
    return (sums * places).sum()


@cache
def _factors() -> Tensor:
    """Return public random odd whole numbers."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(1 << 62), 1 << 62, (_CHUNK,), generator=generator).mul_(2).add_(1)
