"""How much of the gain of training private runs keep, by noise per expected batch, from the committed cells.

    python -m benchmarks.gain_curve      # benchmarks/results/gain_curve.json, and the table in the package

A row is a group of private cells that differ in their seed only: tuple clipping, our analysis, negatives from the
graph, an encoder with the pooling that it was made for. Its gain is compared with that of the best group without
privacy for the same training graph, test graph and encoder. Groups whose reference gains less than `MIN_GAIN` have no
gain to keep: they are listed and not on a curve.

The interval (95 %) is that of the spread over seeds, pooled over all groups of a place; where fewer than
`MIN_REPETITIONS` seeds repeat another one, it is the bootstrap interval of the evaluation.
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS, Store

ROWS = RESULTS / "gain_curve.json"
TABLE = Path(__file__).resolve().parents[1] / "src" / "reldp" / "_gain_curve.json"
METRIC = "mrr"
MIN_GAIN = 0.02
MIN_REPETITIONS = 3
SELECTION = ("wordnet-nouns-seen", "wordnet-adjectives")
"""Training and test graph on which configurations are compared: never a test graph of the tables."""
POOLINGS = {"minilm": "mean", "mpnet": "mean", "smollm2": "last"}
COMMAND = "python -m benchmarks.gain_curve"

# Fields of a cell that do not decide what is learned, and those that a curve runs over.
_REPEATED = {"seed", "tests", "max_relations", "scales", "replay", "cuda_graphs"}
_ALONG = {"epsilon", "noise", "train", "encoder", "pooling", "method"}
_CHOICE = {"max_degree", "num_negatives", "batch", "steps", "negatives"}

_Result = Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the rows and the table of the package."""
    rows = gain_rows(Store().results.values())
    ROWS.write_text(json.dumps({"command": COMMAND, "rows": rows}, indent=1) + "\n")
    table = package_table(rows)
    TABLE.write_text(json.dumps(table, indent=1) + "\n")
    print(f"{len(rows)} rows, {len(table['curves'])} curves")
    print("configurations measured on the graphs of selection, to compare the default with:")
    for choice in table["choices"] or ["none"]:
        print(f"  {choice}")
    return 0


def gain_rows(results: Iterable[_Result]) -> list[dict[str, Any]]:
    """Return one row per group of private cells and test graph."""
    known = [_complete(r) for r in results if r["evaluations"] and _is_as_made(r["cell"])]
    by_place: dict[tuple[str, str, str], list[_Result]] = defaultdict(list)
    for result in known:
        for test in result["cell"]["tests"]:
            by_place[(result["cell"]["train"], test, _encoder(result))].append(result)
    bases = _bases(known)
    rows = []
    for (train, test, encoder), cells in sorted(by_place.items()):
        base = bases.get((test, encoder))
        plain = _groups(r for r in cells if r["cell"]["method"] == "nonprivate")
        private = _groups(r for r in cells if _is_private(r["cell"]))
        if base is None or not (plain and private):
            continue
        reference = max(plain, key=lambda group: _mean(group, test))
        spread = _spread([*plain, *private], test)
        for group in private:
            row = _row(group, reference, base, test, spread)
            rows.append({"train": train, "test": test, "encoder": encoder, **row})
    return sorted(rows, key=lambda r: (r["train"], r["test"], r["encoder"], r["noise"], r["cells"]))


def package_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the package knows: curves of the settings with which most graphs were run, and configurations."""
    leading = _leading(rows)
    by_curve: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["share"] is not None and row["settings"] == leading[row["encoder"]]:
            names = ("train", "test", "encoder", "choice")
            by_curve[json.dumps({n: row[n] for n in names}, sort_keys=True)].append(row)
    curves = [
        {
            **{name: points[0][name] for name in ("train", "test", "encoder", "choice")},
            "points": [{n: p[n] for n in ("noise", "share", "low", "high")} for p in points],
        }
        for _, points in sorted(by_curve.items())
    ]
    places = {(row["train"], row["test"]) for row in rows if row["share"] is None}
    aimed = [
        row["choice"] for row in rows if row["target"]
    ]  # noise alone is no plan that was tried
    compared = [
        c["choice"] for c in curves if (c["train"], c["test"]) == SELECTION and c["choice"] in aimed
    ]
    return {
        "source": "benchmarks/results/gain_curve.json, from the cells in benchmarks/results/cells",
        "command": COMMAND,
        "metric": METRIC,
        "settings": leading,
        "selection": list(SELECTION),
        "curves": curves,
        "choices": sorted(compared, key=lambda choice: sorted(choice.items())),
        "without_gain": sorted(f"{train} to {test}" for train, test in places),
    }


def _leading(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the settings, apart from configurations, with which most pairs of graphs were run, by encoder."""
    places: dict[str, dict[str, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        places[row["encoder"]][row["settings"]].add((row["train"], row["test"]))
    return {
        encoder: max(sorted(by_settings), key=lambda text: len(by_settings[text]))
        for encoder, by_settings in sorted(places.items())
    }


def _complete(result: _Result) -> dict[str, Any]:
    """Return a result whose cell names all fields: results of earlier versions lack some."""
    cell = Cell.from_dict(dict(result["cell"])).to_dict()
    return {**result, "cell": cell}


def _is_as_made(cell: Mapping[str, Any]) -> bool:
    return bool(POOLINGS.get(cell["encoder"]) == cell["pooling"])


def _is_private(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is one that `reldp train` could be, at its own analysis."""
    wanted = {"method": "private", "clipping": "tuple", "analysis": "best", "accountant": "pld"}
    wanted |= {"warm_graph": ""}
    from_graph = cell["negatives"] in ("entities", "relations")
    return from_graph and all(cell[name] == value for name, value in wanted.items())


def _encoder(result: _Result) -> str:
    return f"{result['cell']['encoder']}-{result['cell']['pooling']}"


def _bases(results: Iterable[_Result]) -> dict[tuple[str, str], float]:
    """Return the mean score of the untrained encoders, by test graph and encoder."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for result in results:
        if result["cell"]["method"] == "base":
            for test, values in result["evaluations"].items():
                scores[(test, _encoder(result))].append(values[METRIC])
    return {place: statistics.mean(values) for place, values in scores.items()}


def _groups(results: Iterable[_Result]) -> list[list[_Result]]:
    """Return the results that differ in their seed only, together."""
    groups: dict[str, list[_Result]] = defaultdict(list)
    for result in results:
        fixed = {n: v for n, v in result["cell"].items() if n not in _REPEATED}
        groups[json.dumps(fixed, sort_keys=True)].append(result)
    return list(groups.values())


def _scores(group: Sequence[_Result], test: str) -> list[float]:
    return [float(r["evaluations"][test][METRIC]) for r in group if test in r["evaluations"]]


def _mean(group: Sequence[_Result], test: str) -> float:
    return statistics.mean(_scores(group, test))


def _spread(groups: Sequence[Sequence[_Result]], test: str) -> tuple[float, float] | None:
    """Return the pooled standard deviation over seeds and the factor of a 95 % interval; None for too few seeds."""
    total, freedom = 0.0, 0
    for group in groups:
        scores = _scores(group, test)
        if len(scores) > 1:
            total += (len(scores) - 1) * statistics.variance(scores)
            freedom += len(scores) - 1
    if freedom < MIN_REPETITIONS:
        return None
    return math.sqrt(total / freedom), float(student.ppf(0.975, freedom))


def _half_width(group: Sequence[_Result], test: str, spread: tuple[float, float] | None) -> float:
    """Return half of the 95 % interval of a group's mean."""
    if spread is not None:
        deviation, factor = spread
        return factor * deviation / math.sqrt(len(_scores(group, test)))
    intervals = [r["evaluations"][test]["intervals"][METRIC] for r in group]
    return statistics.mean((high - low) / 2 for low, high in intervals)


def _row(
    group: Sequence[_Result],
    reference: Sequence[_Result],
    base: float,
    test: str,
    spread: tuple[float, float] | None,
) -> dict[str, Any]:
    first = group[0]
    cell, relations = first["cell"], first["num_relations"]
    sigma = statistics.mean(r["noise_multiplier"] for r in group)
    score, plain = _mean(group, test), _mean(reference, test)
    gain = plain - base
    row: dict[str, Any] = {
        "choice": {
            "max_degree": cell["max_degree"],
            "num_negatives": cell["num_negatives"],
            "batch": cell["batch"],
            "passes": round(cell["batch"] * cell["steps"] / relations, 2),
            "batch_share": max(0.005, round(cell["batch"] / relations, 4)),
            "negatives": cell["negatives"],
        },
        "settings": _settings(cell),
        "num_steps": cell["steps"],
        "target": cell["epsilon"],
        "clip_norm": cell["clip_norm"],
        "epsilon": first["epsilon"],
        "sigma": round(sigma, 6),
        "noise": round(sigma * cell["clip_norm"] / cell["batch"], 8),
        "num_relations": relations,
        "seeds": len(_scores(group, test)),
        "base": round(base, 6),
        "nonprivate": round(plain, 6),
        "private": round(score, 6),
        "share": None,
        "low": None,
        "high": None,
        "cells": sorted(r["id"] for r in group),
    }
    if gain >= MIN_GAIN:
        share = (score - base) / gain
        # The reference is in the denominator: to first order its error counts by the share.
        error = math.hypot(
            _half_width(group, test, spread), share * _half_width(reference, test, spread)
        )
        row["share"] = round(share, 4)
        row |= {"low": round(share - error / gain, 4), "high": round(share + error / gain, 4)}
    return row


def _settings(cell: Mapping[str, Any]) -> str:
    """Return all settings of a cell but those of a choice, as text: configurations are compared at equal ones."""
    hidden = _REPEATED | _ALONG | _CHOICE
    shown = {n: v for n, v in cell.items() if n not in hidden}
    if shown["pairing"] == "relations":  # what all pairs are where negatives are relations
        shown["pairing"] = "all"
    return json.dumps(shown, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())
