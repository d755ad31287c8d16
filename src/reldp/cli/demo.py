"""``reldp demo``: the main job on the bundled graphs, in minutes, on a CPU."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reldp.cli.output import print_table, to_json

if TYPE_CHECKING:
    from rich.table import Table

    from reldp.training.demo import DemoResult

__all__ = ["command"]

_NAMES = {"base": "base model", "private": "private", "nonprivate": "without privacy"}


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for the runs.  [default: a new temporary one]",
)
@click.option("--model", help="Folder of another base model than MiniLM.")
@click.option(
    "--steps", type=int, help="Steps of every training; fewer are quicker and learn less."
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def command(output: Path | None, model: str | None, steps: int | None, as_json: bool) -> None:
    """Train MiniLM privately on WordNet's nouns, test it on verbs, and certify it.

    Takes about ten minutes on two cores.
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
    """The table, the promise, and where the files are."""
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
        f"{result.settings.candidates} candidates each. cls is the paper's protocol, mean the base "
        f"model's own pooling. {result.seconds:.0f} seconds.",
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
        for arm, found in arms.items():
            epsilon = {
                "base": "",
                "private": f"{result.certificates[pooling].epsilon:.2f}",
                "nonprivate": "infinite",
            }[arm]
            table.add_row(
                pooling,
                _NAMES[arm],
                epsilon,
                str(found.metrics["prec@1"]),
                str(found.metrics["mrr"]),
            )
    return table
