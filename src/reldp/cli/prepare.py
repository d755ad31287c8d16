"""``reldp prepare``: makes graph folders from other data.

The recipes are in `reldp.graph.recipes`. Each subcommand writes a new folder with entities, relations, a record of
source, version, license and hashes, and the notice that the license requires, and prints what it dropped.
"""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from reldp.cli.commands import Command, option
from reldp.cli.options import Integer
from reldp.cli.prepare_output import MAIN, output_options, write_prepared
from reldp.cli.prepare_records import amazon, mag
from reldp.cli.prepare_store import command as store
from reldp.errors import GraphError, InputError

__all__ = ["command"]


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Make a graph folder from WordNet, Debian's package lists, Amazon products, papers or pairs; or a graph store."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _part in (amazon, mag, store):
    command.add_command(_part)


@command.command(
    cls=Command,
    short_help="WordNet synsets and their relations.",
    examples=["reldp prepare wordnet --download --part noun -o nouns"],
)
@option(
    "--source",
    type=click.Path(path_type=Path),
    metavar="PATH",
    group=MAIN,
    help="WordNet's dict folder, or a wordnet-base .deb file (default: the installed package wordnet-base).",
)
@option(
    "--download",
    is_flag=True,
    group=MAIN,
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
@output_options
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
    write_prepared(prepared, output, show_ids=show_ids, as_json=as_json)


@command.command(
    cls=Command,
    short_help="Debian source packages and their dependencies.",
    examples=["reldp prepare debian --download -o debian"],
)
@option(
    "--source",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    group=MAIN,
    help="Folder of apt package lists (default: the lists of this machine).",
)
@option(
    "--download",
    is_flag=True,
    group=MAIN,
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
@output_options
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
    write_prepared(prepared, output, show_ids=show_ids, as_json=as_json)
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
    group=MAIN,
    help="Names of the two fields that hold the ids of the entities (default: q_id and k_id or similar, if present).",
)
@option(
    "--by-text",
    is_flag=True,
    group=MAIN,
    help="Treat identical texts as one entity, even if there are ids.",
)
@option(
    "--keep-first-text",
    is_flag=True,
    group=MAIN,
    help="Keep the first text of an id that has several (default: refuse the data).",
)
@option(
    "--license",
    default="not stated",
    show_default=True,
    metavar="TEXT",
    help="License of the data, for the record.",
)
@output_options
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
    write_prepared(prepared, output, show_ids=show_ids, as_json=as_json)


def _check_exclusive(source: Path | None, download: bool) -> None:
    if download and source is not None:
        raise InputError("`source` and `download` exclude one another, got both.")


def _busy(words: str) -> Any:
    """Show a spinner on a terminal, and nothing elsewhere."""
    return Console(stderr=True).status(words)
