"""Work that is done ahead in threads or processes, with results in order and a bounded number of them waiting.

Inside the package: `in_threads`, `in_processes`.

>>> list(in_threads(abs, [-3, 2, -1], 2))
[3, 2, 1]
"""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["in_processes", "in_threads"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_threads(
    function: Callable[[_Item], _Result], items: Iterable[_Item], threads: int
) -> Iterator[_Result]:
    """Yield a function's result for every item, in order; for functions that compute without Python's lock.

    Args:
        function: What is computed.
        items: What it is computed from; they are asked for a few ahead.
        threads: Number of threads; with one, everything is done when it is asked for.
    """
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from _ordered(pool, function, items, threads)


def in_processes(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    processes: int,
    start: Callable[..., None],
    arguments: tuple[Any, ...],
) -> Iterator[_Result]:
    """Yield a function's result for every item, in order, from processes that were started for it.

    Args:
        function: What is computed.
        items: What it is computed from.
        processes: Number of processes.
        start: Called first in every process.
        arguments: The arguments of `start`, which are pickled.
    """
    spawned = multiprocessing.get_context("spawn")  # threads of libraries do not survive a fork
    with ProcessPoolExecutor(
        processes, mp_context=spawned, initializer=start, initargs=arguments
    ) as pool:
        yield from _ordered(pool, function, items, 2 * processes)


def _ordered(
    pool: Executor,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    max_waiting: int,
) -> Iterator[_Result]:
    waiting: deque[Any] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > max_waiting:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
