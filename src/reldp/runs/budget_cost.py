"""Epsilon of everything that is spent on the same data: runs of different plans, searches and releases of sizes.

Steps of all runs are composed by their privacy-loss distributions: all together, or in two groups by the analysis that
is better for each run alone, whose epsilons are added. The sum of the runs' own epsilons is a bound as well, and the
smallest of these holds. This needs that the plans, and the number of runs, were fixed without looking at results of
earlier runs on the data (theory.md 3.5). For plans that may have been chosen after looking, the epsilons and deltas of
the runs are added: each run has the delta of its own plan, which was fixed when the run was chosen.

Releases of private sizes are added, each once, however many runs use it. Searches (`reldp.accounting.search`) are
added, each with its own part of delta; a search of a fixed number of runs counts as these runs. A run counts with
all of its planned steps, whether or not it took them.

Public inside the package: `Charge`, `added_delta`, `composed_epsilon`, `search_epsilon`.

>>> composed_epsilon([], 1e-6)
0.0
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from reldp.accounting.events import Composition
from reldp.accounting.pld import PLDAccountant
from reldp.accounting.search import SearchSize, search_cost
from reldp.errors import PlanError
from reldp.plan import PrivacyPlan

__all__ = ["Charge", "added_delta", "composed_epsilon", "search_epsilon"]


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A run, a search that releases its best run, or a release of private sizes.

    Attributes:
        plan: The plan of the run, or of every run of the search; None for a release of sizes.
        search: The number of runs or its distribution; None for a single run.
        release: Which private sizes are released, or used by the plan.
        epsilon: Epsilon of a release.
        delta: Delta of a release.
    """

    plan: PrivacyPlan | None = None
    search: SearchSize | None = None
    release: str | None = None
    epsilon: float = 0.0
    delta: float = 0.0


def composed_epsilon(charges: Sequence[Charge], delta: float, *, adaptive: bool = False) -> float:
    """Return an epsilon at delta that covers all charges together.

    Args:
        charges: The runs, searches and releases.
        delta: The delta of the whole.
        adaptive: Whether plans, or their number, may have been chosen by looking at results of earlier runs.

    Returns:
        Epsilon; infinite if delta is too small, or a run has no noise or no proof.
    """
    if not charges:
        return 0.0
    sizes, sizes_delta = _sizes(charges)
    rest = delta - sizes_delta
    used = [charge for charge in charges if charge.plan is not None]
    if rest <= 0 or any(c.plan is not None and c.plan.status != "proven" for c in used):
        return math.inf
    if not used:
        return sizes
    if adaptive:
        return sizes + _added(used, rest)
    searches = [c for c in used if _is_drawn(c)]
    runs = tuple(plan for c in used if not _is_drawn(c) for plan in _plans(c))
    share = rest / (bool(runs) + len(searches))
    steps = min(_steps_epsilon(runs, share), _grouped(runs, share)) if runs else 0.0
    if len(used) == 1:  # a search alone says what to change
        return sizes + steps + sum(_one(charge, share) for charge in searches)
    composed = steps + _total((charge, share) for charge in searches)
    return sizes + min(composed, _added(used, rest))


def added_delta(charges: Sequence[Charge]) -> float:
    """Return the sum of the deltas of all charges: that of what is spent where plans may be chosen by results."""
    parts = [c.plan.delta - c.plan.sizes_delta for c in charges if c.plan is not None]
    return math.fsum([*parts, _sizes(charges)[1]])


def search_epsilon(plan: PrivacyPlan, size: SearchSize, delta: float) -> float:
    """Return the epsilon at delta of releasing the best run of a search; private sizes included."""
    return composed_epsilon([Charge(plan=plan, search=size)], delta)


def _added(charges: Sequence[Charge], delta: float) -> float:
    """Return the sum of epsilons, each at the delta of its own plan; infinite if these are more than delta."""
    parts = [c.plan.delta - c.plan.sizes_delta for c in charges if c.plan is not None]
    if math.fsum(parts) > delta * (1 + 1e-12):
        return math.inf
    return _total(zip(charges, parts, strict=True))


def _total(parts: Iterable[tuple[Charge, float]]) -> float:
    """Return the sum of the epsilons of runs or searches, each at its delta; infinite if one has none."""
    try:
        return math.fsum(_one(charge, delta) for charge, delta in parts)
    except PlanError:  # as in `_steps_epsilon`
        return math.inf


def _grouped(plans: tuple[PrivacyPlan, ...], delta: float) -> float:
    """Return the sum of the epsilons of two groups of runs, by the analysis that is better for each; infinite for one.

    One analysis is used for all steps that are composed, and few large batches want another one than many small ones.
    """
    groups: dict[str, list[PrivacyPlan]] = {}
    for plan in plans:
        groups.setdefault(_analysis(plan), []).append(plan)
    if len(groups) == 1:
        return math.inf
    return math.fsum(_steps_epsilon(tuple(g), delta / len(groups)) for g in groups.values())


@lru_cache(maxsize=256)
def _analysis(plan: PrivacyPlan) -> str:
    """Return the analysis that gives the smaller epsilon of a plan's steps."""
    accountant, delta = PLDAccountant(wide_charge=True), plan.delta - plan.sizes_delta
    try:
        return accountant.epsilon(_steps([plan]), delta).analysis
    except PlanError:  # as in `_steps_epsilon`
        return "none"


def _one(charge: Charge, delta: float) -> float:
    """Return the epsilon of the steps of a run or search alone."""
    assert charge.plan is not None
    if charge.search is not None and _is_drawn(charge):
        return _search_epsilon(charge.plan, charge.search, delta)
    return _steps_epsilon(_plans(charge), delta)


def _is_drawn(charge: Charge) -> bool:
    """Return whether a charge is a search whose number of runs is drawn."""
    return charge.search is not None and charge.search.runs is None


def _plans(charge: Charge) -> tuple[PrivacyPlan, ...]:
    """Return the plans of a run, or of all runs of a search of a fixed number."""
    assert charge.plan is not None
    count = 1 if charge.search is None else charge.search.runs
    return (charge.plan,) * (count or 1)


def _sizes(charges: Sequence[Charge]) -> tuple[float, float]:
    """Return epsilon and delta of all releases of sizes; runs that name a release share it."""
    drawn: dict[object, tuple[float, float]] = {}
    used: dict[object, tuple[float, float]] = {}
    for number, charge in enumerate(charges):
        name = number if charge.release is None else charge.release
        if charge.plan is None:
            epsilon, delta = drawn.get(name, (0.0, 0.0))
            drawn[name] = epsilon + charge.epsilon, delta + charge.delta
        else:
            epsilon, delta = used.get(name, (0.0, 0.0))
            plan = charge.plan
            used[name] = max(epsilon, plan.sizes_epsilon), max(delta, plan.sizes_delta)
    both = {
        name: [
            max(pair) for pair in zip(drawn.get(name, (0, 0)), used.get(name, (0, 0)), strict=True)
        ]
        for name in {**drawn, **used}
    }
    return math.fsum(e for e, _ in both.values()), math.fsum(d for _, d in both.values())


def _steps(plans: Sequence[PrivacyPlan]) -> Composition:
    """Return all steps of some plans; equal ones are merged."""
    steps = Composition(())
    for plan in plans:
        steps = steps + plan.event * plan.num_steps
    return steps


@lru_cache(maxsize=64)
def _steps_epsilon(plans: tuple[PrivacyPlan, ...], delta: float) -> float:
    try:
        return PLDAccountant(wide_charge=True).epsilon(_steps(plans), delta).epsilon
    except (
        PlanError
    ):  # batches that cannot be drawn take too large a part of this delta, though not of the plans'
        return math.inf


@lru_cache(maxsize=64)
def _search_epsilon(plan: PrivacyPlan, size: SearchSize, delta: float) -> float:
    return search_cost(_steps([plan]), size, delta).epsilon
