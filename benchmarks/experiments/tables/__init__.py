"""docs/benchmarks.md from the store: every number in it is computed here, none is typed.

    layout     names, means and spreads, Markdown tables
    summary    what the page says first: the result in words, and every column in one line
    columns    one section per training graph, test graph and encoder; pairs that show nothing
    settings   how settings were chosen, and what each of them does
    levers     levers one by one and together, and whether the targets were reached
    price      time and memory, as columns beside a row and as a section of its own
    again      results with further seeds, beside the spread that was reported

`page` is the text, `write_page` writes it and the figures. Cells are looked up by what they are,
so a table shows exactly the cells of its suite, with a dash where nothing was run.
"""

from pathlib import Path

from benchmarks.cross_domain import COLUMNS
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables import again, columns, levers, price, settings, summary

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks.md"


def page(store: Store) -> str:
    """The whole page."""
    parts = [
        summary.head(store),
        summary.headline(store),
        summary.overview(store),
        *(columns.section(store, column) for column in COLUMNS),
        columns.tried(store),
        settings.tuned(store),
        settings.ablated(store),
        levers.alone(store),
        levers.together(store),
        price.section(store),
        again.section(store),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write_page(store: Store, path: Path = PAGE) -> None:
    """Writes the page and its figures."""
    from benchmarks.experiments.figures import write_figures

    path.write_text(page(store), encoding="utf-8")
    write_figures(store, path.parent / "figures")
