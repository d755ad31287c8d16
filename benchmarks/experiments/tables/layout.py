"""Names for readers, means and spreads, Markdown tables: shared by all sections."""

import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.cross_domain import Column
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store

DASH = "-"
NAMES = {
    "wordnet-nouns": "WordNet nouns",
    "wordnet-verbs": "WordNet verbs",
    "wordnet-adjectives": "WordNet adjectives",
    "aan_acl_venues": "ACL papers",
    "aan_coling_lrec_workshops": "COLING, LREC and workshop papers",
    "debian_langlibs": "Debian libraries",
    "debian_apps": "Debian applications",
    "amazon_clothing_session": "clothing bought together",
    "amazon_electronic_session": "electronics bought together",
    "amazon_food_session": "food bought together",
    "aan_nlp": "NLP papers",
    "debian_all": "Debian packages",
    "wordnet_noun_artifact": "WordNet artifacts",
    "wordnet_noun_person": "WordNet persons",
    "rfc": "RFCs",
    "minilm": "MiniLM",
    "mpnet": "MPNet-base",
    "smollm2": "SmolLM2-135M",
}
_SEEDS = 3  # the usual number of seeds, which a table does not state


def named(key: str) -> str:
    """Return the reader's name of a graph or an encoder; the name itself if there is none."""
    return NAMES.get(key, key)


def pair_of(column: Column) -> str:
    """Return the two graphs of a column."""
    return f"{named(column.train)} to {named(column.test)}"


def encoder_of(column: Column) -> str:
    """Return the encoder of a column."""
    return f"{named(column.encoder)}, {column.pooling} pooling"


def precision_of(cell: Cell) -> str:
    """Return the numeric type of most of a cell's arithmetic."""
    if cell.weights == "bfloat16":
        return "bfloat16"
    return "bfloat16 autocast" if cell.precision == "bfloat16" else "float32"


def results_of(store: Store, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Return the results of the cells that have one."""
    return [result for cell in cells if (result := store.get(cell)) is not None]


def scores(results: Iterable[dict[str, Any]], test: str, metric: str = "mrr") -> list[float]:
    """Return a metric of every result, in percent."""
    return [100 * result["evaluations"][test][metric] for result in results]


def mrr(store: Store, cells: Iterable[Cell], test: str) -> list[float]:
    """Return the MRR of the cells that have a result, in percent."""
    return scores(results_of(store, cells), test)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None without values."""
    return statistics.mean(values) if values else None


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation over seeds, and the number of seeds if it is not three."""
    if not values:
        return DASH
    text = f"{statistics.mean(values):.1f}"
    if len(values) > 1:
        text += f" ± {statistics.stdev(values):.1f}"
    return text if len(values) in (1, _SEEDS) else f"{text} ({len(values)} seeds)"


def both(results: Sequence[dict[str, Any]], test: str) -> list[str]:
    """Return PREC@1 and MRR for two columns of a table."""
    return [spread(scores(results, test, name)) for name in ("prec@1", "mrr")]


def share(value: float | None, base: float | None, reference: float | None) -> float | None:
    """Return the share of the gain from base to reference; None if there is no gain."""
    if value is None or base is None or reference is None or reference <= base:
        return None
    return (value - base) / (reference - base)


def percent(part: float | None) -> str:
    """Return a share as text."""
    return DASH if part is None else f"{100 * part:.0f} %"


def listed(words: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def paragraphs(*texts: str) -> str:
    """Return sentences as lines of a page, rewrapped."""
    filled = (textwrap.fill(" ".join(text.split()), 115, break_on_hyphens=False) for text in texts)
    return "\n\n".join(filled)


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Return a Markdown table; columns of numbers are right-aligned."""
    body = [list(row) for row in rows]
    rule = ["---:" if _numbers(cells) else "---" for cells in zip(*body, strict=True)]
    lines = [header, rule or ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _numbers(cells: Iterable[str]) -> bool:
    known = [cell.strip("*+-") for cell in cells if cell != DASH]
    return all(cell[:1].isdigit() for cell in known)
