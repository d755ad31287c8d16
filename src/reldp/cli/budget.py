"""``reldp budget``: what all runs and searches on the same data cost together, and a limit that they keep."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp._validate import UNITS
from reldp.cli.commands import Command, option
from reldp.cli.options import Number, Word, json_option
from reldp.cli.output import print_json, print_table, round_up
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan
    from reldp.runs.budget import Budget

__all__ = ["command", "enter_run"]

_MAIN = "Main options"
_FIXED = (
    "Composed by privacy-loss distributions. This holds if the settings of all runs were fixed without looking at "
    "results of earlier runs on this data; otherwise set a limit with --adaptive."
)
_ADDED = "The epsilons of all runs are added: settings may be chosen by results of earlier runs."


@click.group()
def command() -> None:
    """Keep a ledger of everything that is spent on the same data.

    A budget is a file in the folder of a graph, or in a folder that several graphs share. reldp train enters every run
    there before it starts, and refuses one that would exceed the limit. Entries are never removed.
    """


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
    default=UNITS[0],
    show_default=True,
    group=_MAIN,
    help="Unit of privacy of all runs.",
)
@json_option
def init(
    folder: Path, limit: float | None, delta: float | None, adaptive: bool, unit: str, as_json: bool
) -> None:
    """Make a budget in FOLDER: that of a graph, or any other."""
    from reldp.runs.budget import Budget

    _check_pair(limit, delta)
    if not folder.is_dir():
        raise ConfigError(f"FOLDER must be a folder, got {str(folder)!r}.")
    with Budget.create(folder, unit=unit) as budget:
        if limit is not None and delta is not None:
            budget.set_limit(limit, delta, adaptive=adaptive)
        _show(budget, delta, as_json)


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
        budget.set_limit(limit, delta, adaptive=adaptive)
        _show(budget, delta, as_json)


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
    with _open(folder) as budget:
        _show(budget, delta, as_json)


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
    click.echo(f"Runs on {graph} are entered in the budget in {other}.")


@command.command(
    "search",
    cls=Command,
    examples=[
        "reldp budget search GRAPH --plan plan.json --mean 30",
        "reldp budget search GRAPH --plan RUN/plan.json --mean 30 --dry-run",
    ],
)
@click.argument("folder", type=click.Path(path_type=Path))
@option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    required=True,
    group=_MAIN,
    metavar="FILE",
    help="plan.json of every run of the search.",
)
@option(
    "--mean",
    type=Number(),
    required=True,
    group=_MAIN,
    metavar="N",
    help="Expected number of runs, above 1.",
)
@option(
    "--distribution",
    type=Word(("logarithmic", "geometric")),
    default="logarithmic",
    show_default=True,
    group=_MAIN,
    help="Distribution of the number of runs; logarithmic costs less, geometric has fewer very long searches.",
)
@option(
    "--delta",
    type=Number(),
    group=_MAIN,
    metavar="DELTA",
    help="Delta at which epsilon is shown (default: the plan's).",
)
@option(
    "--dry-run",
    is_flag=True,
    group=_MAIN,
    help="Show the epsilon of the search, and enter nothing.",
)
@json_option
def search(
    folder: Path,
    plan_file: Path,
    mean: float,
    distribution: str,
    delta: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Enter a search for hyperparameters, and draw its number of runs, which must stay secret.

    Train as many runs with this plan as the command says, each with settings drawn at random from a list that was fixed
    before; choose the best by public data; publish that one and nothing about the others, not even their number. The
    epsilon of the released model is then that of the search (theory.md 3.5), and not the one in its certificate. A
    search with a number of runs that is known costs the composition of its runs: enter each with reldp train.
    """
    from reldp.accounting.search import SearchSize
    from reldp.plan import PrivacyPlan
    from reldp.runs.budget_cost import Charge, composed_epsilon
    from reldp.runs.plain_files import read_plain

    plan = PrivacyPlan.from_json(read_plain(plan_file, limit=2**20))
    size = SearchSize(mean=mean, distribution=distribution)
    at = plan.delta if delta is None else delta
    fields: dict[str, Any] = {
        "epsilon": composed_epsilon([Charge(plan=plan, search=size)], at),
        "one_run": composed_epsilon([Charge(plan=plan)], at),
        "composition": composed_epsilon([Charge(plan=plan)] * round(mean), at),
        "delta": at,
    }
    if not dry_run:
        with _open(folder) as budget:
            budget.enter_search(plan, size)
        fields["num_runs"] = size.draw()
    if as_json:
        print_json(fields)
        return
    click.echo(f"search       epsilon {round_up(fields['epsilon'])} at delta {round_up(at)}")
    click.echo(f"one run      epsilon {round_up(fields['one_run'])}")
    click.echo(f"{round(mean):,} known runs  epsilon {round_up(fields['composition'])}, composed")
    if not dry_run:
        click.echo(f"\nSecret: train {fields['num_runs']:,} runs. Publish the best one only.")


def enter_run(folder: Path | None, graph: str | None, run_folder: Path, plan: "PrivacyPlan") -> str:
    """Enter a run in the budget of its graph before it starts; return a line about it, or nothing.

    Args:
        folder: Folder of the budget, if one was named.
        graph: The graph as it was named.
        run_folder: The run folder; it gets a token.
        plan: The plan of the run.
    """
    from reldp.runs.budget import Budget, run_token
    from reldp.runs.budget_place import find_budget
    from reldp.runs.run_folder import RunFolder

    place = find_budget(graph) if folder is None else folder
    if place is None:
        return ""
    with Budget.open(place) as budget:
        entered = budget.enter_run(run_token(RunFolder(run_folder)), plan)
        spent = budget.epsilon(plan.delta)
    words = "is entered" if entered else "was entered before"
    return (
        f"the run {words} in the budget in {place}: epsilon {round_up(spent)} at delta "
        f"{round_up(plan.delta)} with all runs there."
    )


def _open(folder: Path) -> "Budget":
    """Open the budget of a graph's folder, its own or a shared one."""
    from reldp.runs.budget import Budget
    from reldp.runs.budget_place import find_budget

    return Budget.open(find_budget(folder) or folder)


def _check_pair(limit: float | None, delta: float | None) -> None:
    if (limit is None) != (delta is None):
        raise ConfigError("`limit` and `delta` must be given together, got one of them.")


def _show(budget: "Budget", delta: float | None, as_json: bool) -> None:
    """Print the entries and what they cost together."""
    limit = budget.limit
    at = delta if delta is not None else None if limit is None else float(limit["delta"])
    spent = None if at is None else budget.epsilon(at)
    entries = [e for e in budget.entries if e["kind"] in ("run", "search")]
    if as_json:
        print_json(
            {
                "unit": budget.unit,
                "epsilon": spent,
                "delta": at,
                "limit": None if limit is None else limit["epsilon"],
                "adaptive": budget.is_adaptive,
                "entries": [
                    {n: v for n, v in entry.items() if n not in ("plan", "token")}
                    for entry in entries
                ],
            }
        )
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("date", "entry", "steps", "noise", "runs"):
        table.add_column(header)
    for entry in entries:
        plan = entry["plan"]
        runs = f"{entry['mean']:g} expected" if entry["kind"] == "search" else "1"
        name = entry.get("purpose", "search")
        table.add_row(
            entry["date"], name, f"{plan['num_steps']:,}", f"{plan['noise_multiplier']:.6g}", runs
        )
    lines = ["No run is entered." if not entries else _ADDED if budget.is_adaptive else _FIXED]
    if at is not None and spent is not None:
        lines.insert(
            0, f"Epsilon {round_up(spent)} at delta {round_up(at)} for any one {budget.unit}."
        )
    if limit is not None:
        lines.append(f"Limit: epsilon {limit['epsilon']:g} at delta {limit['delta']:g}.")
    print_table(table, *lines)
