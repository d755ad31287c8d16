"""What all recipes of ``reldp prepare`` share: the options of the output, and how the result is shown.

Public to the recipes: `output_options`, `check_output`, `write_prepared`.

>>> check_output(Path("a-folder-that-is-not-there"))
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table

from reldp.cli.commands import option
from reldp.cli.options import json_option, show_ids_option
from reldp.cli.output import visible_console

if TYPE_CHECKING:
    from reldp.graph.recipes.prepared import PreparedGraph

__all__ = ["MAIN", "check_output", "output_options", "write_prepared"]

MAIN = "Main options"
"""Heading of a recipe's most important options."""


def output_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all recipes have."""
    output = option(
        "-o",
        "--output",
        required=True,
        type=click.Path(path_type=Path),
        metavar="GRAPH",
        group=MAIN,
        help="Graph folder to write; it must be new or empty.",
    )
    return output(show_ids_option(json_option(function)))


def check_output(folder: Path) -> None:
    """Refuse a folder that is in use, before a long source is read.

    Raises:
        GraphError: It is.
    """
    from reldp.graph.recipes.prepared import check_new

    check_new(folder)


def write_prepared(
    prepared: "PreparedGraph", output: Path, *, show_ids: bool, as_json: bool
) -> None:
    """Write a prepared graph and show what it holds and what was left out."""
    graph = prepared.write(output, show_ids=show_ids)
    record = asdict(graph.record)
    if as_json:
        sizes = {"num_entities": graph.num_entities, "num_relations": graph.num_relations}
        click.echo(json.dumps({"output": str(output), **sizes, "record": record}, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("wrote", f"{graph.num_entities:,} entities, {graph.num_relations:,} relations")
    table.add_row("source", ", ".join(filter(None, (record["source"], record["version"]))))
    table.add_row("license", record["license"])
    for kind, count in record["drops"].items():
        table.add_row("dropped", f"{count:,} {kind.replace('_', ' ')}")
    for note in record["notes"]:
        table.add_row("note", note)
    visible_console().print(table)
    # Outside of the table, which would wrap it: this line is for copying.
    click.echo(f"\nNext: reldp inspect {shlex.quote(str(output))}")
