"""What `reldp budget` shows of a budget: its entries, what they cost together, and the limit."""

import math
from itertools import accumulate, pairwise
from operator import or_
from typing import TYPE_CHECKING, Any

from reldp.cli.output import print_json, print_table, round_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reldp.runs.budget import Budget

__all__ = ["show_budget"]

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
_LATE_GUARANTEE = (
    "Warning: limits were set after runs had been entered, or runs were entered after they had been made, so this "
    "holds only if nobody had seen a result before the last of the limits."
)
_EXCEEDED = (
    "No guarantee for choices by results: what was entered costs more than the limit. If settings and number of all "
    "runs were fixed without looking at results, what was spent is what they cost."
)
_LIMIT_EXCEEDED = (
    "What was entered costs more than this limit: runs that were made before they were entered, and copies of runs, "
    "are entered whatever the limit."
)
_GIVEN_SIZES = (
    "Plans with private sizes follow from the released bounds: what they cost together holds given these. A limit that "
    "was set before they were released, and was kept, holds without this condition (theory.md 3.5)."
)
_LIMIT_FIELDS = ("epsilon", "delta", "adaptive", "date")
_LATE_CONDITION = "nobody had seen a result before the limits that came after runs were set"
_CONDITIONS = {
    False: "settings and number of all runs were fixed without looking at results",
    True: "the limit was fixed before the first result was seen",
}


def show_budget(budget: "Budget", delta: float | None, as_json: bool) -> None:
    """Print the entries and what they cost together."""
    limit = budget.limit
    at = delta if delta is not None else None if limit is None else float(limit["delta"])
    spent = None if at is None else budget.epsilon(at)
    spent_at = None if at is None else budget.spent_delta(at)
    entries = [e for e in budget.entries if e["kind"] in ("run", "search", "sizes")]
    guaranteed = budget.guarantee
    is_exceeded = _is_exceeded(budget, guaranteed, at, spent)
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
                if budget.is_adaptive and budget.is_guarantee_late
                else _CONDITIONS[budget.is_adaptive],
                "given_released_sizes": _follows_from_sizes(entries),
                "exceeded": is_exceeded,
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
    if spent is not None and math.isinf(spent):
        lines += _infinite_lines(entries)
    if limit is not None:
        lines.append(f"Limit: epsilon {limit['epsilon']:g} at delta {limit['delta']:g}.")
        if guaranteed is None and is_exceeded:
            lines.append(_LIMIT_EXCEEDED)
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


def _is_exceeded(
    budget: "Budget",
    guaranteed: tuple[float, float] | None,
    at: float | None,
    spent: float | None,
) -> bool:
    """Return whether what was entered costs more than the limit; `spent` is the epsilon at the delta `at`."""
    if guaranteed is not None:
        return math.isinf(guaranteed[0])
    limit = budget.limit
    if limit is None:
        return False
    delta = float(limit["delta"])
    epsilon = spent if at == delta and spent is not None else budget.epsilon(delta)
    return epsilon > float(limit["epsilon"])


def _infinite_lines(entries: "Sequence[Mapping[str, Any]]") -> list[str]:
    """Return which entry makes epsilon infinite, whatever the others are."""
    from reldp.runs.budget_excess import NO_GUARANTEE, without_proof

    culprit = without_proof(entries)
    return [f"Epsilon is infinite because of {culprit}: {NO_GUARANTEE}."] if culprit else []


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
