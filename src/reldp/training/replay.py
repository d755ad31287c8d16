"""Frames that are computed, or recorded once and replayed: CUDA graphs.

A small encoder leaves a large GPU waiting for the next kernel's launch. Recorded once per frame's
shape, the forward, the backward, the clipping and the sum of a chunk are one launch. Thresholds,
rows and the values of parameters are read anew at every replay; if parameters move to another place
in memory, everything is recorded anew. An encoder that cannot be recorded is run as it is, after a
`ReplayWarning`: slower, with the same sums.

Private to the package: `Replay`. Public: `ReplayWarning`.

>>> issubclass(ReplayWarning, UserWarning)
True
"""

import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from reldp.training.frames import Frame, Piece, Summed, fixed_shape

__all__ = ["Replay", "ReplayWarning"]

_WARM_UPS = 2  # runs before a recording, in which libraries choose kernels and take memory


class ReplayWarning(UserWarning):
    """Steps of an encoder cannot be recorded."""


class Replay:
    """Puts chunks into frames and computes their sums.

    Args:
        compute: The sum over a frame's units; in a recording it may read nothing back.
        record: Whether to record; otherwise frames are computed as they come, on any device.
        place: Where the parameters are; recordings of another place are forgotten.
        pad_id: The token that fills short rows.
    """

    def __init__(
        self,
        compute: Callable[[Frame], Summed],
        *,
        record: bool,
        place: Callable[[], Hashable] = lambda: None,
        pad_id: int = 0,
    ) -> None:
        self._pad_id = pad_id
        self._compute, self._record, self._place = compute, record, place
        self._frames: dict[Hashable, Frame] = {}
        self._recordings: dict[Hashable, Callable[[], Summed]] = {}
        self._recorded_at: Hashable = None
        self._pool: Any = None

    def run(
        self,
        piece: Piece,
        rows: Mapping[str, Tensor],
        endpoints: Tensor,
        mask: Tensor,
        thresholds: Tensor,
        *,
        grid: float | None,
        weights: Tensor | None = None,
        witness: bool = False,
    ) -> Summed:
        """What a chunk gives: copies, which later replays do not overwrite; see `Frame.fill`."""
        kinds = tuple(
            (name, value.dtype, *fixed_shape(name, value)) for name, value in rows.items()
        )
        shape = piece.units, piece.length, piece.apart, grid is None, witness
        key = *shape, endpoints.shape[1], endpoints.device, kinds
        if key not in self._frames:
            self._frames[key] = Frame.like(
                rows,
                endpoints,
                piece,
                has_grid=grid is not None,
                witness=witness,
                pad_id=self._pad_id,
            )
        frame = self._frames[key]
        frame.fill(rows, endpoints, mask, thresholds, grid=grid, weights=weights)
        return self._summed(key, frame).first(endpoints.shape[0])

    def _summed(self, key: Hashable, frame: Frame) -> Summed:
        """The frame's sum: replayed where it was recorded, recorded where it can be."""
        if not self._record:
            return self._compute(frame)
        place = self._place()
        if place != self._recorded_at:
            self._recordings.clear()
            self._recorded_at = place
        if key not in self._recordings:
            try:
                self._recordings[key] = self._recording(frame)
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
                return self._compute(frame)
        return self._recordings[key]()

    def _recording(self, frame: Frame) -> Callable[[], Summed]:
        """The computation of a frame as one CUDA graph."""
        device = frame.weights.device
        before = torch.cuda.current_stream(device)
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # untyped in torch
        side.wait_stream(before)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._compute(frame)
        before.wait_stream(side)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            # Results are copied before the next replay, so that recordings share their memory.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                found = self._compute(frame)
        finally:
            torch.cuda.set_stream(before)  # a recording that broke off leaves its own behind

        def replay() -> Summed:
            graph.replay()
            return found

        return replay
