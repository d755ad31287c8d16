"""Results as committed JSON: one file per training graph and encoder, one line per cell.

A run appends lines to a separate file; `Store.merge` adds them. A cell has one result: the first
one stays, unless `replace` is given.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell

RESULTS = Path(__file__).resolve().parents[1] / "results"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the results that a run appended; an incomplete last line is skipped."""
    if not path.is_file():
        return []
    results = []
    for line in path.read_text().splitlines():
        try:
            results.append(json.loads(line))
        except ValueError:
            continue
    return results


class Store:
    """Results by cell."""

    def __init__(self, folder: Path = RESULTS / "cells") -> None:
        self.folder = folder
        self.results: dict[str, dict[str, Any]] = {}
        for path in sorted(folder.glob("*.json")):
            self.results |= {result["id"]: result for result in json.loads(path.read_text())}

    def merge(self, results: Iterable[dict[str, Any]], *, replace: bool = False) -> int:
        """Add results and write the files; return how many were added.

        Args:
            results: Results of a run.
            replace: Whether they replace earlier results of the same cells.
        """
        complete = {r["id"]: r for r in results if "evaluations" in r}
        new = {key: r for key, r in complete.items() if replace or key not in self.results}
        self.results |= new
        self._write({_file_of(result) for result in new.values()})
        return len(new)

    def get(self, cell: Cell) -> dict[str, Any] | None:
        """Return the result of a cell, or None."""
        return self.results.get(cell.id)

    def _write(self, names: set[str]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(names):
            results = [r for r in self.results.values() if _file_of(r) == name]
            lines = [json.dumps(result, sort_keys=True) for result in sorted(results, key=_order)]
            (self.folder / name).write_text("[\n" + ",\n".join(lines) + "\n]\n")


def _order(result: dict[str, Any]) -> tuple[str, str]:
    return result["cell"]["method"], result["id"]


def _file_of(result: dict[str, Any]) -> str:
    cell = result["cell"]
    return f"{cell['train']}.{cell['encoder']}-{cell['pooling']}.json"
