"""Ctrl-C, SIGTERM and SIGHUP during training: the first waits for a checkpoint, the second stops at once.

A job scheduler sends SIGTERM before it kills a process, and a terminal that is closed sends SIGHUP. A run that
saves a checkpoint first loses no step on a device whose steps do not repeat bit for bit.

Public inside the package: `stop_requests`.

>>> with stop_requests() as asked_to_stop:
...     asked_to_stop()
False
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reldp import _signals

__all__ = ["stop_requests"]

# Signals that end a process, besides Ctrl-C; not every system has SIGHUP.
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Catch the first signal; yield a function that returns whether it has arrived.

    A caller that stops because of it raises KeyboardInterrupt. After SIGTERM or SIGHUP the signal is raised again
    on exit, for the previous handler: without one, the process ends by it. A signal that the process ignores,
    as SIGHUP under nohup, stays ignored. A signal that the command line has noted before (`reldp._signals`) counts
    as the first. Only the main thread receives signals; in other threads this does nothing.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    received = list(_signals.noted())  # its exception was dropped, or nobody would be here
    if received:
        asked.set()

    def ask(number: int, stack_frame: Any) -> None:
        received.append(number)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    numbers = [signal.SIGINT]
    numbers += [number for number in _ENDING if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield asked.is_set
    except KeyboardInterrupt:
        _restore(before)
        for number in received:
            if number in _ENDING:
                signal.raise_signal(number)
        raise
    finally:
        _restore(before)


def _restore(before: dict[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
