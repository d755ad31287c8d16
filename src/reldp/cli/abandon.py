"""``reldp abandon``: ends a run without a model."""

from pathlib import Path

import click

from reldp.cli.commands import Command
from reldp.cli.options import json_option
from reldp.cli.output import print_json, round_up

__all__ = ["command"]


@click.command(cls=Command, examples=["reldp abandon RUN"])
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def command(run: Path, as_json: bool) -> None:
    """Destroy the key of RUN, and record in its ledger that it is abandoned.

    The run gets no model and no certificate, and cannot be resumed. Its epsilon stays spent: it counts towards
    everything that is released about the graph. To get a model of the steps so far, use reldp finish instead.
    """
    from reldp.runs.ending import abandon
    from reldp.runs.privacy_cost import cost_of_run, privacy_cost
    from reldp.runs.run_folder import RunFolder, read_plan

    record = abandon(run)
    plan = read_plan(RunFolder(run))
    counted, planned = (
        cost_of_run(plan, "pld", record),
        privacy_cost(plan, "pld", plan.num_steps),
    )
    if as_json:
        print_json(
            {"abandoned": True, "steps": record.num_counted, "epsilon": planned.epsilon}
            | {"epsilon_of_steps": counted.epsilon, "delta": planned.delta, "folder": str(run)}
        )
        return
    given = ", given the released bounds on sizes" if plan.sizes == "private" else ""
    click.echo(
        f"The run is abandoned and its key destroyed. Epsilon {round_up(planned.epsilon)} at delta "
        f"{round_up(planned.delta)} stays spent, that of all planned steps. Only if nobody looked at results before, "
        "and the time that steps took did not decide it or shows nothing about the data, it is "
        f"{round_up(counted.epsilon)}, that of the {record.num_counted:,} counted steps{given}. If somebody looked at "
        "sensitive values, no epsilon covers the decision."
    )
