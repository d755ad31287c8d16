"""Results with further seeds, beside the reported spread: reproducibility of single cells."""

import math
import statistics

from benchmarks.cross_domain import SEEDS
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.layout import DASH, named, paragraphs, scores, spread, table

CONFIDENCE = 0.95


def section(store: Store) -> str:
    """Return the command that runs one cell, and the results of such runs."""
    text = """## Reproduction

Run one experiment (a *cell*: one setting with one seed) with another seed. GRAPHS is the folder of the citation graphs,
which are not bundled:

<!-- not run: hours on a GPU -->
```sh
python -m benchmarks.experiments list --suite cross_domain   # ids of cells
python -m benchmarks.experiments run --cell ID --seed 7 --data GRAPHS --device cuda --again
python -m benchmarks.experiments merge runs/cells.jsonl      # then `tables` shows it below
```"""
    lines = [line for cell, test in further(store) if (line := _line(store, cell, test))]
    if not lines:
        return text
    inside = sum(line[-1] == "yes" for line in lines)
    after = paragraphs(
        f"""Experiments that were run again with a seed that no table uses. The interval contains the result of a
        further seed with probability {100 * CONFIDENCE:g} % (Student's t, from the reported seeds). Inside:
        {inside} of {len(lines)}."""
    )
    header = ["experiment", "id", "seed", "MRR reported", "MRR reproduced", "interval", "inside"]
    return "\n\n".join([text, after, table(header, lines)])


def further(store: Store) -> list[tuple[Cell, str]]:
    """Return stored cells with a seed of no table, once for each of their test graphs."""
    cells = [Cell.from_dict(result["cell"]) for result in store.results.values()]
    further_cells = [cell for cell in cells if cell.seed not in SEEDS]
    further_cells.sort(key=lambda cell: (cell.name, cell.id))
    return [(cell, test) for cell in further_cells for test in cell.tests]


def interval(values: list[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval that contains one more value of the same normal law, with a probability.

    >>> low, high = interval([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-2.968, 6.968)
    """
    from scipy.stats import t

    number = len(values)
    quantile = float(t.ppf((1 + confidence) / 2, number - 1))
    reach = quantile * statistics.stdev(values) * math.sqrt(1 + 1 / number)
    center = statistics.mean(values)
    return center - reach, center + reach


def _line(store: Store, cell: Cell, test: str) -> list[str]:
    results = [r for seed in SEEDS if (r := store.get(cell.but(seed=seed)))]
    reported = scores(results, test)
    if not reported:
        return []
    value = scores([store.results[cell.id]], test)[0]
    first = Cell.from_dict(results[0]["cell"])
    line = [_words(cell, test), first.id, str(cell.seed), spread(reported), f"{value:.1f}"]
    if len(reported) < 2:
        return [*line, DASH, DASH]
    low, high = interval(reported)
    return [*line, f"{low:.1f} to {high:.1f}", "yes" if low <= value <= high else "**no**"]


def _words(cell: Cell, test: str) -> str:
    what = cell.method if cell.method != "private" else cell.clipping
    epsilon = f" epsilon {cell.epsilon:g}" if cell.epsilon else ""
    return f"{named(cell.train)} to {named(test)}, {named(cell.encoder)}-{cell.pooling}, {what}{epsilon}"
