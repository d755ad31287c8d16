"""Suggested settings of a plan, and suggested plans for a graph, from bounds on its sizes.

`PrivacyPlan.for_graph`, `reldp train` and `reldp inspect` take what is not given from `suggest_settings`. Settings
that follow from exact sizes would reveal them to whoever sees the plan (docs/theory.md 2.4), so a suggestion is made
from bounds only. Private bounds are released once per capped graph and cost epsilon: inspecting a graph must not spend
it unasked. Without a stored release `suggest` gives no plan but the epsilon that a release would cost, unless the
caller asks for one.

Inside the package: `OTHER_RELATIONS`, `SuggestedSettings`, `Suggestion`, `chosen_plan`, `default_choice`,
`lacks_settings`, `suggest`, `suggest_settings`, `with_suggestions`.

>>> suggest_settings(5, 400_000)
SuggestedSettings(max_degree=5, num_negatives=4, expected_batch_size=256, num_steps=3900, negatives='entities')
>>> Suggestion(note="No plan yet.").to_json()["plans"]
[]
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp._gain_curve import Choice, gain_advice, gain_table
from reldp._validate import check_number
from reldp.errors import GraphError, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reldp.graph.capped import CappedGraph
    from reldp.graph.sizes import SizeBounds
    from reldp.plan import PrivacyPlan

__all__ = [
    "OTHER_RELATIONS",
    "SuggestedSettings",
    "Suggestion",
    "chosen_plan",
    "default_choice",
    "lacks_settings",
    "suggest",
    "suggest_settings",
    "with_suggestions",
]

DEFAULT = Choice(max_degree=5, num_negatives=4, batch=256, passes=2.5)
"""The configuration that is suggested, at any degree bound, unless experiments favor another one."""

OTHER_RELATIONS = Choice(
    max_degree=1,
    num_negatives=7,
    batch=128,
    passes=4.4,
    batch_share=0.0088,
    negatives="relations",
)
"""The one for negatives that are other relations: the best of those that we measured (docs/benchmarks.md)."""

_RATES = ("sample_rate", "expected_batch_size")
_FAR = 2.0  # a configuration that would need so much less noise than the default is not tried


@dataclass(frozen=True, kw_only=True)
class SuggestedSettings:
    """Settings of a first plan: a start to measure from, not an optimum.

    Attributes:
        max_degree: The bound to cap at.
        num_negatives: Negatives per positive.
        expected_batch_size: Relations per step on average.
        num_steps: Steps, by default about two and a half passes over the capped relations.
        negatives: Pool of the negatives.
    """

    max_degree: int
    num_negatives: int
    expected_batch_size: int
    num_steps: int
    negatives: str = "entities"


def default_choice(negatives: str) -> Choice:
    """Return the configuration that is suggested for a pool of negatives."""
    return OTHER_RELATIONS if negatives == "relations" else DEFAULT


def suggest_settings(
    max_degree: int, num_relations: int, choice: Choice = DEFAULT
) -> SuggestedSettings:
    """Return settings to start from, by size alone.

    By default, batches hold at most half a percent of the relations (amplification by sampling fades above that) and at
    most 256; the steps make about two and a half passes: with a target of epsilon, more steps need more noise. Where
    negatives are other relations, `OTHER_RELATIONS` says what takes the place of these numbers.

    Args:
        max_degree: The bound that the graph is capped at.
        num_relations: Relations to plan for: a public bound on their number (`SizeBounds`), or the
            exact number where it is public. Settings that follow from a sensitive number tell it.
        choice: The configuration.
    """
    size = num_relations
    if size < 1:
        raise GraphError("The graph must have a relation to plan for, got none.")
    batch = 2 ** int(math.log2(min(max(size * choice.batch_share, 1), choice.batch)))
    steps = max(1, round(choice.passes * size / batch))
    scale = 10 ** max(len(str(steps)) - 2, 0)  # two significant digits
    return SuggestedSettings(
        max_degree=max_degree,
        num_negatives=choice.num_negatives,
        expected_batch_size=batch,
        num_steps=round(steps / scale) * scale,
        negatives=choice.negatives,
    )


def lacks_settings(settings: Mapping[str, Any]) -> bool:
    """Return whether a plan needs a suggestion besides the settings that are given."""
    needed = all(name in settings for name in ("num_negatives", "num_steps"))
    return not needed or not any(name in settings for name in _RATES)


def with_suggestions(
    settings: Mapping[str, Any],
    max_degree: int,
    num_relations: int,
    choice: Choice | None = None,
) -> dict[str, Any]:
    """Return the settings of a plan, with suggestions for those that are not given.

    Args:
        settings: Fields of a plan.
        max_degree: The bound that the graph is capped at.
        num_relations: A public bound on the number of relations, as in `suggest_settings`.
        choice: The configuration; None for the default of the pool of negatives.
    """
    if not lacks_settings(settings):
        return dict(settings)
    choice = choice or default_choice(settings.get("negatives", "entities"))
    suggested = suggest_settings(max_degree, num_relations, choice)
    filled = {
        "num_negatives": suggested.num_negatives,
        "num_steps": suggested.num_steps,
        **settings,
    }
    if not any(name in settings for name in _RATES):
        filled["expected_batch_size"] = float(suggested.expected_batch_size)
    return filled


def chosen_plan(
    make: "Callable[[dict[str, Any]], PrivacyPlan]",
    settings: Mapping[str, Any],
    max_degree: int,
    num_relations: int,
    target_epsilon: float | None,
) -> "PrivacyPlan":
    """Return the plan for a target, with suggestions for settings that are not given.

    Negatives, batch and steps are those of the configuration that kept the largest share of the gain on the graphs of
    selection, at the degree bound of the graph and the noise that it would have here (`reldp._gain_curve`); those of
    the default where nothing was measured, and where the default was measured, too, and is within the interval of the
    better one. Everything that decides is public: the target, the degree bound, the bounds on the sizes, and
    constants of the package.

    Args:
        make: Returns a plan with some settings.
        settings: Fields of the plan that are given; they stay as they are.
        max_degree: The bound that the graph is capped at.
        num_relations: A public bound on the number of relations, as in `suggest_settings`.
        target_epsilon: Epsilon to calibrate the noise to; None if the noise is given.

    Raises:
        PlanError: The target cannot be met, or a setting breaks its rule.
    """
    filled = with_suggestions(settings, max_degree, num_relations)
    plan = make(filled)
    if target_epsilon is None:
        return plan
    plan, table = plan.calibrate(target_epsilon), gain_table()
    noise, start = gain_advice(plan).noise, default_choice(plan.negatives)
    default = table.on_selection(replace(start, max_degree=max_degree), noise)
    best = -math.inf if default is None else default.share
    for choice in table.choices:
        changed = with_suggestions(settings, max_degree, num_relations, choice)
        near = table.on_selection(choice, noise / _FAR)  # saves computing the noise of most
        fits = (choice.max_degree, choice.negatives) == (max_degree, start.negatives)
        if not fits or near is None or changed == filled:
            continue
        try:
            other = make(changed).calibrate(target_epsilon)
        except PlanError:
            continue
        point = table.on_selection(choice, gain_advice(other).noise)
        if point is not None and (point.low if default is not None else point.share) > best:
            plan, best = other, point.share
    return plan


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A plan to start from, or why there is none.

    Attributes:
        bounds: The bounds on the sizes that the plan follows from.
        settings: Batch size, number of steps and of negatives.
        plans: The noise that each target epsilon needs.
        note: Why there is no plan; empty if there is one.
        made: The plans themselves, of the targets that can be met.
    """

    bounds: "SizeBounds | None" = None
    settings: "SuggestedSettings | None" = None
    plans: Sequence[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    made: Sequence["PrivacyPlan"] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the suggestion as plain values."""
        return {
            "sizes": None if self.bounds is None else asdict(self.bounds),
            **({} if self.settings is None else asdict(self.settings)),
            "plans": list(self.plans),
            "note": self.note,
        }


def suggest(
    capped: "CappedGraph",
    *,
    sizes: dict[str, Any],
    targets: Sequence[float],
    folder: Path | None,
    release: bool,
    negatives: str = "entities",
    min_relations: int | None = None,
) -> Suggestion:
    """Return a plan for each target epsilon.

    Args:
        capped: The capped graph.
        sizes: The mode of sizes and declared bounds: ``sizes``, ``min_entities``, ``max_relations``.
        targets: Target epsilons.
        folder: Folder of the graph, where a release of private sizes is stored.
        release: Whether private sizes may be released if they have not been.
        negatives: Pool of negatives.
        min_relations: Declared lower bound on the relations, if negatives come from these and sizes are declared.
    """
    from reldp.accounting.calibration import SMALLEST_TARGET
    from reldp.graph.sizes import bounds_for, check_bounds, has_release

    for target in targets:
        check_number("target_epsilon", target, low=SMALLEST_TARGET, error=PlanError)
    check_bounds(**sizes)
    if sizes["sizes"] == "private" and not release and not has_release(capped, folder):
        return Suggestion(note=_cost_of_release(capped, min(targets)))
    try:
        bounds = bounds_for(capped, target_epsilon=min(targets), folder=folder, **sizes)
    except PlanError as error:
        return Suggestion(note=str(error))
    default = default_choice(negatives)
    settings = suggest_settings(capped.max_degree, bounds.max_relations, default)
    given = {**sizes, "negatives": negatives}
    if min_relations is not None:
        given["pool_size"] = min_relations
    made = [_made(capped, target, given, folder) for target in targets]
    rows = [_row(target, plan) for target, plan in zip(targets, made, strict=True)]
    plans = [plan for plan in made if not isinstance(plan, str)]
    return Suggestion(bounds=bounds, settings=settings, plans=rows, made=plans)


def _cost_of_release(capped: "CappedGraph", target: float) -> str:
    """Return what to know before sizes are released. Sensitive, like everything from an inspection."""
    from reldp.graph.size_release import expected_epsilon

    cost = expected_epsilon(capped, target)
    return (
        "No plan yet: the sizes of this graph are private, and a plan needs bounds on them. Noisy bounds are "
        f"released once, stored and reused. They cost about epsilon {cost:.2g} at a target of {target:g}, which "
        "every certificate includes. Release them now with --release-sizes; reldp train releases them too. Or use "
        "--sizes public, or --sizes declared with bounds that you know."
    )


def _made(
    capped: "CappedGraph", target: float, given: dict[str, Any], folder: Path | None
) -> "PrivacyPlan | str":
    """Return the plan for a target, or why it cannot be met."""
    from reldp.plan import PrivacyPlan

    try:
        return PrivacyPlan.for_graph(capped, target_epsilon=target, sizes_folder=folder, **given)
    except PlanError as error:
        return str(error).replace("`pool_size`", "`min_relations`")


def _row(target: float, plan: "PrivacyPlan | str") -> dict[str, Any]:
    """Return settings and noise that a target needs and what such noise costs, or why it cannot be met."""
    if isinstance(plan, str):
        return {"target_epsilon": target, "noise_multiplier": None, "reason": plan}
    advice = gain_advice(plan)
    return {
        "target_epsilon": target,
        "delta": plan.delta,
        "negatives": plan.negatives,
        "num_negatives": plan.num_negatives,
        "expected_batch_size": plan.expected_batch_size,
        "num_steps": plan.num_steps,
        "noise_multiplier": plan.noise_multiplier,
        "noise_per_batch": plan.noise_multiplier / plan.expected_batch_size,
        "gain": advice.to_json(),
        "advice": advice.words(target),
    }
