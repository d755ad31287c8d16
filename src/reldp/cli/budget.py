"""``reldp budget``: what all runs and searches on the same data cost together, and a limit that they keep."""

import math
from itertools import accumulate, pairwise
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp._validate import UNITS
from reldp.cli.budget_search import search
from reldp.cli.commands import Command, option
from reldp.cli.options import Number, Word, json_option
from reldp.cli.output import print_json, print_table, round_up, say
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reldp.plan import PrivacyPlan
    from reldp.runs.budget import Budget

__all__ = ["command", "run_note"]

_MAIN = "Main options"
_COMPOSED = "Steps of all runs are composed by their privacy-loss distributions."
_WITH_SEARCHES = (
    "Each search whose number of runs is secret has its own epsilon, from Renyi divergences (theory.md 3.5), computed "
    "with an error estimate (3.3). These epsilons are added to that of all other runs, which are composed by "
    "privacy-loss distributions; delta is divided equally."
)
_FIXED = (
    "This holds if settings and number of all runs were fixed without looking at results of runs on this data. To "
    "choose by results, set a limit with --adaptive before anybody sees the first one; no limit that is set later "
    "covers a choice that was made before."
)
_ADDED = "Epsilons and deltas of all runs and searches are added."
_GUARANTEE_IS_LIMIT = (
    "The guarantee is the limit, not what was spent: settings "
    "and number of runs may be chosen by results of earlier runs, if the limit was fixed before anybody saw the first "
    "one."
)
_LATE = (
    "Runs were entered before this limit was set. It is a guarantee for choices by results only if nobody had seen a "
    "result of theirs."
)
_LATE_GUARANTEE = (
    "Warning: limits were set after runs had been entered, or runs were entered after they had been made, so this "
    "holds only if nobody had seen a result before the last of the limits."
)
_EXCEEDED = (
    "No guarantee for choices by results: what was entered costs more than the limit. If settings and number of all "
    "runs were fixed without looking at results, what was spent is what they cost."
)
_EARLIER = (
    "Runs that were made before are not counted: enter them with reldp budget enter FOLDER RUN."
)
_GIVEN_SIZES = (
    "Plans with private sizes follow from the released bounds: what they cost together holds given these. A limit that "
    "was set before they were released holds without this condition (theory.md 3.5)."
)
_LIMIT_FIELDS = ("epsilon", "delta", "adaptive", "date")
_LATE_CONDITION = "nobody had seen a result before the limits that came after runs were set"
_CONDITIONS = {
    False: "settings and number of all runs were fixed without looking at results",
    True: "the limit was fixed before the first result was seen",
}


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
        _show(budget, delta, as_json)
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
    with _open(folder, read_only=True) as budget:
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
        _show(budget, None, as_json)


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


def _show(budget: "Budget", delta: float | None, as_json: bool) -> None:
    """Print the entries and what they cost together."""
    limit = budget.limit
    at = delta if delta is not None else None if limit is None else float(limit["delta"])
    spent = None if at is None else budget.epsilon(at)
    spent_at = None if at is None else budget.spent_delta(at)
    entries = [e for e in budget.entries if e["kind"] in ("run", "search", "sizes")]
    guaranteed = budget.guarantee
    if as_json:
        print_json(
            {
                "unit": budget.unit,
                "epsilon": spent if guaranteed is None else guaranteed[0],
                "delta": at if guaranteed is None else guaranteed[1],
                "spent": spent,
                "spent_delta": spent_at,
                "limit": None if limit is None else limit["epsilon"],
                "limit_delta": None if limit is None else limit["delta"],
                "limits": _limit_values(budget.limits),
                "adaptive": budget.is_adaptive,
                "holds_if": _LATE_CONDITION
                if budget.is_guarantee_late
                else _CONDITIONS[budget.is_adaptive],
                "given_released_sizes": _follows_from_sizes(entries),
                "exceeded": guaranteed is not None and math.isinf(guaranteed[0]),
                "lost": list(budget.lost),
                "entries": [_values(entry) for entry in entries],
            }
        )
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("date", "entry", "steps", "noise", "runs"):
        table.add_column(header)
    for entry in entries:
        table.add_row(entry["date"], *_row(entry))
    is_kept = guaranteed is None or math.isfinite(guaranteed[0])
    lines = [_combination(entries, adaptive=budget.is_adaptive, is_kept=is_kept)]
    if spent_at is not None and spent is not None:
        what = "Epsilon" if guaranteed is None else "Spent: epsilon"
        lines.insert(
            0,
            f"{what} {round_up(spent)} at delta {round_up(spent_at)} for any one {budget.unit} that all runs protect.",
        )
    if at is None and entries:
        lines.insert(
            0,
            "Give --delta to see the epsilon of all runs at this delta: reldp budget show FOLDER --delta.",
        )
    if _follows_from_sizes(entries):
        lines.append(_GIVEN_SIZES)
    if limit is not None:
        lines.append(f"Limit: epsilon {limit['epsilon']:g} at delta {limit['delta']:g}.")
    if guaranteed is not None:
        epsilon, at_delta = guaranteed
        lines.append(
            f"Guarantee for choices by results: epsilon {epsilon:g} at delta {at_delta:g}."
            if is_kept
            else _EXCEEDED
        )
        if is_kept and budget.is_guarantee_late:
            lines.append(_LATE_GUARANTEE)
    lines += [
        f"Earlier limit, replaced on {after['date']}: epsilon {before['epsilon']:g} at delta {before['delta']:g}"
        f"{', adaptive' * before['adaptive']}."
        for before, after in pairwise(budget.limits)
    ]
    lines += [_lost_line(lost, budget.entries[0]["date"]) for lost in budget.lost]
    print_table(table if entries else None, *lines)


def _combination(entries: "Sequence[Mapping[str, Any]]", *, adaptive: bool, is_kept: bool) -> str:
    """Return how the entries make one epsilon, and under which condition it holds (theory.md 3.5)."""
    if not entries:
        return "No run is entered."
    if adaptive:
        return f"{_ADDED} {_GUARANTEE_IS_LIMIT}" if is_kept else _ADDED
    has_searches = any("mean" in entry.get("size", {}) for entry in entries)
    return f"{_WITH_SEARCHES if has_searches else _COMPOSED} {_FIXED}"


def _follows_from_sizes(entries: "Sequence[Mapping[str, Any]]") -> bool:
    """Return whether the plan of a run follows from released bounds on sizes."""
    return any(entry["plan"]["sizes"] == "private" for entry in entries if "plan" in entry)


def _values(entry: Any) -> dict[str, Any]:
    """Return an entry for programs: what is stored of it and may be shown, and what the table shows."""
    shown = {n: v for n, v in entry.items() if n not in ("plan", "token", "release", "salt")}
    if entry["kind"] == "sizes":
        return shown
    plan, size = entry["plan"], entry.get("size", {})
    runs = {"expected_runs": size["mean"]} if "mean" in size else {"runs": size.get("runs", 1)}
    return shown | {
        "steps": plan["num_steps"],
        "noise_multiplier": plan["noise_multiplier"],
        **runs,
    }


def _limit_values(limits: "Sequence[Mapping[str, Any]]") -> list[dict[str, Any]]:
    """Return limits for programs; once a budget is adaptive, it stays so."""
    adaptive = accumulate((bool(limit["adaptive"]) for limit in limits), or_)
    return [
        {n: limit[n] for n in _LIMIT_FIELDS} | {"adaptive": is_adaptive}
        for limit, is_adaptive in zip(limits, adaptive, strict=True)
    ]


def _lost_line(lost: Any, date: str) -> str:
    """Return a sentence about an earlier budget that was declared lost."""
    place = f", last in {lost['folder']}" if "folder" in lost else ""
    count = f", with {lost['entries']:,} lines" if "entries" in lost else ""
    return (
        f"An earlier budget of this data ({lost['id']}{place}{count}) was declared lost on {date}. What was spent "
        "there is not counted here, except for runs that were entered again with reldp budget enter."
    )


def _row(entry: Any) -> list[str]:
    """Return what an entry is: kind, steps, noise and number of runs."""
    if entry["kind"] == "sizes":
        return ["private sizes", "", f"epsilon {round_up(entry['epsilon'])}", ""]
    plan, size = entry["plan"], entry.get("size", {})
    runs = f"{size['mean']:g} expected" if "mean" in size else f"{size.get('runs', 1):,}"
    name = entry.get("purpose", "search")
    return [name, f"{plan['num_steps']:,}", f"{plan['noise_multiplier']:.6g}", runs]
