"""``reldp prepare amazon`` and ``reldp prepare mag``: graphs from files of product and paper records.

The recipes are in `reldp.graph.recipes`. The files are read once, a line at a time, and may be larger than memory.

Public: `amazon`, `mag`, which ``reldp prepare`` takes in.
"""

from collections.abc import Callable
from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import Integer, Word
from reldp.cli.prepare_output import MAIN, check_output, output_options, write_prepared
from reldp.cli.prepare_store import shown_progress

__all__ = ["amazon", "mag"]

_Function = Callable[..., None]

_license = option(
    "--license",
    default="not stated",
    show_default=True,
    metavar="TEXT",
    help="License of the data, for the record.",
)
_temp_dir = option(
    "--temp-dir",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder for temporary files, which are as sensitive as the data (default: beside the graph).",
)


def _max_words(of: str) -> Callable[[_Function], _Function]:
    """Return the option for the number of words of a text."""
    return option(
        "--max-words",
        type=Integer(),
        metavar="N",
        default=70,
        show_default=True,
        help=f"Maximum number of words taken from {of}; 0 takes titles only.",
    )


@click.command(
    cls=Command,
    short_help="Amazon product metadata of 2014 or 2018.",
    examples=[
        "reldp prepare amazon meta_Sports_and_Outdoors.json.gz --category sports -o amaz-sports",
        "reldp prepare amazon metadata.json.gz --category 'Sports & Outdoors > Cycling' --relation also_view -o bikes",
    ],
)
@click.argument(
    "files", metavar="META...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@option(
    "--category",
    "categories",
    multiple=True,
    metavar="NAME",
    group=MAIN,
    help="Keep only products of this top category, such as sports, cloth or 'Sports & Outdoors', or of this path of "
    "categories, separated by >; may be repeated (default: all).",
)
@option(
    "--relation",
    "relations",
    multiple=True,
    default=("also_buy",),
    show_default=True,
    metavar="KIND",
    group=MAIN,
    help="Kind of relation: also_buy (also_bought), also_view (also_viewed), bought_together or buy_after_viewing; may "
    "be repeated.",
)
@_max_words("a description")
@_license
@_temp_dir
@output_options
def amazon(
    files: tuple[Path, ...],
    categories: tuple[str, ...],
    relations: tuple[str, ...],
    max_words: int,
    license: str,
    temp_dir: Path | None,
    output: Path,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Make a graph of products and what was bought with them, from Amazon product metadata.

    META is a file of the public metadata of 2014 or 2018, a product per line, plain or compressed (gz, bz2, zst).
    """
    from reldp.graph.recipes.amazon import amazon as recipe

    check_output(output)
    with shown_progress() as report:
        prepared = recipe(
            files,
            categories=categories,
            relations=relations,
            max_words=max_words,
            license=license,
            temp_dir=temp_dir or _beside(output),
            report=report,
        )
    write_prepared(prepared, output, show_ids=show_ids, as_json=as_json)


@click.command(
    cls=Command,
    short_help="Papers and their citations, from JSON lines of MAG.",
    examples=[
        "reldp prepare mag papers.jsonl.zst --country USA -o mag-usa",
        "reldp prepare mag mag_papers_0.txt.gz mag_papers_1.txt.gz --country China --authors all -o mag-chn",
    ],
)
@click.argument(
    "files", metavar="RECORDS...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@option(
    "--country",
    "countries",
    multiple=True,
    metavar="NAME",
    group=MAIN,
    help="Keep only papers with authors of this country, such as USA or China; may be repeated (default: all).",
)
@option(
    "--authors",
    type=Word(("any", "all")),
    default="any",
    show_default=True,
    group=MAIN,
    help="Whether one author of the country suffices, or every author with a known country must be of it.",
)
@_max_words("an abstract")
@_license
@_temp_dir
@output_options
def mag(
    files: tuple[Path, ...],
    countries: tuple[str, ...],
    authors: str,
    max_words: int,
    license: str,
    temp_dir: Path | None,
    output: Path,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Make a graph of papers and their citations, from records of papers.

    RECORDS is a file of JSON lines, a paper per line, plain or compressed (gz, bz2, zst), as published of the Microsoft
    Academic Graph, the Open Academic Graph, MAPLE or OpenAlex.
    """
    from reldp.graph.recipes.mag import mag as recipe

    check_output(output)
    with shown_progress() as report:
        prepared = recipe(
            files,
            countries=countries,
            authors=authors,
            max_words=max_words,
            license=license,
            temp_dir=temp_dir or _beside(output),
            report=report,
        )
    write_prepared(prepared, output, show_ids=show_ids, as_json=as_json)


def _beside(output: Path) -> Path:
    """Return the nearest folder above the output that is there."""
    return next(folder for folder in output.absolute().parents if folder.is_dir())
