"""Ctrl-C and SIGTERM during training: the first waits for a checkpoint, the second stops at once.

Whoever schedules jobs sends SIGTERM before it kills: a run that saves a checkpoint first loses no
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
    """Let the first signal wait; yield a function that says whether it came.

    Whoever asks and then stops raises KeyboardInterrupt. After SIGTERM the signal is raised again on
    the way out, for the handler that was there before: without one, the process ends by it. Only the
    main thread receives signals; elsewhere nothing is changed.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    came: list[int] = []

    def ask(number: int, frame: Any) -> None:
        came.append(number)
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
        if signal.SIGTERM in came:
            signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        _restore(before)


def _restore(before: dict[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
