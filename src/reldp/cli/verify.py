"""``reldp verify``: recomputes a run's certificate and fails on any difference."""

from pathlib import Path

import click

from reldp.cli.commands import Command
from reldp.cli.options import json_option
from reldp.cli.output import print_json

__all__ = ["command"]


@click.command(cls=Command, examples=["reldp verify RUN"])
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def command(run: Path, as_json: bool) -> None:
    """Recompute the certificate of RUN from its plan and its ledger, and compare all files.

    Exit code 3 means that a file was changed or does not follow from the ledger; the message names each difference.
    """
    from reldp.reporting import verify

    verification = verify(run)
    certificate = verification.certificate
    if as_json:
        print_json(
            {
                "verified": True,
                "checks": list(verification.checks),
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "status": certificate.status,
                "summary": certificate.summary,
                "ledger_head": certificate.values["ledger"]["head"],
            }
        )
        return
    for check in verification.checks:
        click.echo(f"ok  {check}")
    click.echo(f"\n{certificate.summary}")
    click.echo(f"Head of the ledger: {certificate.values['ledger']['head']}")
