"""Suggested plans for a graph, from bounds on its sizes.

Settings that follow from exact sizes would reveal them to whoever sees the plan (docs/theory.md 2.4), so a suggestion
is made from bounds only. Private bounds are released once per capped graph and cost epsilon: inspecting a graph must
not spend it unasked. Without a stored release there is no suggestion but the epsilon that a release would cost, unless
the caller asks for one.

Inside the package: `Suggestion`, `suggest`.

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
        bounds: The bounds on the sizes that the plan follows from.
        settings: Batch size, number of steps and of negatives.
        plans: The noise that each target epsilon needs.
        note: Why there is no plan; empty if there is one.
    """

    bounds: "SizeBounds | None" = None
    settings: "SuggestedSettings | None" = None
    plans: Sequence[dict[str, Any]] = field(default_factory=list)
    note: str = ""

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
    """Return what to know before sizes are released. Sensitive, like everything from an inspection."""
    from reldp.graph.size_release import expected_epsilon

    cost = expected_epsilon(capped, target)
    return (
        "No plan yet: the sizes of this graph are private, and a plan needs bounds on them. Noisy bounds are "
        f"released once, stored and reused. They cost about epsilon {cost:.2g} at a target of {target:g}, which "
        "every certificate includes. Release them now with --release-sizes; reldp train releases them too. Or use "
        "--sizes public, or --sizes declared with bounds that you know."
    )


def _row(
    capped: "CappedGraph",
    settings: "SuggestedSettings",
    target: float,
    sizes: dict[str, Any],
    folder: Path | None,
) -> dict[str, Any]:
    """Return the noise that a target needs, or why it cannot be met."""
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
