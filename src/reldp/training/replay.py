"""Sums of gradients by steps that are recorded once and replayed: CUDA graphs.

A small encoder leaves a large GPU waiting for the next kernel's launch. Recorded once, the forward,
the backward, the clipping and the sum of a chunk are one launch. A recording has fixed shapes, so a
chunk is copied into a `Frame` of the next larger shape. Units that fill a frame up repeat the first
unit with its loss times 0: their gradients are exactly 0, or not finite and left out, so they add
nothing to the sum (theory.md section 2: a unit's part depends on that unit alone). Thresholds,
parameters and rows are read anew at every replay. An encoder that cannot be recorded is run as it
is, after a `ReplayWarning`: slower, with the same sums.

Private to the package: `Replay`, `Frame`, `Summed`, `frame_units`, `even_chunks`.
Public: `ReplayWarning`.

>>> [frame_units(count) for count in (1, 5, 9, 65, 256, 257)]
[1, 5, 9, 72, 256, 288]
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Frame", "Replay", "ReplayWarning", "Summed", "even_chunks", "frame_units"]

_TOKENS = frozenset({"input_ids", "attention_mask", "hidden"})  # (rows, tokens, ...), 0 is padding
_LENGTHS = 8  # frames have whole multiples of so many tokens
_WARM_UPS = 2  # runs before a recording, in which libraries choose kernels and take memory


class ReplayWarning(UserWarning):
    """Steps of an encoder cannot be recorded."""


@dataclass(frozen=True, eq=False)
class Summed:
    """What one chunk gives; nothing of it is private before noise.

    Attributes:
        total: Sum of clipped gradients, all parameters one after the other, (parameters,) float64.
        norms: Of each unit's gradient, (units,).
        losses: Of each unit, (units,).
        factors: What each unit was multiplied by, (units,).
    """

    total: Tensor
    norms: Tensor
    losses: Tensor
    factors: Tensor

    def first(self, units: int) -> "Summed":
        """Copies, without the units that filled the frame up."""
        return Summed(
            self.total.clone(),
            self.norms[:units].clone(),
            self.losses[:units].clone(),
            self.factors[:units].clone(),
        )


@dataclass(frozen=True, eq=False)
class Frame:
    """Buffers of fixed shape that hold one chunk.

    Attributes:
        rows: Inputs of the encoder by name, first dimension units times rows per unit.
        ends: See `reldp.clipping.ClipUnits`, (units, negatives) int64.
        mask: Likewise, (units, negatives) bool.
        weights: 1 for a unit of the chunk, 0 for one that fills the frame up, (units,).
        thresholds: Largest norm that each unit may keep, (units,) float64.
    """

    rows: Mapping[str, Tensor]
    ends: Tensor
    mask: Tensor
    weights: Tensor
    thresholds: Tensor

    @classmethod
    def like(cls, rows: Mapping[str, Tensor], ends: Tensor, thresholds: Tensor) -> "Frame":
        """Empty buffers for chunks of this shape or a little less."""
        units, negatives = ends.shape
        device = next(iter(rows.values())).device
        size = frame_units(units)
        return cls(
            rows={name: v.new_zeros(_shape(name, v, units, size)) for name, v in rows.items()},
            ends=torch.zeros((size, negatives), dtype=torch.int64, device=device),
            mask=torch.zeros((size, negatives), dtype=torch.bool, device=device),
            weights=torch.zeros(size, device=device),
            thresholds=torch.ones(size, dtype=torch.float64, device=device),
        )

    def fill(
        self, rows: Mapping[str, Tensor], ends: Tensor, mask: Tensor, thresholds: Tensor
    ) -> None:
        """Takes a chunk in; its first unit stands wherever there is room left."""
        units, size = ends.shape[0], self.weights.shape[0]
        for name, value in rows.items():
            buffer = self.rows[name]
            own = value.shape[0] // units  # rows per unit
            if name in _TOKENS:
                buffer.zero_()
                buffer = buffer[:, : value.shape[1]]
            buffer[: value.shape[0]].copy_(value)
            if size > units:
                places = buffer[value.shape[0] :].view(size - units, own, *buffer.shape[1:])
                places.copy_(value[:own].expand(places.shape))
        for buffer, value in ((self.ends, ends), (self.mask, mask)):
            buffer[:units].copy_(value)
            buffer[units:].copy_(value[:1].expand(size - units, -1))
        self.weights[:units].fill_(1.0)
        self.weights[units:].fill_(0.0)
        self.thresholds[:units].copy_(thresholds)
        self.thresholds[units:].fill_(1.0)


class Replay:
    """Records a computation once per shape of frame and replays it.

    Args:
        compute: The sum over a frame's units; it may read nothing back from the device.
        record: Whether to record; otherwise frames are computed as they come, on any device.
    """

    def __init__(self, compute: Callable[[Frame], Summed], *, record: bool = True) -> None:
        self._compute, self._record = compute, record
        self._known: dict[tuple[Any, ...], tuple[Frame, Callable[[], Summed]]] = {}
        self._pool: Any = None

    def run(
        self, rows: Mapping[str, Tensor], ends: Tensor, mask: Tensor, thresholds: Tensor
    ) -> Summed:
        """What a chunk gives: copies, which later replays do not overwrite."""
        units = ends.shape[0]
        size = frame_units(units)
        key = (size, ends.shape[1], *(_shape(name, v, units, size) for name, v in rows.items()))
        if key not in self._known:
            frame = Frame.like(rows, ends, thresholds)
            frame.fill(rows, ends, mask, thresholds)
            self._known[key] = frame, self._recorded(frame)
        frame, replay = self._known[key]
        frame.fill(rows, ends, mask, thresholds)
        return replay().first(units)

    def _recorded(self, frame: Frame) -> Callable[[], Summed]:
        """The computation of a frame, recorded if it can be."""
        if self._record:
            try:
                return self._recording(frame)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
                warnings.warn(
                    f"The encoder's steps cannot be recorded and run one by one: {reason}",
                    ReplayWarning,
                    stacklevel=2,
                )
                self._record = False
        return lambda: self._compute(frame)

    def _recording(self, frame: Frame) -> Callable[[], Summed]:
        """The computation of a frame as one CUDA graph."""
        device = frame.weights.device
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # untyped in torch
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._compute(frame)
        torch.cuda.current_stream(device).wait_stream(side)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        # Results are copied before the next replay, so that recordings share their memory.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            found = self._compute(frame)

        def replay() -> Summed:
            graph.replay()
            return found

        return replay


def frame_units(count: int) -> int:
    """Units of the frame for a chunk of so many: up to an eighth more, in few sizes."""
    step = 1 << max((count - 1).bit_length() - 4, 0)
    return -(-count // step) * step


def even_chunks(units: int, most: int) -> list[int]:
    """Sizes of as few chunks as allowed, all alike: one shape of frame fits them."""
    count = -(-units // max(most, 1))
    return [units // count + (place < units % count) for place in range(count)]


def _shape(name: str, value: Tensor, units: int, size: int) -> tuple[int, ...]:
    """The shape of a frame's buffer for rows like these."""
    rows = value.shape[0] // units * size
    if name not in _TOKENS:
        return rows, *value.shape[1:]
    return rows, -(-value.shape[1] // _LENGTHS) * _LENGTHS, *value.shape[2:]
