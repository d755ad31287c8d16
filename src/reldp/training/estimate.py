"""How long a step takes, and how much memory: measured on public random rows, before any private one is used.

The time that real steps take depends on the data and is sensitive (theory.md 6). Checkpoints appear in the
public ledger, so their interval must not follow from it. Here the code that trains runs on public random rows of
the longest length (texts of random tokens, for a text model), and noise is drawn under a key that is thrown away.
Both are measured a few times, and the median counts: one moment in which the machine is busy does not decide. The
result follows from public settings and the machine alone. It leaves out what happens once before the first step, such
as tokenizing. Texts are often shorter than the longest, so a real step often takes less.

Public inside the package: `StepEstimate`, `estimate_step`.

>>> StepEstimate(microbatch_seconds=0.5, num_microbatches=4, noise_seconds=1.0, peak_bytes=0).seconds
3.0
"""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from reldp.gradients.microbatches import UnitInputs
from reldp.noise import Streams, new_key

if TYPE_CHECKING:
    from reldp.gradients.microbatches import MicrobatchShape
    from reldp.training.step import PrivateStep

__all__ = ["StepEstimate", "estimate_step"]

_REPETITIONS = 3
_ENOUGH = 20.0  # seconds after which what is slow is not measured again


@dataclass(frozen=True, kw_only=True)
class StepEstimate:
    """What a step takes, as measured on public rows.

    Attributes:
        microbatch_seconds: Median time of one microbatch of the longest rows.
        num_microbatches: Expected number of microbatches of a step that one process computes.
        noise_seconds: Median time of drawing the noise.
        peak_bytes: Largest memory of this process (CPU) or of the device (GPU) so far.
    """

    microbatch_seconds: float
    num_microbatches: int
    noise_seconds: float
    peak_bytes: int

    @property
    def seconds(self) -> float:
        """Time of a step whose rows are all of the longest length."""
        return self.microbatch_seconds * self.num_microbatches + self.noise_seconds


def estimate_step(step: "PrivateStep") -> StepEstimate:
    """Measure microbatches and the noise of a step on public random rows; the weights do not change."""
    step.prepare()
    shapes, plan = step._shapes, step._plan
    shape = shapes.shape_of(shapes.lengths()[-1])
    expected_units = plan.expected_batch_size * plan.clipping.units_per_tuple(plan.num_negatives)
    units_at_once = shape.capacity * step._shares.processes.size
    # Processes that share weights must make the same number of calls.
    enough = _ENOUGH if step._shares.processes.is_alone else math.inf
    _run_public(step, shape)  # the first call allocates and compiles
    return StepEstimate(
        microbatch_seconds=_median_seconds(lambda: _run_public(step, shape), enough),
        num_microbatches=max(1, math.ceil(expected_units / units_at_once)),
        noise_seconds=_median_seconds(lambda: _draw_noise(step), enough),
        peak_bytes=_peak_bytes(step._encoder.device),
    )


def _median_seconds(call: Callable[[], None], enough: float) -> float:
    """Return the median time of a few calls, or of fewer if these take enough seconds."""
    seconds: list[float] = []
    while len(seconds) < _REPETITIONS and sum(seconds) < enough:
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _run_public(step: "PrivateStep", shape: "MicrobatchShape") -> None:
    """Run one microbatch of public rows by the code that trains, and wait for it."""
    step._guard._rows_per_unit = step._shapes.rows_per_unit
    units = step._guard._make(shape.capacity, shape.length, 0)
    inputs = UnitInputs(
        rows=units.rows,
        endpoints=units.endpoints,
        mask=units.mask,
        thresholds=torch.ones(shape.capacity, dtype=torch.float64, device=units.mask.device),
        grid=step._plan.grid,
        types=units.types,
    )
    step._runner.run(shape, inputs)
    if units.mask.device.type == "cuda":
        torch.cuda.synchronize(units.mask.device)


def _draw_noise(step: "PrivateStep") -> None:
    """Draw as much noise as a step does, under a key of its own."""
    size = sum(parameter.numel() for parameter in step.parameters.values())
    generator = step._performance.noise_generator
    drawn = step._plan.noise(Streams(new_key()), generator)
    if drawn is not None:
        with drawn:
            drawn.draw(0, 0, size)


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # a system without it
        return 0
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
