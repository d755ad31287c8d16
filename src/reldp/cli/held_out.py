"""Results of ``reldp train --holdout`` for people: relation prediction among held-out entities, before and after.

Sensitive: printed for the owner of the graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.table import Table

from reldp.cli.output import print_table, visible_console

__all__ = ["show_held_out"]

_NOTE = (
    "relations between held-out entities, predicted among {candidates} candidates. Sensitive: computed without noise. "
    "Choosing by these numbers spends privacy of the held-out entities, which no epsilon counts."
)


def show_held_out(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the table.

    Args:
        results: Lines of evaluations.jsonl under ``"after"`` and, if it was measured, ``"before"``.
    """
    before, after = results.get("before"), results["after"]
    columns = ["after"] if before is None else ["before", "after", "gain"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("metric (percent)", *columns):
        table.add_column(header, justify="left" if header.startswith("metric") else "right")
    for metric, interval in after["intervals"].items():
        cells = [_estimate([after[metric], *interval])]
        if before is not None:
            cells.insert(0, _estimate([before[metric], *before["intervals"][metric]]))
            cells.append(_estimate(after["gain"][metric], sign="+"))
        table.add_row(metric, *cells)
    count = f"{after['num_relations']:,}"
    parts = table, f"{count} {_NOTE.format(candidates=after['candidates'])}"
    console = visible_console()
    if console.is_terminal:
        print_table(*parts)
        return
    with console.capture() as capture:  # marked line by line, so that a log can be cleaned
        for part in parts:
            console.print(part)
    for line in capture.get().splitlines():
        click.echo(f"reldp: (sensitive) {line.rstrip()}")


def _estimate(numbers: Sequence[float], sign: str = "") -> str:
    """Return an estimate and the ends of its interval in percent."""
    value, low, high = numbers
    return f"{100 * value:{sign}.1f} [{100 * low:{sign}.1f}, {100 * high:{sign}.1f}]"
