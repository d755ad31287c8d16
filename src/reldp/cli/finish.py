"""``reldp finish``: ends a run early, with a model and a certificate."""

from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import json_option
from reldp.cli.output import print_json

__all__ = ["command"]

_MAIN = "Main options"


@click.command(cls=Command, examples=["reldp finish RUN", "reldp finish RUN --by-result"])
@click.argument("run", type=click.Path(path_type=Path))
@option(
    "--by-result",
    is_flag=True,
    group=_MAIN,
    help="State that you decided to end the run by looking at its weights, or at their evaluation on public data. "
    "Epsilon is then that of all planned steps (default: epsilon of the counted steps).",
)
@option(
    "--model",
    group=_MAIN,
    metavar="NAME",
    help="Folder or hub name of the base model (default: the name in the ledger).",
)
@json_option
def command(run: Path, by_result: bool, model: str | None, as_json: bool) -> None:
    """End RUN before its last step: write the model of its newest checkpoint, certify the steps spent, destroy the key.

    Stop reldp train first (Ctrl-C saves a checkpoint). The graph is not needed. The certificate covers every step that
    the ledger counts, and states that you decided to end without looking at anything that depends on the private data;
    use --by-result if you looked at the model. The run cannot be resumed afterwards.
    """
    from reldp.training.finishing import finish, named_encoder

    certificate = finish(run, by_result=by_result, encoder=named_encoder(run, model))
    steps = certificate.values["steps"]
    if as_json:
        print_json(
            {
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "status": certificate.status,
                "summary": certificate.summary,
                "steps": steps,
                "folder": str(run),
            }
        )
        return
    click.echo(certificate.summary)
    click.echo(f"\nsteps        {steps['counted']:,} counted of {steps['planned']:,} planned")
    click.echo(f"model        {run / 'model'}")
    click.echo(f"certificate  {run / 'certificate.md'}")
    click.echo(f"\nCheck it: reldp verify {run}")
