"""Figures of docs/benchmarks.md, from the store: the same results give the same files.

`ablations.svg` shows MRR against one setting at a time, `frontier.svg` MRR against epsilon for every
rule of the first column. Colors are those of Okabe and Ito, which color-blind readers can tell
apart; every line also has a different marker. Bars and bands are standard deviations over seeds.
"""

import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import ablations, frontier
from benchmarks.cross_domain import COLUMNS, ROWS, Column
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.columns import (
    EPSILONS,
    base_cells,
    plain_cells,
    private_cells,
)
from benchmarks.experiments.tables.layout import encoder_of, mrr, pair_of, results_of, scores

_BLUE, _GRAY = "#0072B2", "#555555"
_LOOKS = {  # color and marker
    "tuple": (_BLUE, "o"),
    "frequency": ("#D55E00", "s"),
    "tuple-paper": ("#56B4E9", "^"),
    "pair": ("#CC79A7", "v"),
    "public": ("#009E73", "D"),
    "unprotected": ("#E69F00", "P"),
}
_TOGETHER = ("#000000", "*")
_WIDTH = 9.0  # inches; 900 pixels on a page


@dataclass(frozen=True)
class Level:
    """A reference line: its name, mean, spread and dashes."""

    name: str
    mean: float
    spread: float
    dashes: str


@dataclass(frozen=True)
class Line:
    """A rule's scores at some epsilons, and how it is drawn."""

    label: str
    look: tuple[str, str]
    points: dict[float, list[float]]


def write_figures(store: Store, folder: Path, suffix: str = "svg") -> None:
    """Write every figure that has results, and delete the others."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {axis: points for axis in ablations.AXES if (points := axis_points(store, axis))}
    path = folder / f"ablations.{suffix}"
    if drawn:
        _save(_ablations(drawn, levels(store, ablations.COLUMN)), path)
    else:
        path.unlink(missing_ok=True)
    path = folder / f"frontier.{suffix}"
    if lines := frontier_lines(store):
        _save(_frontier(lines, levels(store, COLUMNS[0])), path)
    else:
        path.unlink(missing_ok=True)


def axis_points(store: Store, axis: ablations.Axis) -> list[tuple[float, list[float], float]]:
    """Return value, MRR of every seed, and epsilon, for every value of an axis."""
    points = []
    for value in axis.values:
        cells = [ablations.axis_cell(axis, value, seed) for seed in ablations.SEEDS]
        if results := results_of(store, cells):
            values = scores(results, ablations.COLUMN.test)
            points.append((float(value), values, float(results[0]["epsilon"])))
    return points


def frontier_lines(store: Store) -> list[Line]:
    """Return every rule of the first column, and the selected configuration."""
    column = COLUMNS[0]
    lines = [
        Line(
            ROWS[key].label.strip("*"),
            _LOOKS.get(key, (_GRAY, "X")),
            _known({e: private_cells(column, key, e) for e in EPSILONS}, store, column),
        )
        for key in column.targets
    ]
    chosen = [c for c in frontier.frontier_cells() if c.clipping == "tuple" and not c.pool]
    together = {e: [c for c in chosen if c.epsilon == e] for e in EPSILONS}
    label = "tuple, our analysis, selected configuration"
    lines.append(Line(label, _TOGETHER, _known(together, store, column)))
    return [line for line in lines if line.points]


def _known(
    cells: dict[float, list[Cell]], store: Store, column: Column
) -> dict[float, list[float]]:
    return {e: values for e, group in cells.items() if (values := mrr(store, group, column.test))}


def levels(store: Store, column: Column) -> list[Level]:
    """Return the levels of the pretrained model and of training without privacy."""
    groups = (
        ("the pretrained model", base_cells(column), "--"),
        ("without privacy, degrees capped at 5", plain_cells(column), ":"),
    )
    return [
        Level(name, statistics.mean(values), _deviation(values), dashes)
        for name, cells, dashes in groups
        if (values := mrr(store, cells, column.test))
    ]


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _pyplot() -> Any:
    """pyplot, set up so that the same results give the same bytes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams.update({"svg.hashsalt": "reldp", "font.size": 10, "legend.fontsize": 9})
    return plt


def _save(figure: Any, path: Path) -> None:
    metadata = {"Date": None} if path.suffix == ".svg" else {}
    figure.savefig(path, metadata=metadata, dpi=100)
    _pyplot().close(figure)


def _ablations(drawn: dict[ablations.Axis, Any], lines: list[Level]) -> Any:
    across = min(3, len(drawn))
    down = -(-len(drawn) // across)
    figure, axes = _pyplot().subplots(
        down, across, figsize=(_WIDTH, 2.7 * down + 0.6), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for place, (axis, points) in zip(axes.flat, drawn.items(), strict=False):
        _reference(place, lines)
        _panel(place, axis, points)
    for place in list(axes.flat)[len(drawn) :]:
        place.set_visible(False)
    for place in axes[:, 0]:
        place.set_ylabel("MRR (%)")
    column = ablations.COLUMN
    figure.suptitle(_title(column), fontsize=10)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _title(column: Column) -> str:
    return f"{pair_of(column)}, {encoder_of(column)} (bars: standard deviation over seeds)"


def _reference(place: Any, lines: Iterable[Level]) -> None:
    for line in lines:
        if line.spread:
            low, high = line.mean - line.spread, line.mean + line.spread
            place.axhspan(low, high, color=_GRAY, alpha=0.12, linewidth=0)
        place.axhline(line.mean, color=_GRAY, linewidth=1.2, linestyle=line.dashes, label=line.name)


def _panel(place: Any, axis: ablations.Axis, points: Any) -> None:
    values = [value for value, _, _ in points]
    means = [statistics.mean(values) for _, values, _ in points]
    errors = [_deviation(values) for _, values, _ in points]
    label = "tuple, our analysis (epsilon 4 unless written at the point)"
    place.errorbar(
        values, means, yerr=errors, marker="o", markersize=5, color=_BLUE, capsize=3,
        linewidth=1.4, label=label,
    )  # fmt: skip
    if axis.field == "noise":
        _write_epsilons(place, values, means, errors, [epsilon for _, _, epsilon in points])
    place.set_xscale("log")
    place.set_xticks(values, [f"{value:g}" for value in values])
    place.minorticks_off()
    place.margins(x=0.24, y=0.12)
    place.grid(axis="y", linewidth=0.4, alpha=0.5)
    place.set_xlabel(axis.label)


def _write_epsilons(
    place: Any, values: list[float], means: list[float], errors: list[float], epsilons: list[float]
) -> None:
    """Above and below by turns, so that neighbors do not touch."""
    for number, (value, epsilon) in enumerate(zip(values, epsilons, strict=True)):
        side = -1 if number % 2 else 1
        place.annotate(
            f"ε = {_short(epsilon)}", (value, means[number] + side * errors[number]),
            (0, 5 * side), textcoords="offset points", ha="center",
            va="bottom" if side > 0 else "top", fontsize=8,
            bbox={"color": "white", "alpha": 0.7, "pad": 0.5},
        )  # fmt: skip


def _short(epsilon: float) -> str:
    if epsilon >= 10_000:
        digit, power = f"{epsilon:.0e}".split("e")
        return rf"${digit} \cdot 10^{{{int(power)}}}$"
    return f"{epsilon:,.0f}" if epsilon >= 10 else f"{epsilon:.1f}"


def _frontier(lines: list[Line], references: list[Level]) -> Any:
    """Two parts of one axis: the rules, and far below them the model as it is."""
    figure, (upper, lower) = _pyplot().subplots(
        2, 1, figsize=(_WIDTH, 4.8), sharex=True, height_ratios=(6, 1), layout="constrained"
    )
    for place in (upper, lower):
        _reference(place, references)
    for number, line in enumerate(lines):
        _rule(upper, line, number - (len(lines) - 1) / 2)
    _break(upper, lower, lines, references)
    lower.set_xscale("log")
    lower.set_xticks(sorted(EPSILONS), [f"{e:g}" for e in sorted(EPSILONS)])
    lower.minorticks_off()
    lower.set_xlabel("epsilon at delta = 1/m (claimed for the frequency rule)")
    upper.set_ylabel("MRR (%)")
    column = COLUMNS[0]
    figure.suptitle(_title(column), fontsize=10)
    handles, labels = upper.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    return figure


def _rule(place: Any, line: Line, step: float) -> None:
    """Draw bars a little to the side, so that they do not cover one another."""
    epsilons = sorted(line.points)
    values = [line.points[e] for e in epsilons]
    color, marker = line.look
    place.errorbar(
        [e * 1.03**step for e in epsilons], [statistics.mean(v) for v in values],
        yerr=[_deviation(v) for v in values], color=color, marker=marker,
        markersize=10 if marker == "*" else 6,
        capsize=3, linewidth=1.4, label=_folded(line.label),
    )  # fmt: skip


def _folded(label: str) -> str:
    return textwrap.fill(label, 34)


def _break(upper: Any, lower: Any, lines: list[Line], references: list[Level]) -> None:
    """Split the axis: the upper part ends under the lowest score, the lower part shows the base alone."""
    base = next((r.mean for r in references if r.dashes == "--"), None)
    seen = [v for line in lines for values in line.points.values() for v in values]
    tops = [r.mean + r.spread for r in references]
    floor, ceiling = min(seen), max([*seen, *tops])
    room = 0.08 * (ceiling - floor) + 0.3
    upper.set_ylim(floor - room, ceiling + room)
    upper.grid(axis="y", linewidth=0.4, alpha=0.5)
    if base is None or base >= floor - room:
        lower.set_visible(base is not None)
        return
    lower.set_ylim(base - 1, base + 1)
    lower.set_yticks([round(base, 1)])
    upper.spines["bottom"].set_visible(False)
    lower.spines["top"].set_visible(False)
    upper.tick_params(axis="x", which="both", length=0)
    marks = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 8, "linestyle": "none",
             "color": "k", "mec": "k", "mew": 1, "clip_on": False}  # fmt: skip
    upper.plot([0, 1], [0, 0], transform=upper.transAxes, **marks)
    lower.plot([0, 1], [1, 1], transform=lower.transAxes, **marks)
