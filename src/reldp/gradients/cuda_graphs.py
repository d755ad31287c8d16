"""Sums of microbatches, computed directly or captured once as CUDA graphs and replayed.

A small encoder leaves a large GPU waiting for kernel launches. Captured once per microbatch shape,
the forward pass, the backward pass, the clipping and the sum are one launch. Every replay reads the
buffers of the microbatch and the values of the parameters anew; if parameters move to another place in
memory, everything is captured again. An encoder that cannot be captured is run directly, after a
`CudaGraphWarning`: slower, with the same sums.

Private to the package: `MicrobatchRunner`. Public: `CudaGraphWarning`.

>>> issubclass(CudaGraphWarning, UserWarning)
True
"""

import warnings
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch

from reldp.gradients.clipped_sum import ClippedSum
from reldp.gradients.engine import without_autocast
from reldp.gradients.microbatches import Microbatch, MicrobatchShape, UnitInputs, fixed_shape

__all__ = ["CudaGraphWarning", "MicrobatchRunner"]

_WARM_UPS = 2  # runs before a capture, in which libraries choose kernels and allocate memory


class CudaGraphWarning(UserWarning):
    """The steps of an encoder cannot be captured as CUDA graphs."""


class MicrobatchRunner:
    """Fill microbatches with units and compute their sums.

    Args:
        compute: Returns the sum over a microbatch; while it is captured it may read nothing back.
        cuda_graphs: Whether to capture and replay; otherwise every microbatch is computed directly, on
            any device.
        addresses: Returns the memory addresses of the parameters; when they change, captured graphs
            are dropped.
        padding: Value that fills short rows, for each input with tokens; see `Microbatch`.
        token_mask: The input that marks tokens.
    """

    def __init__(
        self,
        compute: Callable[[Microbatch], ClippedSum],
        *,
        cuda_graphs: bool,
        addresses: Callable[[], Hashable] = lambda: None,
        padding: Mapping[str, int] | None = None,
        token_mask: str | None = None,
    ) -> None:
        self._padding, self._token_mask = dict(padding or {}), token_mask
        self._compute, self._cuda_graphs, self._addresses = compute, cuda_graphs, addresses
        self._microbatches: dict[Hashable, Microbatch] = {}
        self._graphs: dict[Hashable, Callable[[], ClippedSum]] = {}
        self._captured_at: Hashable = None
        self._pool: Any = None

    @property
    def cuda_graphs(self) -> bool:
        """Whether microbatches are captured and replayed."""
        return self._cuda_graphs

    def run(
        self, shape: MicrobatchShape, inputs: UnitInputs, *, witness: bool = False
    ) -> ClippedSum:
        """Return the sum over some units: copies, which later replays do not overwrite."""
        endpoints = inputs.endpoints
        kinds = tuple(
            (name, value.dtype, *fixed_shape(value, has_tokens=name in self._padding))
            for name, value in inputs.rows.items()
        )
        given = inputs.grid is None, inputs.types is None
        key = shape, *given, witness, endpoints.shape[1], endpoints.device, kinds
        if key not in self._microbatches:
            self._microbatches[key] = Microbatch.like(
                inputs,
                shape,
                witness=witness,
                padding=self._padding,
                token_mask=self._token_mask,
            )
        microbatch = self._microbatches[key]
        microbatch.fill(inputs)
        with without_autocast():  # of a training loop: units were checked without it
            return self._sum(key, microbatch).first(endpoints.shape[0])

    def _sum(self, key: Hashable, microbatch: Microbatch) -> ClippedSum:
        """Return the sum over a microbatch, by its CUDA graph where it has or can have one."""
        if not self._cuda_graphs:
            return self._compute(microbatch)
        addresses = self._addresses()
        if addresses != self._captured_at:
            self._graphs.clear()
            self._captured_at = addresses
        if key not in self._graphs:
            try:
                self._graphs[key] = self._capture(microbatch)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                reason = str(error).partition("\n")[0]
                warnings.warn(
                    "The encoder's steps cannot be captured as CUDA graphs and run one by one: "
                    f"{reason}",
                    CudaGraphWarning,
                    stacklevel=2,
                )
                self._cuda_graphs = False
                return self._compute(microbatch)
        return self._graphs[key]()

    def _capture(self, microbatch: Microbatch) -> Callable[[], ClippedSum]:
        """Capture the computation of a microbatch as one CUDA graph."""
        device = microbatch.weights.device
        before = torch.cuda.current_stream(device)
        side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call] # untyped in torch
        side.wait_stream(before)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._compute(microbatch)
        before.wait_stream(side)
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        try:
            # Results are copied before the next replay, so that graphs share their memory.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                captured = self._compute(microbatch)
        finally:
            torch.cuda.set_stream(before)  # a capture that failed leaves its own stream behind

        def run_graph() -> ClippedSum:
            graph.replay()
            return captured

        return run_graph
