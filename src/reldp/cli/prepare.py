"""``reldp prepare``: makes graph folders from other data.

The recipes are in `reldp.graph.recipes`. Each subcommand writes a new folder with entities, relations, a record of
source, version, license and hashes, and the notice that the license requires, and prints what it dropped.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from reldp.cli.commands import Command, option
from reldp.cli.options import Integer, json_option, show_ids_option
from reldp.cli.prepare_store import command as store
from reldp.errors import GraphError, InputError

if TYPE_CHECKING:
    from reldp.graph.recipes.prepared import PreparedGraph

__all__ = ["command"]

_MAIN = "Main options"


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Make a graph folder from WordNet, from Debian's package lists, or from pairs of texts; or a graph store."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


command.add_command(store)


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all recipes have."""
    output = option(
        "-o",
        "--output",
        required=True,
        type=click.Path(path_type=Path),
        metavar="GRAPH",
        group=_MAIN,
        help="Graph folder to write; it must be new or empty.",
    )
    return output(show_ids_option(json_option(function)))


@command.command(
    cls=Command,
    short_help="WordNet synsets and their relations.",
    examples=["reldp prepare wordnet --download --part noun -o nouns"],
)
@option(
    "--source",
    type=click.Path(path_type=Path),
    metavar="PATH",
    group=_MAIN,
    help="WordNet's dict folder, or a wordnet-base .deb file (default: the installed package wordnet-base).",
)
@option(
    "--download",
    is_flag=True,
    group=_MAIN,
    help="Download the package wordnet-base with apt-get; needs no root rights.",
)
@option(
    "--part",
    "parts",
    multiple=True,
    default=("noun",),
    show_default=True,
    metavar="PART",
    help="Part of speech: noun, verb, adjective or adverb; may be repeated.",
)
@option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Keep only synsets of this lexicographer file, such as noun.animal; may be repeated (default: all).",
)
@_common
def wordnet(
    source: Path | None,
    download: bool,
    parts: tuple[str, ...],
    domains: tuple[str, ...],
    output: Path,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Make a graph of WordNet synsets and the relations between them.

    Debian's package wordnet-base holds WordNet 3.0. Its nouns, verbs and adjectives are bundled with reldp as
    wordnet-nouns, wordnet-verbs and wordnet-adjectives, and need not be prepared.
    """
    from reldp.graph.recipes import wordnet as recipe

    _check_exclusive(source, download)
    with _busy("reading WordNet"):
        if download:
            data = recipe.download_package()
        elif source is None and not recipe.INSTALLED.is_dir():
            raise GraphError(
                "`source` must be given where wordnet-base is not installed, got nothing. "
                "Use --download to download it, or --source."
            )
        elif source is not None and source.is_file():
            data = recipe.read_package(source)
        else:
            data = recipe.read_dict(source or recipe.INSTALLED)
        prepared = recipe.wordnet(data, parts=parts, domains=domains)
    _write(prepared, output, show_ids, as_json)


@command.command(
    cls=Command,
    short_help="Debian source packages and their dependencies.",
    examples=["reldp prepare debian --download -o debian"],
)
@option(
    "--source",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    group=_MAIN,
    help="Folder of apt package lists (default: the lists of this machine).",
)
@option(
    "--download",
    is_flag=True,
    group=_MAIN,
    help="Download current lists with long descriptions; needs no root rights.",
)
@option(
    "--hub-degree",
    type=Integer(),
    metavar="N",
    default=300,
    show_default=True,
    help="Drop packages with more relations than this; 0 keeps all packages.",
)
@option(
    "--max-words",
    type=Integer(),
    metavar="N",
    default=70,
    show_default=True,
    help="Maximum number of words taken from a long description.",
)
@option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Keep only packages of this archive section; may be repeated (default: all).",
)
@_common
def debian(
    source: Path | None,
    download: bool,
    hub_degree: int,
    max_words: int,
    domains: tuple[str, ...],
    output: Path,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Make a graph of Debian source packages and their dependencies, from apt package lists."""
    from reldp.graph.recipes import debian as recipe

    _check_exclusive(source, download)
    with _busy("reading package lists"):
        if download:
            lists = recipe.download_lists()
        else:
            lists = recipe.read_lists(source or recipe.APT_LISTS)
        prepared = recipe.debian(
            lists, hub_degree=hub_degree or None, max_words=max_words, domains=domains
        )
    _write(prepared, output, show_ids, as_json)
    if not lists.num_described:
        click.echo(
            "reldp: the lists have no long descriptions, so each text is one short line. "
            "Use --download for lists that have them.",
            err=True,
        )


@command.command(
    cls=Command,
    short_help="Pairs of linked texts: JSONL files with q_text and k_text.",
    examples=["reldp prepare pairs train.jsonl -o my-graph"],
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@option(
    "--id-fields",
    nargs=2,
    metavar="Q K",
    group=_MAIN,
    help="Names of the two fields that hold the ids of the entities (default: q_id and k_id or similar, if present).",
)
@option(
    "--by-text",
    is_flag=True,
    group=_MAIN,
    help="Treat identical texts as one entity, even if there are ids.",
)
@option(
    "--keep-first-text",
    is_flag=True,
    group=_MAIN,
    help="Keep the first text of an id that has several (default: refuse the data).",
)
@option(
    "--license",
    default="not stated",
    show_default=True,
    metavar="TEXT",
    help="License of the data, for the record.",
)
@_common
def pairs(
    files: tuple[Path, ...],
    id_fields: tuple[str, str] | None,
    by_text: bool,
    keep_first_text: bool,
    license: str,
    output: Path,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Make a graph from pairs of linked texts: JSONL FILES with q_text and k_text, as of PvGaLM and Patton."""
    from reldp.graph.recipes import pairs as recipe

    with _busy("reading pairs"):
        prepared = recipe.pairs(
            files,
            id_fields=id_fields,
            by_text=by_text,
            keep_first_text=keep_first_text,
            license=license,
            show_ids=show_ids,
        )
    _write(prepared, output, show_ids, as_json)


def _check_exclusive(source: Path | None, download: bool) -> None:
    if download and source is not None:
        raise InputError("`source` and `download` exclude one another, got both.")


def _busy(words: str) -> Any:
    """Show a spinner on a terminal, and nothing elsewhere."""
    return Console(stderr=True).status(words)


def _write(prepared: "PreparedGraph", output: Path, show_ids: bool, as_json: bool) -> None:
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
    Console(highlight=False, markup=False).print(table)
    # Outside of the table, which would wrap it: this line is for copying.
    click.echo(f"\nNext: reldp inspect {shlex.quote(str(output))}")
