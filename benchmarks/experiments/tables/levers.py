"""Levers one by one and together, and whether the targets were reached."""

import statistics

from benchmarks import frontier
from benchmarks.cross_domain import COLUMNS
from benchmarks.experiments import tuning
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables import price
from benchmarks.experiments.tables.columns import (
    base_cells,
    kept_share,
    plain_cells,
    private_cells,
)
from benchmarks.experiments.tables.layout import (
    DASH,
    both,
    found,
    listed,
    mean,
    mrr,
    named,
    pair_of,
    paragraphs,
    percent,
    share,
    spread,
    table,
)

COLUMN = COLUMNS[0]
# What was aimed at: a share of the gain without privacy and an MRR at epsilon 4, and at
# epsilon 1 the published rule's score at epsilon 10.
TARGET_SHARE, TARGET_MRR = 0.9, 54.0
_JUDGE = tuning.VALIDATION
_PLAIN = "without privacy"


def alone(store: Store) -> str:
    """Every lever against the same start."""
    start = mrr(store, [frontier.lever_cell("start", s) for s in frontier.SEEDS], _JUDGE)
    if not start:
        return ""
    rows = [row for name in frontier.LEVERS if (row := _lever(store, name, start))]
    text = "## Levers\n\n" + paragraphs(
        f"""Settings that cost no privacy, or whose price the calibrated noise pays. Each alone, {named(COLUMN.train)}
        at epsilon 4, judged on {named(_JUDGE)}, where the start over seeds is {spread(start)}; a gain within that
        spread is no gain. Those that gained more are kept, the best of each kind. A warm start needs public
        relations and is never kept."""
    )
    header = ["lever", f"MRR, {named(_JUDGE)}", "gain", "noise multiplier", "kept"]
    return text + "\n\n" + table(header, rows)


def _lever(store: Store, name: str, start: list[float]) -> list[str]:
    cells = [frontier.lever_cell(name, seed) for seed in frontier.SEEDS]
    results = found(store, cells)
    if not results:
        return []
    own = mrr(store, cells, _JUDGE)
    return [
        name,
        spread(own),
        f"{statistics.mean(own) - statistics.mean(start):+.1f}",
        f"{results[0]['noise_multiplier']:.2f}",
        _is_kept(name),
    ]


def _is_kept(name: str) -> str:
    changes, kept = frontier.LEVERS[name], frontier.kept()
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in changes.items()}
    if not changes:
        return DASH
    return "yes" if all(kept.get(key) == value for key, value in plain.items()) else "no"


def together(store: Store) -> str:
    """What was kept, on the test graph, beside what it is measured against."""
    groups = _groups(store)
    if not groups or not frontier.kept():
        return ""
    base = mean(mrr(store, base_cells(COLUMN), COLUMN.test))
    plain = _mean(store, groups.get(_PLAIN, []))
    rows = []
    for label, cells in groups.items():
        own = _mean(store, cells) if cells[0].method == "private" else None
        noise = found(store, cells)[0]["noise_multiplier"]
        rows.append(
            [
                label,
                *both(found(store, cells), COLUMN.test),
                percent(share(own, base, plain)),
                f"{noise:.2f}" if noise else DASH,
                *price.columns(store, cells[0]),
            ]
        )
    kept = "; ".join(name for name in frontier.LEVERS if _is_kept(name) == "yes")
    text = "## Together\n\n" + paragraphs(
        f"""What was kept ({kept}), put together, on the test graph: {pair_of(COLUMN)}. The published rule and the run
        without privacy have the same batch and steps."""
    )
    header = ["training", "PREC@1", "MRR", "gain kept", "noise multiplier", *price.HEADER]
    return "\n\n".join([text, table(header, rows), _targets(store, groups, base, plain)]).rstrip()


def _groups(store: Store) -> dict[str, list[Cell]]:
    """Cells with results that differ in nothing but the seed, by what they are called."""
    groups: dict[str, list[Cell]] = {}
    for cell in frontier.frontier_cells():
        if store.get(cell):
            groups.setdefault(_label(cell), []).append(cell)
    return groups


def _label(cell: Cell) -> str:
    if cell.method != "private":
        return _PLAIN
    who = "ours" if cell.clipping == "tuple" else f"{cell.clipping}, as published"
    public = ", public negatives" if cell.pool else ""
    return f"{who}{public}, epsilon {cell.epsilon:g}"


def _mean(store: Store, cells: list[Cell]) -> float | None:
    return mean(mrr(store, cells, COLUMN.test))


def _targets(
    store: Store, groups: dict[str, list[Cell]], base: float | None, plain: float | None
) -> str:
    """Whether the aims were reached, in words."""
    four, one, theirs = (
        _mean(store, groups.get(label, []))
        for label in ("ours, epsilon 4", "ours, epsilon 1", "frequency, as published, epsilon 10")
    )
    lines = []
    kept = share(four, base, plain)
    if four is not None:
        gone = "nothing was gained"
        if kept is not None:
            gone = (
                f"{100 * kept:.1f} %, {_verdict(100 * (kept - TARGET_SHARE), 'percentage points')}"
            )
        lines.append(
            f"* **Epsilon 4.** Aim: {percent(TARGET_SHARE)} of the gain without privacy, and MRR {TARGET_MRR:g}. "
            f"Kept: {gone}. MRR: {four:.1f}, {_verdict(four - TARGET_MRR, 'points')}."
        )
    if one is not None and theirs is not None:
        lines.append(
            f"* **Epsilon 1.** Aim: what the published rule reaches at (claimed) epsilon 10 with the same batch "
            f"and steps, {theirs:.1f}. MRR: {one:.1f}, {_verdict(one - theirs, 'points')}."
        )
    if limit := _limit(store):
        lines.append(limit)
    return "\n".join(lines)


def _verdict(distance: float, unit: str) -> str:
    if distance >= 0:
        return f"**reached**, {distance:.1f} {unit} above"
    return f"**missed** by {-distance:.1f} {unit}"


def _limit(store: Store) -> str:
    """Where the points go that privacy costs, by the rows of the first table."""
    plain = _mean(store, plain_cells(COLUMN))
    ours = {e: _mean(store, private_cells(COLUMN, "tuple", e)) for e in (10.0, 4.0)}
    public = _mean(store, private_cells(COLUMN, "public", 4.0))
    ten, four = ours[10.0], ours[4.0]
    if plain is None or ten is None or four is None or plain <= four:
        return ""
    parts = [f"{ten - four:+.1f} at epsilon 10"]
    if public is not None:
        parts.append(f"{public - four:+.1f} with public negatives")
    shares = percent(kept_share(store, COLUMN, private_cells(COLUMN, "tuple", 4.0)))
    return (
        f"* **Where the rest goes.** With the settings of the first table, epsilon 4 is {plain - four:.1f} points "
        f"below training without privacy ({shares} kept). Of these come back: {listed(parts)}."
    )
