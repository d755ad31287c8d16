"""Warnings about plans that are valid but poor.

Nothing here changes a run. The thresholds are rules of thumb for a delta that allows an entity to be published, an
epsilon that guarantees little, noise that is large compared with the signal, and batches that use up the pool of
negatives.

Weights that a run of reldp has released, and that another run starts from, are warned of as well: epsilons add up.

Inside the package: `advice`, `advice_about_start`, `PoorPlanWarning`, `StartingWeightsWarning`.

>>> from reldp.plan import PrivacyPlan
>>> plan = PrivacyPlan(num_entities=10_000, num_relations=20_000, max_degree=5, num_negatives=4,
...                    expected_batch_size=32, num_steps=500, noise_multiplier=0.8, delta=1e-3)
>>> [line.split(",")[0] for line in advice(plan, 3.0)]
['delta should be below 1/n']
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from reldp.errors import RunError
from reldp.runs.model_card import is_own_card
from reldp.runs.plain_files import read_plain

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = ["PoorPlanWarning", "StartingWeightsWarning", "advice", "advice_about_start"]

_LARGE_EPSILON = 10.0
_FULL_POOL = 0.5
_LARGEST_CARD = 2**20
# Noise per coordinate of the mean, divided by the clip norm. At this value, a step in a thousand dimensions is ten
# parts noise to one part signal.
_LARGE_NOISE = 0.3


class PoorPlanWarning(UserWarning):
    """A plan is valid, but its guarantee is weak or it will learn little."""


class StartingWeightsWarning(UserWarning):
    """A run starts from weights that another run has trained."""


def advice_about_start(source: str | Path | None) -> list[str]:
    """Return what must be known of the starting weights: a sentence if a run of reldp has trained them.

    Args:
        source: The folder or hub name that they were loaded from, if any.
    """
    card = Path(source or "") / "README.md" if isinstance(source, str | Path) else None
    try:
        if card is None or not is_own_card(read_plain(card, limit=_LARGEST_CARD)):
            return []
    except (RunError, OSError, ValueError):
        return []
    return [
        "the starting weights were trained by a run of reldp, as their model card says. If that was on data of the "
        "same entities, its epsilon adds to that of this run, whose certificate does not count it "
        "(docs/sharp-edges.md)."
    ]


def advice(plan: "PrivacyPlan", epsilon: float) -> list[str]:
    """Return what is poor about a plan, one sentence each; nothing for a plan without noise.

    Args:
        plan: The plan.
        epsilon: Its epsilon.
    """
    if plan.noise_multiplier == 0:
        return []
    warnings = []
    one, count, number = (
        ("relation", plan.num_relations, "m")
        if plan.unit == "relation"
        else ("entity", plan.num_entities, "n")
    )
    if plan.delta >= 1 / count:
        warnings.append(
            f"delta should be below 1/{number}, which is {1 / count:.2g}, got {plan.delta:.2g}: publishing one {one} "
            "outright would be allowed."
        )
    if epsilon > _LARGE_EPSILON:
        warnings.append(
            f"epsilon should be at most {_LARGE_EPSILON:g} for a meaningful guarantee, got {epsilon:.3g}: "
            "use more noise, fewer steps or a smaller batch."
        )
    noise_ratio = plan.noise_multiplier / plan.expected_batch_size
    if noise_ratio > _LARGE_NOISE:
        warnings.append(
            f"noise should be small beside the batch, got noise multiplier over batch size "
            f"{noise_ratio:.2g}: the noise hides the signal; use a larger batch."
        )
    share = plan.num_negatives * plan.expected_batch_size / plan.pool_size
    if share > _FULL_POOL:
        warnings.append(
            f"negatives should take a small part of the pool, got {share:.0%} per batch: use a "
            "smaller batch or fewer negatives."
        )
    if not plan.clipping.is_local:
        warnings.append(
            "clipping should be tuple or pair, got frequency: its epsilon relies on a claim that is "
            "false in the worst case."
        )
    return [line for line in warnings if not math.isnan(epsilon)]
