"""``reldp budget``: what all runs and searches on the same data cost together, and a limit that they keep."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reldp._validate import UNITS
from reldp.cli.budget_search import search
from reldp.cli.budget_show import show_budget
from reldp.cli.commands import Command, option
from reldp.cli.options import Number, Word, json_option
from reldp.cli.output import round_up, say
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.runs.budget import Budget

__all__ = ["command", "run_note"]

_MAIN = "Main options"
_LATE = (
    "Runs were entered before this limit was set. It is a guarantee for choices by results only if nobody had seen a "
    "result of theirs."
)
_EARLIER = (
    "Runs that were made before are not counted: enter them with reldp budget enter FOLDER RUN."
)


@click.group(invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Keep a ledger of everything that is spent on the same data.

    A budget is a file in the folder of a graph, or in a folder that several graphs share. reldp train enters every run
    there before it starts, and refuses one that would exceed the limit. Entries are never removed.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command.command("init", cls=Command, examples=["reldp budget init GRAPH --limit 8 --delta 1e-6"])
@click.argument("folder", type=click.Path(path_type=Path))
@option(
    "--limit", type=Number(), group=_MAIN, metavar="EPSILON", help="Largest epsilon of all runs."
)
@option("--delta", type=Number(), group=_MAIN, metavar="DELTA", help="Delta of the limit.")
@option(
    "--adaptive",
    is_flag=True,
    group=_MAIN,
    help="Allow settings to be chosen by results of earlier runs: epsilons are added instead of composed.",
)
@option(
    "--unit",
    type=Word(UNITS),
    group=_MAIN,
    help="Unit of privacy of all runs (default: owner for a graph with owners, else entity).",
)
@option(
    "--lost-budget",
    "lost",
    multiple=True,
    group=_MAIN,
    metavar="ID",
    help="Id of an earlier budget of the same data that is gone for good, as the refusal of a run shows it. The new "
    "one records it, and does not count what was spent there; may be repeated.",
)
@json_option
def init(
    folder: Path,
    limit: float | None,
    delta: float | None,
    adaptive: bool,
    unit: str | None,
    lost: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a budget in FOLDER: that of a graph, or any other."""
    from reldp.runs.new_budget import new_budget

    _check_pair(limit, delta)
    if not folder.is_dir():
        raise ConfigError(f"FOLDER must be a folder, got {str(folder)!r}.")
    with new_budget(
        folder, unit=unit, limit=limit, delta=delta, adaptive=adaptive, lost=lost
    ) as budget:
        show_budget(budget, delta, as_json)
    if not as_json:
        click.echo(_EARLIER)


@command.command("limit", cls=Command, examples=["reldp budget limit GRAPH --limit 8 --delta 1e-6"])
@click.argument("folder", type=click.Path(path_type=Path))
@option(
    "--limit",
    type=Number(),
    required=True,
    group=_MAIN,
    metavar="EPSILON",
    help="Largest epsilon of all runs.",
)
@option(
    "--delta",
    type=Number(),
    required=True,
    group=_MAIN,
    metavar="DELTA",
    help="Delta of the limit.",
)
@option(
    "--adaptive",
    is_flag=True,
    group=_MAIN,
    help="Allow settings to be chosen by results of earlier runs: epsilons are added instead of composed.",
)
@json_option
def limit_command(folder: Path, limit: float, delta: float, adaptive: bool, as_json: bool) -> None:
    """Set the limit of a budget. It must cover what is spent."""
    with _open(folder) as budget:
        is_late = any(charge.plan is not None for charge in budget.charges)
        budget.set_limit(limit, delta, adaptive=adaptive)
        if is_late and budget.is_adaptive:
            say(f"reldp: warning: {_LATE}", err=True)
        show_budget(budget, delta, as_json)


@command.command("show", cls=Command, examples=["reldp budget show GRAPH --delta 1e-6"])
@click.argument("folder", type=click.Path(path_type=Path))
@option(
    "--delta",
    type=Number(),
    group=_MAIN,
    metavar="DELTA",
    help="Delta at which epsilon is computed (default: that of the limit).",
)
@json_option
def show(folder: Path, delta: float | None, as_json: bool) -> None:
    """Show all runs and searches on the data of FOLDER, and their epsilon together."""
    with _open(folder, read_only=True) as budget:
        show_budget(budget, delta, as_json)


@command.command("share", cls=Command, examples=["reldp budget share GRAPH-2 --with GRAPH-1"])
@click.argument("graph", type=click.Path(path_type=Path))
@option(
    "--with",
    "other",
    type=click.Path(path_type=Path),
    required=True,
    group=_MAIN,
    metavar="FOLDER",
    help="Folder of the budget: another graph's, or any other.",
)
def share(graph: Path, other: Path) -> None:
    """Declare that GRAPH shares entities with other graphs, so that its runs are entered in their budget."""
    from reldp.runs.budget_place import share_budget

    share_budget(graph, other)
    click.echo(f"Runs on {graph} will be entered in the budget in {other}. {_EARLIER}")


@command.command("enter", cls=Command, examples=["reldp budget enter GRAPH RUN-1 RUN-2"])
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def enter(folder: Path, runs: tuple[Path, ...], as_json: bool) -> None:
    """Enter RUNS that were made before FOLDER had a budget, or without it.

    They are spent, so they are entered whatever the limit. A run that is in the budget is not entered again.
    """
    from reldp.runs.budget_entry import enter_past_run

    with _open(folder) as budget:
        for run in runs:
            is_new = enter_past_run(run, budget)
            if not as_json:
                click.echo(f"{run}: {'entered' if is_new else 'in this budget already'}.")
        show_budget(budget, None, as_json)


command.add_command(search)


def run_note(place: Path, plan: "PrivacyPlan") -> str:
    """Return a line about the budget that a run will be entered in.

    Args:
        place: Folder of the budget.
        plan: The plan of the run.
    """
    from reldp.runs.budget import Budget

    if plan.noise_multiplier == 0:  # its delta follows from exact sizes, which are sensitive
        return f"the run will be entered in the budget in {place}, with an infinite epsilon."
    with Budget.open(place, read_only=True) as budget:
        limit = budget.limit
        delta = plan.delta if limit is None else float(limit["delta"])
        spent = budget.epsilon(delta)
    end = "" if limit is None else f" Its limit is epsilon {limit['epsilon']:g} at this delta."
    return (
        f"the run will be entered in the budget in {place}, where epsilon {round_up(spent)} at delta "
        f"{round_up(delta)} was spent before.{end}"
    )


def _open(folder: Path, *, read_only: bool = False) -> "Budget":
    """Open the budget of a graph's folder, its own or a shared one."""
    from reldp.runs.budget import Budget
    from reldp.runs.budget_place import find_budget

    return Budget.open(find_budget(folder) or folder, read_only=read_only)


def _check_pair(limit: float | None, delta: float | None) -> None:
    if (limit is None) != (delta is None):
        raise ConfigError("`limit` and `delta` must be given together, got one of them.")
