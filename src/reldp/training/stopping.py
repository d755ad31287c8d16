"""Ctrl-C and SIGTERM during training: the first waits for a checkpoint, the second stops at once.

A job scheduler sends SIGTERM before it kills a process. A run that saves a checkpoint first loses no
step on a device whose steps do not repeat bit for bit.

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

__all__ = ["stop_requests"]


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Catch the first signal; yield a function that returns whether it has arrived.

    A caller that stops because of it raises KeyboardInterrupt. After SIGTERM the signal is raised again
    on exit, for the previous handler: without one, the process ends by it. Only the main thread
    receives signals; in other threads this does nothing.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    received: list[int] = []

    def ask(number: int, stack_frame: Any) -> None:
        received.append(number)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    numbers = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) != signal.SIG_IGN:
        numbers.append(signal.SIGTERM)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield asked.is_set
    except KeyboardInterrupt:
        _restore(before)
        if signal.SIGTERM in received:
            signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        _restore(before)


def _restore(before: dict[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
