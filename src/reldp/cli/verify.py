"""``reldp verify``: recomputes a run's certificate and fails on any difference."""

from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import json_option
from reldp.cli.output import print_json
from reldp.cli.progress import show_progress

__all__ = ["command"]

_MAIN = "Main options"


@click.command(
    cls=Command,
    examples=["reldp verify RUN", "reldp verify BUNDLE --head HASH --key publisher.pub"],
)
@click.argument("run", type=click.Path(path_type=Path))
@option(
    "--head",
    group=_MAIN,
    metavar="HASH",
    help="Head of the ledger as it was noted elsewhere, 64 hexadecimal digits. Another head fails.",
)
@option(
    "--key",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ed25519 public key in PEM or OpenSSH format that must have signed the bundle.",
)
@json_option
def command(run: Path, head: str | None, key: Path | None, as_json: bool) -> None:
    """Recompute the certificate of RUN from its plan and its ledger, and compare all files.

    RUN is a run folder or a bundle that reldp publish made.

    Exit code 3 means that a file was changed or does not follow from the ledger; the message names each difference.
    """
    from reldp.reporting import verify
    from reldp.runs.inert_text import visible_text

    with show_progress(is_sensitive=False):
        verification = verify(run, head=head, key=key)
    certificate = verification.certificate
    if as_json:
        print_json(
            {
                "verified": True,
                "checks": list(verification.checks),
                "unverified": list(verification.unverified),
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "given": certificate.given,
                "status": certificate.status,
                "summary": certificate.summary,
                "ledger_head": certificate.values["ledger"]["head"],
            }
        )
        return
    for check in verification.checks:
        click.echo(f"ok  {check}")
    if verification.unverified:
        names = ", ".join(verification.unverified)
        click.echo(f"--  not verified, for the owner alone, do not publish: {names}")
    click.echo(visible_text(f"\n{certificate.summary}"))
    click.echo(f"Head of the ledger: {certificate.values['ledger']['head']}")
