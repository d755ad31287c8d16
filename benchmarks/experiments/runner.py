"""Many cells in worker processes, until a deadline; what has a result is not run again.

Small models leave a large GPU idle, so several workers share it. A cell is handed out only if it is
expected to end in time, by the speed of the cells before it; results are appended to a file as
they come, so that nothing is lost when the time is up.
"""

import json
import multiprocessing
import os
import queue
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.training import Laboratory, Place

_FIXED_SECONDS = 8.0  # loading and evaluation


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How cells are run.

    Attributes:
        workers: Processes; 1 runs in this process. Large cells count as several.
        seconds: No cell is started that would not end by then.
        output: File that results are appended to.
        command: What was typed, for the results.
    """

    workers: int
    seconds: float
    output: Path
    command: str


def run_cells(cells: Iterable[Cell], place: Place, settings: RunSettings) -> int:
    """Run cells in order; return how many failed."""
    todo = list(cells)
    deadline = time.monotonic() + settings.seconds
    log = _Log(settings, len(todo), deadline)
    if settings.workers == 1:
        laboratory = Laboratory(place)
        for cell in todo:
            if log.fits(cell):
                log.take(_attempt(laboratory, cell))
        return log.failed
    _run_in_workers(todo, place, settings, log)
    return log.failed


class _Log:
    """Writes results down and learns how fast cells are."""

    def __init__(self, settings: RunSettings, total: int, deadline: float) -> None:
        self.settings, self.total, self.deadline = settings, total, deadline
        self.done = self.failed = self.skipped = 0
        self._pace = 0.0  # seconds per row of the forward, the slowest so far
        settings.output.parent.mkdir(parents=True, exist_ok=True)

    def fits(self, cell: Cell) -> bool:
        expected = _FIXED_SECONDS + self._pace * cell.work
        inside = time.monotonic() + expected < self.deadline
        if not inside:
            self.skipped += 1
        return inside

    def take(self, result: dict[str, Any]) -> None:
        cell = Cell.from_dict(result["cell"])
        self.done += 1
        if "error" in result:
            self.failed += 1
            print(f"FAILED {cell.name}\n{result['error']}", file=sys.stderr, flush=True)
            return
        if cell.work:
            pace = max(result["seconds"] - 2.0, 0.0) / cell.work
            self._pace = max(self._pace * 0.9, pace)
        line = {**result, "workers": self.settings.workers, "command": self.settings.command}
        with self.settings.output.open("a") as file:
            file.write(json.dumps(line, sort_keys=True) + "\n")
        shown = ", ".join(f"{n} {100 * e['mrr']:.1f}" for n, e in result["evaluations"].items())
        left = self.deadline - time.monotonic()
        print(
            f"{self.done}/{self.total} {cell.name}: MRR {shown}; {result['seconds']:.0f} s, "
            f"{1000 * result.get('seconds_per_step', 0):.0f} ms/step, {left:.0f} s left",
            flush=True,
        )


def _attempt(laboratory: Laboratory, cell: Cell) -> dict[str, Any]:
    """Return the cell's result, or what went wrong."""
    try:
        return laboratory.run(cell)
    except Exception:
        return {"cell": cell.to_dict(), "error": traceback.format_exc()}


def _work(place: Place, tasks: Any, results: Any) -> None:
    """Run cells from a queue and put their results on another, until there are none."""
    import torch

    torch.set_num_threads(1)
    laboratory = Laboratory(place)
    while (values := tasks.get()) is not None:
        results.put(_attempt(laboratory, Cell.from_dict(values)))


def _run_in_workers(todo: list[Cell], place: Place, settings: RunSettings, log: _Log) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    count = min(settings.workers, len(todo))
    workers = [
        context.Process(target=_work, args=(place, tasks, results), daemon=True)
        for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    waiting, failed = list(todo), set[str]()
    running: dict[str, Cell] = {}
    while waiting or running:
        while (cell := _next(waiting, list(running.values()), settings.workers)) is not None:
            if log.fits(cell):
                tasks.put(cell.to_dict())
                running[cell.id] = cell
        try:
            result = results.get(timeout=1.0)
        except queue.Empty:
            if time.monotonic() > log.deadline or not any(w.is_alive() for w in workers):
                break
            continue
        cell = running.pop(Cell.from_dict(result["cell"]).id)
        log.take(result)
        if "error" in result and cell.id not in failed:
            failed.add(cell.id)
            waiting.append(cell)  # once more, when others have left room
    for worker in workers:
        worker.terminate()
    if log.skipped or running:
        late = len(running)
        print(f"out of time: {log.skipped} cells not started, {late} not finished", flush=True)


def _next(waiting: list[Cell], running: list[Cell], slots: int) -> Cell | None:
    """Take the first cell if there is room for it, or if nothing runs."""
    room = slots - sum(cell.slots for cell in running)
    if waiting and (waiting[0].slots <= room or not running):
        return waiting.pop(0)
    return None
