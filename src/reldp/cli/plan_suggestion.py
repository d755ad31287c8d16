"""The plan that ``reldp inspect`` suggests, from bounds on the graph's sizes.

Settings that follow from exact sizes would tell them to whoever sees the plan (theory.md 2.4), so a
suggestion is made from bounds only. Private bounds are drawn once per capped graph and cost
epsilon: looking at a graph must not spend that unasked. Without a stored release there is no
suggestion, only what a release would cost, unless the caller asks for one.

Private to the commands: `Suggestion`, `suggest`.

>>> Suggestion(note="No plan yet.").to_json()["plans"]
[]
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reldp.graph.capped import CappedGraph
    from reldp.graph.inspection import SuggestedSettings
    from reldp.graph.sizes import SizeBounds

__all__ = ["Suggestion", "suggest"]


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A plan to start from, or why there is none.

    Attributes:
        bounds: What the plan knows about the sizes.
        settings: Batch, steps and negatives.
        plans: The noise that each target needs.
        note: Why there is no plan; empty if there is one.
    """

    bounds: "SizeBounds | None" = None
    settings: "SuggestedSettings | None" = None
    plans: Sequence[dict[str, Any]] = field(default_factory=list)
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The suggestion as plain values."""
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
    """A plan for every target.

    Args:
        capped: The graph, its degrees bounded.
        sizes: The mode of sizes and declared bounds: ``sizes``, ``min_entities``, ``max_relations``.
        targets: Target epsilons.
        folder: The graph's folder, where private sizes are stored.
        release: Whether private sizes may be released now, if they have not been.
    """
    from reldp.errors import PlanError
    from reldp.graph.inspection import suggest_settings
    from reldp.graph.sizes import bounds_for, has_release

    if sizes["sizes"] == "private" and not release and not has_release(capped, folder):
        return Suggestion(note=_cost_of_release(capped, min(targets)))
    try:
        bounds = bounds_for(capped, target_epsilon=min(targets), folder=folder, **sizes)
    except PlanError as error:
        return Suggestion(note=str(error))
    settings = suggest_settings(capped.max_degree, bounds.max_relations)
    rows = [_row(capped, settings, target, sizes, folder) for target in targets]
    return Suggestion(bounds=bounds, settings=settings, plans=rows)


def _cost_of_release(capped: "CappedGraph", target: float) -> str:
    """What there is to know before sizes are released; sensitive like the rest of the page."""
    from reldp.graph.size_release import expected_epsilon

    cost = expected_epsilon(capped, target)
    return (
        "No plan yet: the sizes of this graph are private, and a plan needs bounds on them. They are "
        f"drawn once, stored and reused, for about epsilon {cost:.2g} at a target of {target:g}, "
        "which every certificate includes. Draw them now with --release-sizes; reldp "
        "train draws them too. Or use --sizes public, or --sizes declared with bounds of yours."
    )


def _row(
    capped: "CappedGraph",
    settings: "SuggestedSettings",
    target: float,
    sizes: dict[str, Any],
    folder: Path | None,
) -> dict[str, Any]:
    """The noise that a target needs, or why it cannot be met."""
    from reldp.errors import PlanError
    from reldp.plan import PrivacyPlan

    try:
        plan = PrivacyPlan.for_graph(
            capped,
            target_epsilon=target,
            sizes_folder=folder,
            num_negatives=settings.num_negatives,
            expected_batch_size=settings.expected_batch_size,
            num_steps=settings.num_steps,
            **sizes,
        )
    except PlanError as error:
        return {"target_epsilon": target, "noise_multiplier": None, "reason": str(error)}
    noise = plan.noise_multiplier
    return {
        "target_epsilon": target,
        "delta": plan.delta,
        "noise_multiplier": noise,
        "noise_per_batch": noise / settings.expected_batch_size,
    }
