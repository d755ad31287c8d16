"""Ctrl-C during training: the first waits for the end of a step, the second stops at once.

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
    """Let the first Ctrl-C wait; yield a function that says whether it came.

    Only the main thread receives signals; elsewhere nothing is changed.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
