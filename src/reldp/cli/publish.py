"""``reldp publish``: a folder with what may be published of a run."""

from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import json_option
from reldp.cli.output import print_json, say, shell_word
from reldp.cli.progress import show_progress

__all__ = ["command"]


@click.command(cls=Command, examples=["reldp publish RUN -o BUNDLE"])
@click.argument("run", type=click.Path(path_type=Path))
@option(
    "-o",
    "--output",
    group="Main options",
    type=click.Path(path_type=Path),
    required=True,
    metavar="BUNDLE",
    help="Folder to make. It must not exist, or be empty.",
)
@json_option
def command(run: Path, output: Path, as_json: bool) -> None:
    """Write into BUNDLE what may be published of RUN: model, certificate, ledger, public report and model card.

    Nothing sensitive is copied: no metrics, evaluations, checkpoints or counts of the data. The run is verified first,
    and so is the bundle, which everybody can verify without the run. It appears complete or not at all. Note the head
    of the ledger in another place: reldp verify BUNDLE --head HASH compares it. Exit code 3 means that verification
    failed and nothing was published.
    """
    from reldp.reporting.bundle import publish

    with show_progress(is_sensitive=False):
        certificate = publish(run, output).certificate
    head = certificate.values["ledger"]["head"]
    if as_json:
        print_json(
            {
                "bundle": str(output),
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "given": certificate.given,
                "status": certificate.status,
                "summary": certificate.summary,
                "ledger_head": head,
            }
        )
        return
    say(certificate.summary)
    click.echo(f"\nbundle  {output}")
    click.echo(f"head    {head}")
    click.echo(f"\nCheck it: reldp verify {shell_word(output)} --head {head}")
