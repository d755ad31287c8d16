"""Progress of an audit: a moving display on a terminal, and a line every 30 seconds elsewhere.

The lines come from a thread, so that they also come in phases that report nothing: before the first steps, and while
an audit evaluates what its steps gave.

>>> words(("auditing its parts", 5, 10)), words(("auditing its parts", 10, 10)), words(None)
('auditing its parts: 5 of 10', 'auditing its parts: 10 of 10, evaluating them', 'preparing the audit')
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reldp._progress import is_on_terminal, show_line
from reldp.cli.progress import INTERVAL

if TYPE_CHECKING:
    from reldp.auditing.suite import Progress

__all__ = ["audit_progress", "words"]

_State = tuple[str, int, int]  # what is audited, steps done, all steps
_PREPARING, _EVALUATING = "preparing the audit", "evaluating them"


@contextmanager
def audit_progress() -> "Iterator[Progress]":
    """Yield the function that an audit calls as steps are done."""
    with _bars() if is_on_terminal() else _lines() as update:
        yield update


def words(state: _State | None) -> str:
    """Return how far an audit is; None for one that has taken no step."""
    if state is None:
        return _PREPARING
    stage, done, total = state
    return f"{stage}: {done:,} of {total:,}" + (f", {_EVALUATING}" if done >= total else "")


@contextmanager
def _lines() -> "Iterator[Progress]":
    state: _State | None = None
    ended = threading.Event()

    def update(stage: str, done: int, total: int) -> None:
        nonlocal state
        before = state[1] if state is not None and state[0] == stage else 0
        state = stage, before + done, total

    def show() -> None:
        while not ended.wait(INTERVAL):
            show_line(f"reldp: {words(state)}")

    watcher = threading.Thread(target=show, daemon=True)
    watcher.start()
    try:
        yield update
    finally:
        ended.set()
        watcher.join()


@contextmanager
def _bars() -> "Iterator[Progress]":
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        tasks, done_of = dict[str, Any](), dict[str, int]()
        moving = bar.add_task(_PREPARING, total=None)  # a bar without a total moves by itself

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], advance=done)
            done_of[stage] = done_of.get(stage, 0) + done
            bar.update(moving, visible=done_of[stage] >= total, description=_EVALUATING)

        yield update
