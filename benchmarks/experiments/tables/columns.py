"""One section per training graph, test graph and encoder: every row with its scores and its cost."""

from benchmarks import cross_domain
from benchmarks.cross_domain import ALL, ROWS, Column
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables import cost_columns
from benchmarks.experiments.tables.layout import (
    DASH,
    both,
    encoder_of,
    mean,
    mrr,
    pair_of,
    percent,
    precision_of,
    results_of,
    share,
    table,
)

EPSILONS = tuple(sorted(ALL, reverse=True))


def title(column: Column) -> str:
    """Return the heading of a column's section."""
    return f"{pair_of(column)}, {encoder_of(column)}"


def base_cells(column: Column) -> list[Cell]:
    """Return the cell of the pretrained model."""
    return [column.start]


def plain_cells(column: Column, max_degree: int = 5) -> list[Cell]:
    """Return training without privacy, one cell per seed."""
    return [cross_domain.nonprivate(column, max_degree, seed) for seed in column.seeds]


def private_cells(column: Column, key: str, epsilon: float) -> list[Cell]:
    """Return a row at an epsilon, one cell per seed; none if the column does not have it."""
    if epsilon not in column.targets.get(key, ()):
        return []
    return [cross_domain.private(column, key, epsilon, seed) for seed in column.seeds]


def retained_share(store: Store, column: Column, cells: list[Cell]) -> float | None:
    """Return the share of the gain without privacy (capped) that cells retain."""
    base, plain, values = (
        mean(mrr(store, group, column.test))
        for group in (base_cells(column), plain_cells(column), cells)
    )
    return share(values, base, plain)


def section(store: Store, column: Column) -> str:
    """Return a column's table."""
    rows = [_row(store, column, label, DASH, cells) for label, cells in _without_guarantee(column)]
    rows += [
        _row(store, column, ROWS[key].label, f"{epsilon:g}", cells)
        for epsilon in EPSILONS
        for key in column.targets
        if (cells := private_cells(column, key, epsilon))
    ]
    header = ["training", "epsilon", "PREC@1", "MRR", "gain retained", "noise multiplier"]
    kind = f"Precision: {precision_of(column.start)}."
    return "\n\n".join([f"## {title(column)}", kind, table([*header, *cost_columns.HEADER], rows)])


def _without_guarantee(column: Column) -> list[tuple[str, list[Cell]]]:
    """Return the rows without a privacy guarantee."""
    rows = [
        ("the pretrained model", base_cells(column)),
        ("without privacy, degrees capped at 5", plain_cells(column)),
    ]
    if column.uncapped:
        rows.append(("without privacy, all relations", plain_cells(column, 0)))
    if column.noise_only:
        noise = [cross_domain.noise_only(column, seed) for seed in column.seeds]
        rows.append(("noise only: that of epsilon 4, with zero gradients", noise))
    return rows


def _row(store: Store, column: Column, label: str, epsilon: str, cells: list[Cell]) -> list[str]:
    results = results_of(store, cells)
    noise = results[0]["noise_multiplier"] if results else None
    selected = retained_share(store, column, cells) if cells[0].method == "private" else None
    return [
        label,
        epsilon,
        *both(results, column.test),
        percent(selected),
        f"{noise:.2f}" if noise else DASH,
        *cost_columns.columns(store, cells[0]),
    ]


def tried(store: Store) -> str:
    """Return pairs for which training without privacy does not help."""
    rows = []
    for column in cross_domain.TRIED:
        base = results_of(store, base_cells(column))
        trained = results_of(store, plain_cells(column))
        if base and trained:
            scores = [" / ".join(both(values, column.test)) for values in (base, trained)]
            gain = mrr(store, plain_cells(column), column.test)
            change = (mean(gain) or 0.0) - mrr(store, base_cells(column), column.test)[0]
            rows.append([pair_of(column), encoder_of(column), *scores, f"{change:+.1f}"])
    if not rows:
        return ""
    text = """## Also tried

Pairs for which training without privacy helps little or not at all, so that they do not show the cost of privacy.
They are reported here and left out of the tables above."""
    header = ["pair", "encoder", "pretrained, PREC@1 / MRR", "without privacy", "change in MRR"]
    return text + "\n\n" + table(header, rows)
