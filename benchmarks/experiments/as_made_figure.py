"""The figure of README and docs/benchmarks.md: what private training adds to an encoder as it was made.

MRR against epsilon for the first column of `benchmarks.as_made`, on unseen entities and on another graph,
between the encoder as it is and training without privacy.
"""

import statistics
from pathlib import Path
from typing import Any

from benchmarks.as_made import NOUNS, SEEDS
from benchmarks.experiments.figures import _BLUE, _WIDTH, Level, _pyplot, _reference, _save
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.as_made import EPSILONS
from benchmarks.experiments.tables.layout import mrr, named

NAME = "as_made"


def panels(store: Store) -> dict[str, tuple[list[Level], dict[float, list[float]]]]:
    """Return reference lines and scores by epsilon, for every test that has both."""
    drawn = {}
    for test in NOUNS.base.tests:
        base = mrr(store, [NOUNS.base], test)
        plain = mrr(store, [NOUNS.nonprivate(seed) for seed in SEEDS], test)
        points = {
            epsilon: values
            for epsilon in EPSILONS
            if (values := mrr(store, [NOUNS.private(epsilon, seed) for seed in SEEDS], test))
        }
        if base and plain and points:
            levels = [
                Level("MiniLM as it is", base[0], 0.0, "--"),
                Level("trained without privacy", statistics.mean(plain), _spread(plain), ":"),
            ]
            drawn[test] = levels, points
    return drawn


def write_figure(store: Store, folder: Path, suffix: str = "svg") -> None:
    """Write the figure, or delete it where there are no results."""
    path = folder / f"{NAME}.{suffix}"
    if drawn := panels(store):
        _save(_drawn(drawn), path)
    else:
        path.unlink(missing_ok=True)


def _drawn(drawn: dict[str, tuple[list[Level], dict[float, list[float]]]]) -> Any:
    figure, places = _pyplot().subplots(
        1, len(drawn), figsize=(_WIDTH, 3.4), squeeze=False, layout="constrained"
    )
    for place, (test, (levels, points)) in zip(places.flat, drawn.items(), strict=True):
        _reference(place, levels)
        epsilons = sorted(points)
        place.errorbar(
            epsilons, [statistics.mean(points[e]) for e in epsilons],
            yerr=[_spread(points[e]) for e in epsilons], color=_BLUE, marker="o", markersize=6,
            capsize=3, linewidth=1.4, label="trained privately with reldp",
        )  # fmt: skip
        place.set_xscale("log")
        place.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        place.minorticks_off()
        place.margins(x=0.12, y=0.12)
        place.grid(axis="y", linewidth=0.4, alpha=0.5)
        place.set_xlabel("epsilon")
        where = "nouns never seen" if test.endswith("-unseen") else named(test)
        place.set_title(f"{named(NOUNS.graph)}, tested on {where}", fontsize=10)
    places.flat[0].set_ylabel("MRR (%)")
    handles, labels = places.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def _spread(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
