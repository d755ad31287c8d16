"""Work on files of others that must end: it runs beside a watch of processor time and memory.

A configuration of a few bytes, or a regular expression, can ask for hours inside of a library, where no signal is
heard. So the work runs in a thread of its own. Whoever waits for it hears signals, and gives up when it has used too
much. What nobody waits for ends as soon as it returns to Python, and with the process otherwise.

A thread cannot import a module while another one holds Python's lock for imports. A signal can leave that lock with the
main thread for good; then the work runs where it is asked for.

Private to the package: `within_bounds`.

>>> within_bounds(lambda: 6 * 7, seconds=10.0, refusal=ValueError("too slow"))
42
"""

import _imp
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import ClassVar, TypeVar

from reldp import _signals

__all__ = ["within_bounds"]

_Result = TypeVar("_Result")
_POLL = 0.05  # seconds


class _GivenUp(BaseException):
    """Ends work that nobody waits for."""


def within_bounds(
    work: Callable[[], _Result],
    *,
    seconds: float,
    refusal: Exception,
    memory: float = float("inf"),
) -> _Result:
    """Return what work returns, or raise what it raises.

    Args:
        work: What is done, without state of the calling thread but context variables.
        seconds: Time that it may take at most, by the clock and by the processor: a busy machine is no fault of it.
        refusal: What is raised when it takes more.
        memory: Bytes by which it may raise the most memory that the process has used.
    """
    _stop_if_noted()
    if _imp.lock_held():
        return work()
    results: list[_Result] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    began, used, highest = time.monotonic(), time.process_time(), _max_memory()
    worker = _Worker.waiting()
    worker.jobs.put(partial(copy_context().run, run))
    try:
        is_waiting = True
        while is_waiting:
            is_waiting = not ended.wait(_POLL)
            _stop_if_noted()
            took = min(time.monotonic() - began, time.process_time() - used)
            if took > seconds or _max_memory() - highest > memory:
                raise refusal
    finally:
        worker.release(is_done=ended.is_set())
    if errors:
        raise errors[0]
    return results[0]


class _Worker(threading.Thread):
    """A thread that does one job after the other, since a new one for each would cost a millisecond."""

    _waiting: ClassVar[list["_Worker"]] = []
    _process: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._is_left = False

    @classmethod
    def waiting(cls) -> "_Worker":
        """Return a thread that has nothing to do: a copy of the process has none of its threads."""
        if cls._process != os.getpid():
            cls._waiting, cls._process = [], os.getpid()
        try:
            return cls._waiting.pop()
        except IndexError:
            worker = cls()
            worker.start()
            return worker

    def run(self) -> None:
        """Do jobs until one is left to itself."""
        with suppress(_GivenUp):
            while not self._is_left:
                self.jobs.get()()

    def release(self, *, is_done: bool) -> None:
        """Let the thread wait for the next job, or end at its next step in Python."""
        if is_done:
            self._waiting.append(self)
            return
        self._is_left = True
        if self.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self.ident), ctypes.py_object(_GivenUp)
            )
        self.jobs.put(int)  # it may wait for a job already, and would wait for good


def _stop_if_noted() -> None:
    """End like Ctrl-C if a signal has asked for it whose exception was dropped on its way."""
    if _signals.noted() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _max_memory() -> int:
    """Return the most bytes that this process has used; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # on Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
