"""Figures of docs/benchmarks.md, from the store: the same results give the same files."""

import statistics
from pathlib import Path
from typing import Any

from benchmarks import ablations
from benchmarks.cross_domain import nonprivate
from benchmarks.experiments.store import Store

_BLUE, _GREY = "#2a5db0", "#777777"


def write_figures(store: Store, folder: Path) -> None:
    """Writes every figure that has results."""
    drawn = {axis: points for axis in ablations.AXES if (points := axis_points(store, axis))}
    if drawn:
        folder.mkdir(parents=True, exist_ok=True)
        _draw(store, drawn, folder / "ablations.svg")


def axis_points(store: Store, axis: ablations.Axis) -> list[tuple[float, list[float], float]]:
    """Value, MRR of every seed, and epsilon."""
    points = []
    for value in axis.values:
        cells = [ablations.axis_cell(axis, value, seed) for seed in ablations.SEEDS]
        results = [result for cell in cells if (result := store.get(cell))]
        if results:
            test = ablations.COLUMN.test
            scores = [100 * result["evaluations"][test]["mrr"] for result in results]
            points.append((float(value), scores, float(results[0]["epsilon"])))
    return points


def _draw(store: Store, drawn: dict[Any, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "reldp"
    mpl.rcParams["font.size"] = 9
    columns = 3
    rows = -(-len(drawn) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(10, 2.9 * rows), sharey=True, squeeze=False, layout="constrained"
    )
    lines = _levels(store)
    for place, (axis, points) in zip(axes.flat, drawn.items(), strict=False):
        _panel(place, axis, points, lines)
    for place in list(axes.flat)[len(drawn) :]:
        place.set_visible(False)
    for place in axes[:, 0]:
        place.set_ylabel("MRR (%)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _levels(store: Store) -> dict[str, float]:
    """The model as it is, and without privacy."""
    column = ablations.COLUMN
    own = {
        "base": [column.start],
        "without privacy": [nonprivate(column, 5, seed) for seed in column.seeds],
    }
    return {
        name: statistics.mean(values)
        for name, cells in own.items()
        if (
            values := [
                100 * r["evaluations"][column.test]["mrr"] for c in cells if (r := store.get(c))
            ]
        )
    }


def _panel(place: Any, axis: Any, points: Any, lines: dict[str, float]) -> None:
    values = [point[0] for point in points]
    means = [statistics.mean(point[1]) for point in points]
    errors = [statistics.stdev(point[1]) if len(point[1]) > 1 else 0.0 for point in points]
    place.errorbar(values, means, yerr=errors, marker="o", color=_BLUE, capsize=3, linewidth=1.2)
    for value, mean, (_, _, epsilon) in zip(values, means, points, strict=True):
        label = f"ε {epsilon:.2g}"
        place.annotate(
            label, (value, mean), (0, 8), textcoords="offset points", ha="center", fontsize=7
        )
    for name, level in lines.items():
        place.axhline(level, color=_GREY, linewidth=0.8, linestyle="--" if name == "base" else ":")
        place.text(
            0.99,
            level,
            name,
            transform=place.get_yaxis_transform(),
            ha="right",
            va="bottom",
            fontsize=7,
            color=_GREY,
        )
    place.set_xscale("log")
    place.set_xticks(values, [f"{value:g}" for value in values])
    place.minorticks_off()
    place.margins(x=0.12, y=0.2)
    place.set_xlabel(axis.label)
