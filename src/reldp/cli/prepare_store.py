"""``reldp prepare store``: builds a graph store from files that may be larger than memory.

The building is in `reldp.graph.store`.
"""

import json
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from reldp._progress import is_on_terminal, show_line
from reldp.cli.commands import Command, option
from reldp.cli.options import Integer, json_option, show_ids_option
from reldp.cli.output import visible_console
from reldp.cli.progress import INTERVAL, show_busy

if TYPE_CHECKING:
    from reldp.graph.store.progress import Tick
    from reldp.graph.store.stored_graph import StoredGraph

__all__ = ["command", "progress_lines", "progress_words", "shown_progress", "shown_reading"]

_MAIN = "Main options"
_SOON = 1.0  # seconds of a phase that is not shown yet


@click.command(
    "store",
    cls=Command,
    short_help="A graph store, for graphs that do not fit in memory.",
    examples=[
        "reldp prepare store shop -o shop-store",
        "reldp prepare store shop --relations 'orders/*.parquet' --drop duplicate_relations -o shop-store",
    ],
)
@click.argument("source", type=click.Path(path_type=Path))
@option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="STORE",
    group=_MAIN,
    help="Folder of the store; it must be new or empty, or hold a store with --overwrite.",
)
@option(
    "--entities",
    metavar="PATTERN",
    group=_MAIN,
    help="Pattern of the files of entities in SOURCE, such as users/*.parquet (default: entities.* or "
    "everything in the folder entities).",
)
@option(
    "--relations",
    metavar="PATTERN",
    group=_MAIN,
    help="Pattern of the files of relations in SOURCE (default: relations.* or everything in the folder relations).",
)
@option(
    "--drop",
    multiple=True,
    metavar="KIND",
    group=_MAIN,
    help="Kind of damage to drop and count, such as duplicate_relations; may be repeated (default: refuse the data).",
)
@option(
    "--overwrite",
    is_flag=True,
    group=_MAIN,
    help="Replace a store when the new one is complete; its budget and its private sizes stay.",
)
@option(
    "--memory-limit",
    metavar="SIZE",
    help="Memory for the build, such as 6GB; what does not fit goes to temporary files (default: a quarter of the "
    "machine's).",
)
@option("--threads", type=Integer(), metavar="N", help="Number of CPU threads (default: all).")
@option(
    "--temp-dir",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder for temporary files, which are as sensitive as the data (default: beside the store).",
)
@show_ids_option
@json_option
def command(
    source: Path,
    output: Path,
    entities: str | None,
    relations: str | None,
    drop: tuple[str, ...],
    overwrite: bool,
    memory_limit: str | None,
    threads: int | None,
    temp_dir: Path | None,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Build a graph store from the files in SOURCE, which may be larger than memory.

    SOURCE is a folder with a file or a folder of files of entities and one of relations, in Parquet, Arrow, CSV, TSV or
    JSONL. All other commands take a store in place of a graph folder.
    """
    from reldp.graph.store import BuildSettings, build_store

    settings = BuildSettings(memory_limit=memory_limit, threads=threads, temp_dir=temp_dir)
    with shown_progress() as report:
        graph = build_store(
            source,
            output,
            entities=entities,
            relations=relations,
            drop=drop,
            settings=settings,
            overwrite=overwrite,
            show_ids=show_ids,
            report=report,
        )
    _print(graph, output, as_json)


@contextmanager
def progress_lines() -> Iterator[None]:
    """Show what takes long on a store (capping, tokenizing, counting) as one line each."""
    from reldp.graph.store.progress import reporting

    def report(tick: "Tick") -> None:
        if tick.seconds > _SOON:
            end = "\n" if tick.ended else ""
            click.echo(
                f"\r\x1b[K{tick.phase}: {progress_words(tick)}{end}", err=True, nl=False, color=True
            )

    with reporting(report):
        yield


@contextmanager
def shown_reading(phase: str) -> Iterator[None]:
    """Show that a graph is read, with the progress of work on a store.

    Args:
        phase: What is done.
    """
    from reldp.graph.store.progress import reporting

    def report(tick: "Tick") -> None:
        show(f"{tick.phase}: {progress_words(tick)}")

    with show_busy(phase) as show, reporting(report):
        yield


@contextmanager
def shown_progress() -> Iterator["Callable[[Tick], None]"]:
    """Show phases with their rate and the time left on a terminal, and a line every 30 seconds elsewhere."""
    if not is_on_terminal():
        yield _shown_in_lines()
        return
    tasks: dict[str, TaskID] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"))
    console = Console(stderr=True)
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as progress:

        def report(tick: "Tick") -> None:
            if tick.phase not in tasks:
                tasks[tick.phase] = progress.add_task(tick.phase, total=None, state="")
            progress.update(
                tasks[tick.phase],
                completed=tick.done,
                total=tick.total or None,
                state=progress_words(tick),
            )

        yield report


def _shown_in_lines() -> "Callable[[Tick], None]":
    """Return what prints how far a phase is from time to time."""
    printed = time.monotonic()

    def report(tick: "Tick") -> None:
        nonlocal printed
        if time.monotonic() - printed >= INTERVAL:
            printed = time.monotonic()
            # Exact numbers of entities are sensitive.
            far = (
                f"{100 * tick.done // tick.total} %" if tick.total else f"for {tick.seconds:.0f} s"
            )
            show_line(f"reldp: (sensitive) {tick.phase}, {far}")

    return report


def progress_words(tick: "Tick") -> str:
    """Return how far a phase is, in words."""
    words = f"{tick.done:,} {tick.unit}, {tick.rate:,.0f}/s"
    left = tick.seconds_left
    return words if not left else f"{words}, {left:,.0f} s left"


def _print(graph: "StoredGraph", output: Path, as_json: bool) -> None:
    sizes = {"num_entities": graph.num_entities, "num_relations": graph.num_relations}
    record = asdict(graph.record)
    if as_json:
        build = {"output": str(output), **sizes, "build_hash": graph.build_hash, "record": record}
        click.echo(json.dumps(build, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("wrote", f"{graph.num_entities:,} entities, {graph.num_relations:,} relations")
    table.add_row("build hash", graph.build_hash)
    for kind, count in record["drops"].items():
        table.add_row("dropped", f"{count:,} {kind.replace('_', ' ')}")
    visible_console().print(table)
    click.echo(f"\nNext: reldp inspect {shlex.quote(str(output))}")
