"""``reldp demo``: trains, evaluates and certifies MiniLM on bundled graphs, in minutes on a CPU."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import Integer
from reldp.cli.output import print_table, to_json

if TYPE_CHECKING:
    from rich.table import Table

    from reldp.training.demo import DemoResult

__all__ = ["command"]

_MAIN = "Main options"
_NAMES = {"base": "base model", "private": "private", "nonprivate": "without privacy"}


@click.command(cls=Command, examples=["reldp demo -o demo"])
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    group=_MAIN,
    help="Folder for the runs (default: a new temporary folder).",
)
@option(
    "--model",
    metavar="NAME",
    group=_MAIN,
    help="Folder or hub name of the base model (default: MiniLM).",
)
@option(
    "--steps",
    type=Integer(),
    metavar="T",
    group=_MAIN,
    help="Number of steps of each training; fewer steps are faster and learn less (default: 60 with cls pooling, 20 "
    "with mean pooling).",
)
@option("--json", "as_json", is_flag=True, help="Print the results as one JSON line at the end.")
def command(output: Path | None, model: str | None, steps: int | None, as_json: bool) -> None:
    """Train MiniLM privately on WordNet's nouns, evaluate it on verbs, and certify it.

    The demo compares the base model, private training, and training without privacy. It takes about ten minutes on
    two CPU cores.
    """
    from reldp.training.demo import Demo, DemoSettings

    settings = DemoSettings()
    if model is not None:
        settings = replace(settings, model=model)
    if steps is not None:
        settings = replace(settings, num_steps=dict.fromkeys(settings.poolings, steps))
    folder = Path(tempfile.mkdtemp(prefix="reldp-demo-")) if output is None else output
    result = Demo(folder, settings, say=lambda line: click.echo(line, err=True)).run()
    _show(result)
    if as_json:
        click.echo(to_json(result.to_json(), indent=None))


def _show(result: "DemoResult") -> None:
    """Print the table, the guarantee, and the paths of the files."""
    first = result.settings.poolings[0]
    gains = ", ".join(
        f"{pooling} {arms['private'].gain_over(arms['base'], 'mrr')}"
        for pooling, arms in result.evaluations.items()
    )
    relations = result.evaluations[first]["base"].num_relations
    folder = result.folders[first]["private"]
    print_table(
        _table(result),
        f"Percent with 95 % intervals over {relations:,} sampled relations of the test graph, "
        f"{result.settings.candidates} candidates each. cls pooling is the paper's protocol, mean is the pooling "
        f"that the base model was trained with. {result.seconds:.0f} seconds.",
        f"Private training over the base model, in points of MRR: {gains}.",
        result.certificates[first].summary,
    )
    click.echo(f"\nmodel        {folder / 'model'}")
    click.echo(f"certificate  {folder / 'certificate.md'}")
    click.echo(f"\nCheck it: reldp verify {folder}")


def _table(result: "DemoResult") -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("pooling", "encoder", "epsilon", "PREC@1", "MRR"):
        table.add_column(header, justify="left" if header in ("pooling", "encoder") else "right")
    for pooling, arms in result.evaluations.items():
        for arm, result_of_arm in arms.items():
            epsilon = {
                "base": "",
                "private": f"{result.certificates[pooling].epsilon:.2f}",
                "nonprivate": "infinite",
            }[arm]
            table.add_row(
                pooling,
                _NAMES[arm],
                epsilon,
                str(result_of_arm.metrics["prec@1"]),
                str(result_of_arm.metrics["mrr"]),
            )
    return table
