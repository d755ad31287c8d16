"""Notices that code between steps changed weights or buffers: callbacks must not, since no epsilon covers what they do.

The bits are compared, not counters of torch: ``p.data.copy_``, a NumPy view and the running statistics of a batch
normalization change values without a trace. `WeightWatch` compares

* what steps compute with (trained and frozen weights and buffers of the encoder's module and of the loss): around every
  call, so that a change which is undone later is noticed too;
* modules beside it, such as the frozen model of a head, which are released and which no step uses: before every
  checkpoint, and after the last step.

Not noticed are changes by another thread while a step runs, by hooks of the optimizer, and of tensors that are neither
parameters nor buffers (`reldp.training.objective` looks at those of modules from outside of libraries).

Private to the package: `WeightWatch`, `bits_of`.

>>> one = torch.tensor([1.0, 2.0])
>>> bits_of([one]) == bits_of([one.clone()]), bits_of([one]) == bits_of([one.flip(0)])
(True, False)
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reldp.encoders.sharding import is_split
from reldp.processes import bit_witness
from reldp.training.callbacks import WeightsChangedError

if TYPE_CHECKING:
    from reldp.training.objective import Objective

__all__ = ["WeightWatch", "bits_of"]

_LARGE = 1 << 16  # bytes from which on a tensor is looked at alone on a CPU
_AT_ONCE = 1 << 26  # the same on a GPU, where every operation costs a launch
_CHUNK = 1 << 14  # words that stay in a processor's cache with their products


class WeightWatch:
    """The bits of all weights and buffers of an objective, as they were noted last.

    Args:
        objective: The encoder and the loss.
        is_on: Whether to look at all: where no code from outside runs, nothing needs to be compared.
    """

    def __init__(self, objective: "Objective", *, is_on: bool) -> None:
        """Take note of all weights and buffers."""
        self._objective, self.is_on = objective, is_on
        self._trained_ids = frozenset(map(id, objective.parameters.values()))
        self._trained: object = None
        if is_on:
            self.note_trained()
            self._frozen, self._beside = self._bits_of_frozen(), self._bits_beside()

    def note_trained(self) -> None:
        """Take note of the trained weights, which a step has changed."""
        if self.is_on:
            self._trained = bits_of(self._objective.parameters.values())

    def check(self) -> None:
        """Refuse another state of what steps compute with.

        Raises:
            WeightsChangedError: It is another.
        """
        if not self.is_on:
            return
        if self._trained != bits_of(self._objective.parameters.values()):
            _refuse("trained weights")
        if self._frozen != self._bits_of_frozen():
            _refuse("frozen weights or buffers")

    def check_beside(self) -> None:
        """Refuse another state of modules that no step uses, and that are released all the same.

        Raises:
            WeightsChangedError: It is another.
        """
        if self.is_on and self._beside != self._bits_beside():
            _refuse("frozen weights or buffers")

    def _bits_of_frozen(self) -> object:
        tensors = _tensors(self._objective.modules())
        return bits_of(value for value in tensors if id(value) not in self._trained_ids)

    def _bits_beside(self) -> object:
        objective = self._objective
        inside = set(map(id, _tensors(objective.modules())))
        held = [x for x in vars(objective.encoder).values() if isinstance(x, nn.Module)]
        tensors = _tensors(layer for module in held for layer in module.modules())
        return bits_of(value for value in tensors if id(value) not in inside)


def _refuse(what: str) -> None:
    raise WeightsChangedError(
        f"`callbacks` must leave the weights as they are, got one that changed {what}: no epsilon covers it. Load the "
        "encoder again and resume from the last checkpoint without it, or write a loop of your own with "
        "PrivateStep.record, whose certificate says so."
    )


def _tensors(layers: Iterable[nn.Module]) -> Iterator[Tensor]:
    """Yield every parameter and buffer of the layers once."""
    seen: set[int] = set()
    for layer in layers:
        for value in (*layer._parameters.values(), *layer._buffers.values()):
            if value is not None and id(value) not in seen:
                seen.add(id(value))
                yield value


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
