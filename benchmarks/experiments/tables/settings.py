"""Tuning of learning rate and clip norm, and ablations of all settings."""

from typing import Any

from benchmarks import ablations
from benchmarks.experiments import tuning
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.cost_columns import method
from benchmarks.experiments.tables.layout import (
    DASH,
    encoder_of,
    mrr,
    named,
    pair_of,
    paragraphs,
    results_of,
    scores,
    spread,
    table,
)


def tuned(store: Store) -> str:
    """Return the grid of every rule; the chosen settings are bold."""
    grid = tuning.cells()
    cells = [cell for cell in grid if store.get(cell)]
    if not cells:
        return ""
    missing = len(grid) - len(cells)
    left = f"{missing} runs of the grid are missing. " if missing else ""
    validation = named(tuning.VALIDATION)
    text = "## Tuning\n\n" + paragraphs(
        f"""{len(cells)} runs, one seed each: {named(cells[0].train)} at epsilon 4, evaluated on {validation},
        with the same grid for every rule. The best settings of each rule (bold) are used in all tables, for every
        graph, encoder, target and seed. {left}No epsilon on this page covers these runs."""
    )
    rows = [_grid_line(store, cell) for cell in cells]
    return text + "\n\n" + table(["rule", "learning rate", "clip norm", f"MRR, {validation}"], rows)


def _grid_line(store: Store, cell: Cell) -> list[str]:
    private = cell.method == "private"
    chosen = tuning.tuned(cell.clipping if private else "nonprivate")
    settings = {"learning_rate": cell.learning_rate, "clip_norm": cell.clip_norm}
    score = spread(mrr(store, [cell], tuning.VALIDATION))
    return [
        method(cell),
        f"{cell.learning_rate:g}",
        f"{cell.clip_norm:g}" if private else DASH,
        f"**{score}**" if settings == chosen else score,
    ]


def ablated(store: Store) -> str:
    """Return a table for every ablated setting, and their figure."""
    tables = [text for axis in ablations.AXES if (text := _axis(store, axis))]
    if not tables:
        return ""
    column = ablations.COLUMN
    text = paragraphs(
        f"""One setting at a time: {pair_of(column)}, {encoder_of(column)}, tuple rule, our analysis, epsilon 4
        unless the noise multiplier is varied."""
    )
    figure = "![MRR against one setting at a time](figures/ablations.svg)"
    return "\n\n".join(["## Ablations", text, figure, *tables])


def _axis(store: Store, axis: ablations.Axis) -> str:
    rows = []
    for value in axis.values:
        cells = [ablations.axis_cell(axis, value, seed) for seed in ablations.SEEDS]
        if results := results_of(store, cells):
            rows.append([f"{value:g}", *_point(results)])
    header = [axis.label, "MRR", "noise multiplier", "epsilon"]
    return table(header, rows) if rows else ""


def _point(results: list[dict[str, Any]]) -> list[str]:
    first = results[0]
    return [
        spread(scores(results, ablations.COLUMN.test)),
        f"{first['noise_multiplier']:.2f}",
        f"{first['epsilon']:.2f}",
    ]
