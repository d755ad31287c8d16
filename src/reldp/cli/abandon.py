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

    The run gets no model and no certificate, and cannot be resumed. Its steps stay spent: their epsilon counts towards
    everything that is released about the graph. To get a model of the steps so far, use reldp finish instead.
    """
    from reldp.runs.ending import abandon
    from reldp.runs.privacy_cost import cost_of_run
    from reldp.runs.run_folder import RunFolder, read_plan

    record = abandon(run)
    cost = cost_of_run(read_plan(RunFolder(run)), "pld", record)
    if as_json:
        print_json(
            {"abandoned": True, "steps": record.num_counted, "epsilon": cost.epsilon}
            | {"delta": cost.delta, "folder": str(run)}
        )
        return
    click.echo(
        f"The run is abandoned and its key destroyed. Its {record.num_counted:,} counted steps stay spent: epsilon "
        f"{round_up(cost.epsilon)} at delta {round_up(cost.delta)}."
    )
