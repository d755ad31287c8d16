"""Gaussian noise for the clipped sum, drawn from the secure stream ahead of time.

``GaussianNoise.draw(step, branch, size)`` is a function of (key, branch, step) alone: prefetching,
the number of threads and what was drawn before change nothing, and a shorter draw is the beginning
of a longer one. Draws are correctly rounded to the grid of 2^-30 (``reldp.noise.rounded``). The
defense against floating-point attacks is complete only if the noise is added to a sum that lies on
the same grid, so add it with ``add_noise`` and no other way: noise on a grid added to a value off
the grid would reveal the value's position between grid points.

In training every clip unit is put on the grid by itself before it is summed
(``reldp.gradients.fixed_point``), so that nothing is left to round here.

``noise_generator="fast"`` draws with numpy's Philox generator under a 128-bit key per address, derived from the
run's key, and rounds to the same grid. It gives up two things: Philox is not a cryptographic
generator, and its draws are not rounded with exactly the right probabilities. The certificate says
which one was used.

Public: ``GaussianNoise``, ``add_noise``.

>>> from reldp.noise.streams import Streams
>>> with GaussianNoise(Streams(bytes(32))) as noise:
...     total = add_noise(np.zeros(3), noise.draw(step=0, branch=0, size=3), standard_deviation=2.0)
>>> total.round(3).tolist()
[1.027, 1.988, 3.543]
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from reldp._validate import NOISE_GENERATORS, as_integer, check_choice, check_integer, check_number
from reldp.errors import InputError
from reldp.noise.refine import EXTRA_WORDS
from reldp.noise.rounded import GRID, check_arithmetic, rounded_normals
from reldp.noise.streams import Streams

__all__ = ["MIN_DEVIATION", "GaussianNoise", "add_noise"]


_DRAWS = "noise/secure"
_REFINEMENTS = "noise/secure/refine"
_FAST = "noise/fast"
MIN_DEVIATION = 1e-280
# Draws per lane. Large enough that a thread seldom has to ask for the interpreter's lock (a few
# hundred times for four million draws), small enough for the cache. Changing it changes the noise
# of a key.
_BLOCK = 1 << 18
_MAX_WORKERS = 16


class _Array(Protocol):
    """Arithmetic that `add_noise` needs: that of a numpy array or a torch tensor."""

    dtype: Any
    shape: Any

    def __mul__(self, other: Any, /) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...


_A = TypeVar("_A", bound=_Array)


def add_noise(total: _A, noise: _A, *, standard_deviation: float) -> _A:
    """Return the total, put on the noise's grid, plus the noise.

    Works on numpy arrays and on torch tensors of any device alike. All sums on the grid are exact
    in float64, so the result is a function of the ideal Gaussian mechanism's output; casting it
    down afterwards is harmless.

    Args:
        total: Clipped sum in float64, no coordinate above 2^20 standard deviations.
        noise: ``GaussianNoise.draw`` of the same shape, float64.
        standard_deviation: noise_multiplier * clip_norm; 0 returns the total as it is.
    """
    for name, array in (("total", total), ("noise", noise)):
        if not str(array.dtype).endswith("float64"):
            raise InputError(
                f"`{name}` must be float64, got {array.dtype}. "
                "Coarser types cannot hold the noise's grid."
            )
    if tuple(total.shape) != tuple(noise.shape):
        raise InputError(
            f"`noise` must have the total's shape {tuple(total.shape)}, got {tuple(noise.shape)}."
        )
    deviation = check_number(
        "standard_deviation", float(standard_deviation), low=0, error=InputError
    )
    if deviation == 0:
        return total
    if (
        not MIN_DEVIATION <= deviation <= 1.0 / MIN_DEVIATION
    ):  # the grid's step must be a normal float64
        raise InputError(
            f"`standard_deviation` must lie in {MIN_DEVIATION:g}..{1.0 / MIN_DEVIATION:g}, "
            f"got {deviation!r}."
        )
    result: _A = ((total * (1.0 / (deviation * GRID))).round() * GRID + noise) * deviation
    return result


class _Address(NamedTuple):
    step: int
    branch: int
    size: int


def _address(step: int, branch: int, size: int) -> _Address:
    return _Address(
        check_integer("step", as_integer(step), error=InputError),
        check_integer("branch", as_integer(branch), error=InputError),
        check_integer("size", as_integer(size), error=InputError),
    )


class _Job(NamedTuple):
    """Noise being drawn: the array, and the tasks that write into it."""

    out: NDArray[np.float64]
    parts: list[Future[None]]

    def cancel(self) -> None:
        for part in self.parts:
            part.cancel()

    def result(self) -> NDArray[np.float64]:
        for part in self.parts:
            part.result()
        return self.out


class GaussianNoise:
    """N(0, 1) draws per step, prefetched.

    Args:
        streams: The run's streams.
        noise_generator: ``"secure"`` (default) or ``"fast"``: see above.
        prefetch: Number of steps to draw ahead after each ``draw`` (default: 1). With 0, draws happen on
            request, on the caller's thread.
        workers: Number of background threads (default: all processors but one, and at most 16). Like
            ``prefetch``, it changes speed only.
        allocate: Makes the float64 array of a given size that a draw is written into, e.g. in
            page-locked memory for transfers to a device.
    """

    def __init__(
        self,
        streams: Streams,
        noise_generator: str = "secure",
        *,
        prefetch: int = 1,
        workers: int | None = None,
        allocate: Callable[[int], NDArray[np.float64]] = np.empty,
    ) -> None:
        check_choice("noise_generator", noise_generator, NOISE_GENERATORS, error=InputError)
        check_arithmetic()
        self.noise_generator = noise_generator
        self._streams = streams
        self._allocate = allocate
        self._ahead = check_integer("prefetch", as_integer(prefetch), error=InputError)
        if workers is None:
            workers = min(max(1, (os.cpu_count() or 1) - 1), _MAX_WORKERS)
        num_threads = check_integer("workers", as_integer(workers), low=1, error=InputError)
        self._pool = (
            ThreadPoolExecutor(num_threads, thread_name_prefix="reldp-noise") if prefetch else None
        )
        self._jobs: dict[_Address, _Job] = {}

    def __enter__(self) -> "GaussianNoise":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the background threads. Later draws are made on the caller's thread."""
        self._keep(set())
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def prefetch(self, step: int, branch: int, size: int) -> None:
        """Start drawing in the background, e.g. the first step's noise before its gradients."""
        self._start(_address(step, branch, size))

    def draw(self, step: int, branch: int, size: int) -> NDArray[np.float64]:
        """Return the noise of one step and start drawing that of the next steps.

        Returns:
            A fresh float64 array of independent N(0, 1), multiples of 2^-30; shape (size,).
        """
        first = _address(step, branch, size)
        wanted = [first._replace(step=first.step + ahead) for ahead in range(self._ahead + 1)]
        self._keep(set(wanted))
        if self._pool is None:
            return self._now(first)
        for address in wanted:
            self._start(address)
        return self._jobs.pop(first).result()

    def draw_for(self, total: memoryview, step: int, branch: int) -> NDArray[np.float64]:
        """Return the noise of one step for one sum; a different sum at the same address gets different noise.

        Two runs that share key and address by mistake never add the same noise to different sums,
        which would reveal their difference. For a given sum the law is that of `draw`. Nothing
        can be drawn ahead.

        Args:
            total: The numbers that the noise is for, float64, contiguous; sensitive.
            step: As in `draw`.
            branch: As in `draw`.
        """
        bound = GaussianNoise(self._streams.bound_to(total), self.noise_generator, prefetch=0)
        return bound.draw(step, branch, total.nbytes // 8)

    def _keep(self, wanted: set[_Address]) -> None:
        """Cancel all draws but the wanted ones, e.g. after a change of branch."""
        for address in [a for a in self._jobs if a not in wanted]:
            self._jobs.pop(address).cancel()

    def _start(self, address: _Address) -> None:
        if self._pool is None or address in self._jobs:
            return
        out = self._array(address.size)
        parts = [self._pool.submit(task) for task in self._tasks(address, out)]
        self._jobs[address] = _Job(out, parts)

    def _now(self, address: _Address) -> NDArray[np.float64]:
        out = self._array(address.size)
        for task in self._tasks(address, out):
            task()
        return out

    def _array(self, size: int) -> NDArray[np.float64]:
        out = self._allocate(size)
        if out.shape != (size,) or out.dtype != np.float64:
            raise InputError(
                f"`allocate` must return a float64 array of shape ({size},), "
                f"got {out.dtype} {out.shape}."
            )
        return out

    def _tasks(self, address: _Address, out: NDArray[np.float64]) -> list[Callable[[], None]]:
        """One task per lane, each filling its own part of ``out``."""

        def task(lane: int) -> Callable[[], None]:
            part = out[lane * _BLOCK : (lane + 1) * _BLOCK]
            return lambda: self._fill(address, lane, part)

        return [task(lane) for lane in range(-(-address.size // _BLOCK))]

    def _fill(self, address: _Address, lane: int, part: NDArray[np.float64]) -> None:
        step, branch, _ = address
        if self.noise_generator == "fast":
            key = self._streams.stream(_FAST, branch, step, lane).uint64(2)
            draws = np.random.Generator(np.random.Philox(key=key)).standard_normal(part.size)
            part[:] = np.rint(draws * (1.0 / GRID)) * GRID
            return
        words = self._streams.stream(_DRAWS, branch, step, lane).uint64(part.size + part.size % 2)

        def more(pair: int) -> list[int]:
            place = lane * (_BLOCK // 2) + pair
            stream = self._streams.stream(_REFINEMENTS, branch, step, place)
            return [int(word) for word in stream.uint64(EXTRA_WORDS)]

        part[:] = rounded_normals(words, more)[: part.size]
