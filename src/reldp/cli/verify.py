"""``reldp verify``: recomputes a run's certificate and fails loudly on any difference."""

from pathlib import Path

import click

from reldp.cli.options import json_option
from reldp.cli.output import print_json

__all__ = ["command"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def command(run: Path, as_json: bool) -> None:
    """Recompute everything that the certificate of RUN says, from its plan and its ledger.

    Exits with 3 and names every difference if anything was changed.
    """
    from reldp.reporting import verify

    found = verify(run)
    certificate = found.certificate
    if as_json:
        print_json(
            {
                "verified": True,
                "checks": list(found.checks),
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "status": certificate.status,
                "summary": certificate.summary,
                "ledger_head": certificate.values["ledger"]["head"],
            }
        )
        return
    for check in found.checks:
        click.echo(f"ok  {check}")
    click.echo(f"\n{certificate.summary}")
    click.echo(f"Head of the ledger: {certificate.values['ledger']['head']}")
