"""docs/benchmarks.md from the store: every number in it is computed here.

    as_made       encoders as they were made, on unseen entities: the leading section
    layout        names, means and spreads, Markdown tables
    summary       the result in words, and every column in one line
    columns       one section per training graph, test graph and encoder; other pairs
    settings      tuning and ablations
    compared      settings one by one, the selected configuration, and whether targets were reached
    cost_columns  time and memory, as columns of a row and as a section
    again         results with further seeds, beside the reported spread

`page` returns the text, `write_page` writes it and the figures. A table shows exactly the cells of
its suite, with a dash for cells without a result.
"""

from pathlib import Path

from benchmarks.cross_domain import COLUMNS
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables import (
    again,
    as_made,
    columns,
    compared,
    cost_columns,
    settings,
    summary,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"


def page(store: Store) -> str:
    """Return the whole page."""
    parts = [
        summary.head(store),
        as_made.section(store),
        summary.headline(store),
        summary.overview(store),
        *(columns.section(store, column) for column in COLUMNS),
        columns.tried(store),
        settings.tuned(store),
        settings.ablated(store),
        compared.alone(store),
        compared.together(store),
        cost_columns.section(store),
        again.section(store),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_page(store: Store, path: Path = PAGE) -> None:
    """Write the page and its figures."""
    from benchmarks.experiments.as_made_figure import write_figure
    from benchmarks.experiments.figures import write_figures

    path.write_text(page(store), encoding="utf-8")
    write_figures(store, path.parent / "figures")
    write_figure(store, path.parent / "figures")
