"""``reldp finish``: ends a run early, with a model and a certificate."""

from pathlib import Path

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import Word, json_option
from reldp.cli.output import print_json, say, shell_word
from reldp.runs.result_wording import part_condition
from reldp.runs.schema import DECISIONS

__all__ = ["command"]

_MAIN = "Main options"


@click.command(
    cls=Command,
    examples=["reldp finish RUN --decided-by time", "reldp finish RUN --decided-by result"],
)
@click.argument("run", type=click.Path(path_type=Path))
@option(
    "--decided-by",
    type=Word(DECISIONS),
    group=_MAIN,
    help="What decided to end the run: a number of steps that was fixed before; time, such as a deadline; or a result, "
    "if anybody looked at the model or its evaluation on public data. Needed unless the last step was taken.",
)
@option(
    "--model",
    group=_MAIN,
    metavar="NAME",
    help="Folder or hub name of the base model (default: the name in the ledger).",
)
@json_option
def command(run: Path, decided_by: str | None, model: str | None, as_json: bool) -> None:
    """End RUN before its last step: write the model of its newest checkpoint, certify the steps spent, destroy the key.

    Stop reldp train first (Ctrl-C saves a checkpoint). The graph is not needed. The certificate covers every step that
    the ledger counts and states what decided; after a decision by a result it covers all planned steps. If somebody
    looked at sensitive values, such as losses, no epsilon covers the decision: abandon the run. The run cannot be
    resumed afterwards.
    """
    from reldp.training.finishing import finish, named_encoder

    certificate = finish(run, decided_by=decided_by, encoder=named_encoder(run, model))
    steps = certificate.values["steps"]
    if as_json:
        print_json(
            {
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "given": certificate.given,
                "status": certificate.status,
                "summary": certificate.summary,
                "steps": steps,
                "folder": str(run),
            }
        )
        return
    say(certificate.summary)
    condition = part_condition(certificate.values)
    click.echo(
        f"\nsteps        {steps['counted']:,} counted of {steps['planned']:,} planned{condition}"
    )
    click.echo(f"model        {run / 'model'}")
    click.echo(f"certificate  {run / 'certificate.md'}")
    click.echo(f"\nCheck it: reldp verify {shell_word(run)}")
