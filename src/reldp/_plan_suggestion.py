"""Suggested settings of a plan, and suggested plans for a graph, from bounds on its sizes.

`PrivacyPlan.for_graph`, `reldp train` and `reldp inspect` take what is not given from `suggest_settings`. Settings
that follow from exact sizes would reveal them to whoever sees the plan (docs/theory.md 2.4), so a suggestion is made
from bounds only. Private bounds are released once per capped graph and cost epsilon: inspecting a graph must not spend
it unasked. Without a stored release `suggest` gives no plan but the epsilon that a release would cost, unless the
caller asks for one.

Inside the package: `SuggestedSettings`, `Suggestion`, `suggest`, `suggest_settings`, `with_suggestions`.

>>> suggest_settings(5, 400_000)
SuggestedSettings(max_degree=5, num_negatives=4, expected_batch_size=256, num_steps=3900)
>>> Suggestion(note="No plan yet.").to_json()["plans"]
[]
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.errors import GraphError, PlanError

if TYPE_CHECKING:
    from reldp.graph.capped import CappedGraph
    from reldp.graph.sizes import SizeBounds
    from reldp.plan import PrivacyPlan

__all__ = [
    "SuggestedSettings",
    "Suggestion",
    "lacks_settings",
    "suggest",
    "suggest_settings",
    "with_suggestions",
]

_RATES = ("sample_rate", "expected_batch_size")


@dataclass(frozen=True, kw_only=True)
class SuggestedSettings:
    """Settings of a first plan: a start to measure from, not an optimum.

    Attributes:
        max_degree: The bound to cap at.
        num_negatives: Negatives per positive.
        expected_batch_size: Relations per step on average.
        num_steps: Steps, about two and a half passes over the capped relations.
    """

    max_degree: int
    num_negatives: int
    expected_batch_size: int
    num_steps: int


def suggest_settings(max_degree: int, num_relations: int) -> SuggestedSettings:
    """Return settings to start from, by size alone.

    Batches hold at most half a percent of the relations (amplification by sampling fades above
    that) and at most 256; the steps make about two and a half passes: with a target of epsilon,
    more steps need more noise.

    Args:
        max_degree: The bound that the graph is capped at.
        num_relations: Relations to plan for: a public bound on their number (`SizeBounds`), or the
            exact number where it is public. Settings that follow from a sensitive number tell it.
    """
    size = num_relations
    if size < 1:
        raise GraphError("The graph must have a relation to plan for, got none.")
    batch = 2 ** int(math.log2(min(max(size / 200, 1), 256)))
    steps = max(1, round(2.5 * size / batch))
    scale = 10 ** max(len(str(steps)) - 2, 0)  # two significant digits
    return SuggestedSettings(
        max_degree=max_degree,
        num_negatives=4,
        expected_batch_size=batch,
        num_steps=round(steps / scale) * scale,
    )


def lacks_settings(settings: Mapping[str, Any]) -> bool:
    """Return whether a plan needs a suggestion besides the settings that are given."""
    needed = all(name in settings for name in ("num_negatives", "num_steps"))
    return not needed or not any(name in settings for name in _RATES)


def with_suggestions(
    settings: Mapping[str, Any], max_degree: int, num_relations: int
) -> dict[str, Any]:
    """Return the settings of a plan, with suggestions for those that are not given.

    Args:
        settings: Fields of a plan.
        max_degree: The bound that the graph is capped at.
        num_relations: A public bound on the number of relations, as in `suggest_settings`.
    """
    if not lacks_settings(settings):
        return dict(settings)
    suggested = suggest_settings(max_degree, num_relations)
    filled = {
        "num_negatives": suggested.num_negatives,
        "num_steps": suggested.num_steps,
        **settings,
    }
    if not any(name in settings for name in _RATES):
        filled["expected_batch_size"] = float(suggested.expected_batch_size)
    return filled


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
) -> Suggestion:
    """Return a plan for each target epsilon.

    Args:
        capped: The capped graph.
        sizes: The mode of sizes and declared bounds: ``sizes``, ``min_entities``, ``max_relations``.
        targets: Target epsilons.
        folder: Folder of the graph, where a release of private sizes is stored.
        release: Whether private sizes may be released if they have not been.
    """
    from reldp.graph.sizes import bounds_for, has_release

    if sizes["sizes"] == "private" and not release and not has_release(capped, folder):
        return Suggestion(note=_cost_of_release(capped, min(targets)))
    try:
        bounds = bounds_for(capped, target_epsilon=min(targets), folder=folder, **sizes)
    except PlanError as error:
        return Suggestion(note=str(error))
    settings = suggest_settings(capped.max_degree, bounds.max_relations)
    made = [_made(capped, target, sizes, folder) for target in targets]
    rows = [_row(settings, target, plan) for target, plan in zip(targets, made, strict=True)]
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
    capped: "CappedGraph", target: float, sizes: dict[str, Any], folder: Path | None
) -> "PrivacyPlan | str":
    """Return the plan for a target, or why it cannot be met."""
    from reldp.plan import PrivacyPlan

    try:
        return PrivacyPlan.for_graph(capped, target_epsilon=target, sizes_folder=folder, **sizes)
    except PlanError as error:
        return str(error)


def _row(settings: "SuggestedSettings", target: float, plan: "PrivacyPlan | str") -> dict[str, Any]:
    """Return the noise that a target needs, or why it cannot be met."""
    if isinstance(plan, str):
        return {"target_epsilon": target, "noise_multiplier": None, "reason": plan}
    noise = plan.noise_multiplier
    return {
        "target_epsilon": target,
        "delta": plan.delta,
        "noise_multiplier": noise,
        "noise_per_batch": noise / settings.expected_batch_size,
    }
