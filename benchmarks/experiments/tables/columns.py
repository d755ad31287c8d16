"""One section per training graph, test graph and encoder: every row with its score and its cost."""

from benchmarks import cross_domain
from benchmarks.cross_domain import ALL, ROWS, Column
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables import price
from benchmarks.experiments.tables.layout import (
    DASH,
    both,
    encoder_of,
    found,
    mean,
    mrr,
    numbers,
    pair_of,
    percent,
    share,
    table,
)

EPSILONS = tuple(sorted(ALL, reverse=True))


def title(column: Column) -> str:
    """The heading of a column's section."""
    return f"{pair_of(column)}, {encoder_of(column)}"


def base_cells(column: Column) -> list[Cell]:
    """The model as it is."""
    return [column.start]


def plain_cells(column: Column, max_degree: int = 5) -> list[Cell]:
    """Trained without privacy, one cell per seed."""
    return [cross_domain.nonprivate(column, max_degree, seed) for seed in column.seeds]


def private_cells(column: Column, key: str, epsilon: float) -> list[Cell]:
    """A row at an epsilon, one cell per seed; none if the column does not have it."""
    if epsilon not in column.targets.get(key, ()):
        return []
    return [cross_domain.private(column, key, epsilon, seed) for seed in column.seeds]


def kept_share(store: Store, column: Column, cells: list[Cell]) -> float | None:
    """The share of the gain without privacy (capped) that cells keep."""
    base, plain, own = (
        mean(mrr(store, group, column.test))
        for group in (base_cells(column), plain_cells(column), cells)
    )
    return share(own, base, plain)


def section(store: Store, column: Column) -> str:
    """A column's table."""
    rows = [_row(store, column, label, DASH, cells) for label, cells in _unpromised(column)]
    rows += [
        _row(store, column, ROWS[key].label, f"{epsilon:g}", cells)
        for epsilon in EPSILONS
        for key in column.targets
        if (cells := private_cells(column, key, epsilon))
    ]
    header = ["training", "epsilon", "PREC@1", "MRR", "gain kept", "noise multiplier"]
    kind = f"Activations: {numbers(column.start)}."
    return "\n\n".join([f"## {title(column)}", kind, table([*header, *price.HEADER], rows)])


def _unpromised(column: Column) -> list[tuple[str, list[Cell]]]:
    """The rows that promise nothing."""
    rows = [
        ("the model as it is", base_cells(column)),
        ("without privacy, degrees capped at 5", plain_cells(column)),
    ]
    if column.uncapped:
        rows.append(("without privacy, all relations", plain_cells(column, 0)))
    if column.noise_only:
        noise = [cross_domain.noise_only(column, seed) for seed in column.seeds]
        rows.append(("the noise of epsilon 4 on no gradient", noise))
    return rows


def _row(store: Store, column: Column, label: str, epsilon: str, cells: list[Cell]) -> list[str]:
    results = found(store, cells)
    noise = results[0]["noise_multiplier"] if results else None
    kept = kept_share(store, column, cells) if cells[0].method == "private" else None
    return [
        label,
        epsilon,
        *both(results, column.test),
        percent(kept),
        f"{noise:.2f}" if noise else DASH,
        *price.columns(store, cells[0]),
    ]


def tried(store: Store) -> str:
    """Pairs that show nothing about privacy, because training does not help there."""
    rows = []
    for column in cross_domain.TRIED:
        base = found(store, base_cells(column))
        trained = found(store, plain_cells(column))
        if base and trained:
            scores = [" / ".join(both(own, column.test)) for own in (base, trained)]
            gain = mrr(store, plain_cells(column), column.test)
            change = (mean(gain) or 0.0) - mrr(store, base_cells(column), column.test)[0]
            rows.append([pair_of(column), encoder_of(column), *scores, f"{change:+.1f}"])
    if not rows:
        return ""
    text = """## Also tried

Pairs where training without privacy does not help, or hardly: what privacy costs cannot be seen there. They are
reported, not hidden, and left out of the tables above."""
    header = ["pair", "encoder", "as it is, PREC@1 / MRR", "without privacy", "change in MRR"]
    return text + "\n\n" + table(header, rows)
