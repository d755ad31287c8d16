"""How settings were chosen, and what each of them does."""

from typing import Any

from benchmarks import ablations
from benchmarks.experiments import tuning
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.layout import (
    DASH,
    encoder_of,
    found,
    mrr,
    named,
    pair_of,
    paragraphs,
    scores,
    spread,
    table,
)
from benchmarks.experiments.tables.price import method


def tuned(store: Store) -> str:
    """The grid of every rule; what was chosen is bold."""
    grid = tuning.cells()
    cells = [cell for cell in grid if store.get(cell)]
    if not cells:
        return ""
    missing = len(grid) - len(cells)
    left = f"Of the grid, {missing} runs are missing. " if missing else ""
    judge = named(tuning.VALIDATION)
    text = "## Tuning\n\n" + paragraphs(
        f"""{len(cells)} runs, one seed each: {named(cells[0].train)} at epsilon 4, judged on {judge}, the same grid
        for every rule. The best of each rule (bold) is used in all tables, for every graph, encoder, target and
        seed. {left}These runs are not counted in any epsilon of this page."""
    )
    rows = [_grid_line(store, cell) for cell in cells]
    return text + "\n\n" + table(["rule", "learning rate", "clip norm", f"MRR, {judge}"], rows)


def _grid_line(store: Store, cell: Cell) -> list[str]:
    private = cell.method == "private"
    chosen = tuning.tuned(cell.clipping if private else "nonprivate")
    own = {"learning_rate": cell.learning_rate, "clip_norm": cell.clip_norm}
    score = spread(mrr(store, [cell], tuning.VALIDATION))
    return [
        method(cell),
        f"{cell.learning_rate:g}",
        f"{cell.clip_norm:g}" if private else DASH,
        f"**{score}**" if own == chosen else score,
    ]


def ablated(store: Store) -> str:
    """Every axis of the ablations as a table, under their figure."""
    tables = [text for axis in ablations.AXES if (text := _axis(store, axis))]
    if not tables:
        return ""
    column = ablations.COLUMN
    text = paragraphs(
        f"""One setting at a time: {pair_of(column)}, {encoder_of(column)}, tuple rule, our analysis, epsilon 4
        unless noise is what varies."""
    )
    figure = "![MRR against one setting at a time](figures/ablations.svg)"
    return "\n\n".join(["## Ablations", text, figure, *tables])


def _axis(store: Store, axis: ablations.Axis) -> str:
    rows = []
    for value in axis.values:
        cells = [ablations.axis_cell(axis, value, seed) for seed in ablations.SEEDS]
        if results := found(store, cells):
            rows.append([f"{value:g}", *_point(results)])
    header = [axis.label, "MRR", "its noise multiplier", "epsilon"]
    return table(header, rows) if rows else ""


def _point(results: list[dict[str, Any]]) -> list[str]:
    first = results[0]
    return [
        spread(scores(results, ablations.COLUMN.test)),
        f"{first['noise_multiplier']:.2f}",
        f"{first['epsilon']:.2f}",
    ]
