"""Epsilon of the same noise under every rule and analysis.

Rules are compared at the same noise per tuple: standard deviation divided by the largest norm that one tuple can add
to the sum. The frequency rule gives a tuple at most half of the clip norm (theory.md 2), so at equal noise
per tuple its noise multiplier is half of that of the other rules. Its epsilons are claims, not proofs (theory.md 2.1).

Public: `RuleCost`, `compare_rules`, `paper_plan`. Everything here is computed from public constants.

>>> rows = compare_rules(paper_plan(num_steps=10))
>>> [row.clipping for row in rows if row.status == "claimed"]
['frequency', 'frequency']
>>> rows[0].noise_multiplier, rows[-1].noise_multiplier
(0.5, 1.0)
"""

from dataclasses import dataclass, replace

from reldp.clipping import get_rule
from reldp.plan import PrivacyPlan

__all__ = ["RuleCost", "compare_rules", "noise_multiplier_for", "paper_plan"]

# Rule, analysis, accountant: the published ones first, then those with a smaller proven epsilon.
WAYS = (
    ("frequency", "replacement", "rdp"),
    ("frequency", "replacement", "pld"),
    ("tuple", "replacement", "rdp"),
    ("tuple", "replacement", "pld"),
    ("tuple", "anchored", "pld"),
    ("pair", "replacement", "pld"),
)


@dataclass(frozen=True, kw_only=True)
class RuleCost:
    """Epsilon of one way to train and to account.

    Attributes:
        clipping: The rule.
        analysis: The analysis, ``"claimed"`` where the rule has no proof.
        accountant: ``"pld"`` or ``"rdp"``.
        status: ``"proven"`` or ``"claimed"``.
        noise_multiplier: Noise divided by the clip norm, the same noise per tuple in every row.
        epsilon: At the plan's delta, after all its steps.
    """

    clipping: str
    analysis: str
    accountant: str
    status: str
    noise_multiplier: float
    epsilon: float


def noise_multiplier_for(clipping: str, noise_per_tuple: float) -> float:
    """Return the noise multiplier at which a rule has that noise per tuple."""
    return get_rule(clipping).max_tuple_norm * noise_per_tuple


def compare_rules(plan: PrivacyPlan) -> list[RuleCost]:
    """Return epsilon of the plan's setting under every rule that it allows.

    Args:
        plan: Sizes, rate, steps and delta; its noise multiplier is taken as the noise per tuple, and its
            clipping and analysis are ignored.
    """
    rows = []
    for clipping, analysis, accountant in WAYS:
        rule = get_rule(clipping)
        if plan.num_negatives < rule.min_negatives or (plan.unit == "owner" and not rule.is_local):
            continue
        if analysis == "anchored" and plan.sample_rate == 1:
            continue
        if plan.negatives == "relations" and (rule.splits_tuples or not rule.is_local):
            continue
        noise = noise_multiplier_for(clipping, plan.noise_multiplier)
        way = replace(plan, clipping=clipping, analysis=analysis, noise_multiplier=noise)
        cost = way.privacy_cost(accountant)
        rows.append(
            RuleCost(
                clipping=clipping,
                analysis=analysis if rule.is_local else "claimed",
                accountant=accountant,
                status=rule.status,
                noise_multiplier=noise,
                epsilon=cost.epsilon,
            )
        )
    return rows


def paper_plan(num_steps: int = 100_000) -> PrivacyPlan:
    """Return the default setting of the paper's numerical section, delta 1/m, at noise 1 per tuple.

    The paper states noise 0.5 for its frequency rule, whose tuples get half of the clip norm: that is 1 per tuple.
    """
    return PrivacyPlan(
        num_entities=10**6,
        num_relations=5 * 10**6,
        max_degree=5,
        num_negatives=4,
        sample_rate=1e-5,
        num_steps=num_steps,
        noise_multiplier=1.0,
        delta=2e-7,
    )
