"""The cost of private sizes compared with public ones, computed from the noisy release alone.

The comparison with public sizes needs the exact sizes, which are sensitive. The release holds
unbiased noisy numbers without their margins, so the comparison uses those instead: it is
post-processing of a release that epsilon includes, and off by no more than its noise (theory.md 2.4).

Public inside the package: `noise_increase`, `size_cost`.

>>> from reldp.graph.sizes import SizeBounds
>>> size_cost(None, SizeBounds(min_entities=10, max_relations=20, source="declared"), None)
''
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reldp.runs.wording import relation_bounds

if TYPE_CHECKING:
    from reldp.graph.sizes import SizeBounds
    from reldp.plan import PrivacyPlan

__all__ = ["noise_increase", "size_cost"]


def noise_increase(
    plan: "PrivacyPlan", bounds: "SizeBounds", target_epsilon: float
) -> float | None:
    """Return how much higher the noise is, relative to the signal, than with public sizes.

    Args:
        plan: A plan whose noise was calibrated to the target.
        bounds: The bounds that it was made with.
        target_epsilon: The target.

    Returns:
        The increase, 0.07 for 7 %; None for public and declared sizes.
    """
    if plan.sizes != "private":
        return None
    public = _with_public_sizes(plan, bounds).calibrate(target_epsilon)
    # The rate is b over the upper bound on relations, so a batch holds fewer than b on average.
    missing = plan.num_relations / public.num_relations
    return plan.noise_multiplier / public.noise_multiplier * missing - 1


def size_cost(
    plan: "PrivacyPlan | None", bounds: "SizeBounds", target_epsilon: float | None
) -> str:
    """Return one sentence about the release and its cost; empty for public and declared sizes."""
    if plan is None or plan.sizes != "private":
        return ""
    sentence = (
        f"sizes are private: the plan knows that there are at least {plan.num_entities:,} "
        f"{'owners' if plan.unit == 'owner' else 'entities'} "
        f"and {relation_bounds(plan)}, released once for epsilon {plan.sizes_epsilon:.2g}, which is included"
    )
    if target_epsilon is not None:
        increase = noise_increase(plan, bounds, target_epsilon)
        return f"{sentence}; noise is about {increase:.0%} higher than with public sizes."
    public = _with_public_sizes(plan, bounds)
    return (
        f"{sentence}; with public sizes epsilon would be about {public.epsilon():.3g}. It follows from the "
        "release here: give a target epsilon to fix it beforehand."
    )


def _with_public_sizes(plan: "PrivacyPlan", bounds: "SizeBounds") -> "PrivacyPlan":
    """Return the same plan with public sizes: those of the release, without margins."""
    entities, relations = bounds.expected_entities, bounds.expected_relations
    assert entities is not None, "private bounds have them"
    assert relations is not None, "private bounds have them"
    same_batch: dict[str, Any] = {"sample_rate": None}  # so the rate is another
    return replace(
        plan,
        num_entities=entities,
        num_relations=relations,
        pool_size={"entities": entities, "relations": relations}.get(
            plan.negatives, plan.pool_size
        ),
        expected_batch_size=plan.expected_batch_size,
        sizes="public",
        sizes_epsilon=0.0,
        sizes_delta=0.0,
        **same_batch,
    )
