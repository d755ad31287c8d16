"""``reldp report``: one page about a run, verified first."""

from pathlib import Path

import click

from reldp.cli.options import json_option
from reldp.cli.output import print_json

__all__ = ["command"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--public", is_flag=True, help="Omit sensitive values: curves and evaluations.")
@json_option
def command(run: Path, public: bool, as_json: bool) -> None:
    """Write report.html into RUN: the promise, what ran, how it learned, how to check it."""
    from reldp.reporting.publishing import write_report

    page = write_report(run, public=public)
    if as_json:
        print_json({"report": str(page), "public": public})
        return
    click.echo(f"wrote {page}")
