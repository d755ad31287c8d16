"""Folders that cases copy and damage: graphs, a store, a complete run, its bundle, and a run that was stopped."""

import os
import signal
from pathlib import Path

from tests.fuzz.soak_child import make_budget, prepare, start
from tests.training.small import small_graph

PLACE = Path("nowhere")
"""Where they are; set by `make`."""


def make(place: Path) -> None:
    """Write all of them; each by a process of its own, because threads of libraries do not survive a fork."""
    global PLACE
    PLACE = place
    os.environ["RELDP_STATE_DIR"] = str(place / "state")
    process = os.fork()
    if not process:
        code = 1
        try:
            _write(place)
            code = 0
        finally:
            os._exit(code)
    _expect(process, 0)
    prepare(place)
    for name, disturbance, code in (
        ("run", None, 0),
        ("half", ("training", 40, signal.SIGTERM), 143),
    ):
        make_budget(place, name)
        process, pipe = start(place, name, disturbance=disturbance)
        _expect(process, code)
        os.close(pipe)


def _write(place: Path) -> None:
    from reldp.graph.store import build_store

    graph = small_graph()
    for kind in ("parquet", "arrow"):
        graph.write(place / kind, format=kind)
    build_store(place / "parquet", place / "store")


def _expect(process: int, code: int) -> None:
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != code:
        raise SystemExit(f"a template could not be made: {os.waitstatus_to_exitcode(status)}")
