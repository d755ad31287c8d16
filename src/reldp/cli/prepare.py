"""``reldp prepare``: makes graph folders from real sources.

The recipes are in `reldp.graph.recipes`. Every subcommand writes a new folder with entities,
relations, a record of source, version, license and hashes, and the notice where the license asks
for one; and says what it left out.
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

from reldp.cli.options import show_ids_option
from reldp.errors import GraphError, InputError

if TYPE_CHECKING:
    from reldp.graph.recipes.prepared import PreparedGraph

__all__ = ["command"]


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Make a graph folder from a real source."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """The options that every recipe has."""
    output = click.option(
        "-o",
        "--output",
        required=True,
        type=click.Path(path_type=Path),
        help="Folder to write; new or empty.",
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    return output(show_ids_option(as_json(function)))


@command.command(short_help="WordNet synsets and their relations")
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="A WordNet dict folder, or the wordnet-base .deb file.  [default: the installed one]",
)
@click.option("--download", is_flag=True, help="Fetch wordnet-base with apt-get; needs no root.")
@click.option(
    "--part",
    "parts",
    multiple=True,
    default=("noun",),
    show_default=True,
    help="noun, verb, adjective or adverb; may be repeated.",
)
@click.option("--domain", "domains", multiple=True, help="Only this one, such as noun.animal.")
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
    """WordNet synsets and the relations between them.

    Debian's wordnet-base holds WordNet 3.0; the nouns, verbs and adjectives of it come with reldp
    as wordnet-nouns, wordnet-verbs and wordnet-adjectives and need no preparing.
    """
    from reldp.graph.recipes import wordnet as recipe

    _check_exclusive(source, download)
    with _busy("reading WordNet"):
        if download:
            found = recipe.download_package()
        elif source is None and not recipe.INSTALLED.is_dir():
            raise GraphError(
                "`source` must be given where wordnet-base is not installed, got nothing. "
                "Use --download to fetch it, or --source."
            )
        elif source is not None and source.is_file():
            found = recipe.read_package(source)
        else:
            found = recipe.read_dict(source or recipe.INSTALLED)
        prepared = recipe.wordnet(found, parts=parts, domains=domains)
    _write(prepared, output, show_ids, as_json)


@command.command(short_help="Debian source packages and their dependencies")
@click.option(
    "--source",
    type=click.Path(path_type=Path),
    help="A folder of apt package lists.  [default: this machine's]",
)
@click.option(
    "--download", is_flag=True, help="Fetch fresh lists with long descriptions; needs no root."
)
@click.option(
    "--hub-degree",
    type=int,
    default=300,
    show_default=True,
    help="Leave out packages with more relations than this; 0 keeps all.",
)
@click.option("--max-words", type=int, default=70, show_default=True, help="Of a long description.")
@click.option("--domain", "domains", multiple=True, help="Only this archive section; repeatable.")
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
    """Debian source packages and their dependencies, from package lists."""
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
            "reldp: the lists have no long descriptions, so texts are one short line each. "
            "Use --download to fetch lists that have them.",
            err=True,
        )


@command.command(short_help="linked text pairs: JSONL with q_text and k_text")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--id-fields",
    nargs=2,
    metavar="Q K",
    help="The two fields that identify entities.  [default: q_id k_id and the like, if present]",
)
@click.option(
    "--by-text", is_flag=True, help="Identical text is one entity, even if ids are there."
)
@click.option(
    "--keep-first-text", is_flag=True, help="Let an id with several texts keep the first."
)
@click.option("--license", default="not stated", show_default=True, help="Terms of the data.")
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
    """Linked text pairs: JSONL FILES with q_text and k_text, as PvGaLM and Patton store them."""
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
    """A spinner on a terminal, nothing elsewhere."""
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
        table.add_row("left out", f"{count:,} {kind.replace('_', ' ')}")
    for note in record["notes"]:
        table.add_row("note", note)
    Console(highlight=False, markup=False).print(table)
    # Outside of the table, where it is never wrapped: this line is for copying.
    click.echo(f"\nNext: reldp inspect {shlex.quote(str(output))}")
