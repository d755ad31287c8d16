"""One mistake: a plan, two neighboring graphs, and a wrong part in the place of ours."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from reldp.auditing.audit import audit_mechanism
from reldp.auditing.designs import ZERO_ELSEWHERE
from reldp.auditing.mechanism import real_parts
from reldp.auditing.neighbors import pair_from_relations
from reldp.plan import PrivacyPlan


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mistake and the audit that must catch it.

    `wrong` makes the parts of a step for one graph, like `real_parts`. The same audit, with our own
    parts and the tuple or the pair rule, must not object.
    """

    letter: str
    title: str
    plan: PrivacyPlan
    pair: object
    wrong: object
    design: object = ZERO_ELSEWHERE
    num_steps: int = 1
    trials: int = 1000
    right_pair: object = None  # where the mistake is in the graph itself

    def audit_wrong(self, seed):
        """The audit of the mistake."""
        return self._audit(self.plan, self.wrong, self.pair, seed)

    def audit_right(self, seed, clipping):
        """The audit of our own code under a rule."""
        plan = replace(self.plan, clipping=clipping)
        return self._audit(plan, _right_parts, self.right_pair or self.pair, seed)

    def _audit(self, plan, parts, pair, seed):
        return audit_mechanism(
            plan,
            trials=self.trials,
            num_steps=self.num_steps,
            deltas=[plan.delta],
            confidence=0.99,
            key=bytes([seed]) * 32,
            designs=[self.design],
            pair=pair,
            parts=parts,
        )


def _right_parts(plan, graph, key):
    """Our own parts; batches do not depend on the clipping rule, so they are drawn once for all rules."""
    sample = _right_sample(replace(plan, clipping="tuple"), graph, key)
    return replace(real_parts(plan, graph, key), sample=sample)


@lru_cache(maxsize=4)  # both graphs of a case
def _right_sample(plan, graph, key):
    return lru_cache(maxsize=None)(real_parts(plan, graph, key).sample)


def plan_of(**changes):
    """A small plan with full sampling; delta is large so that few trials see much."""
    settings = {
        "num_entities": 60, "num_relations": 5, "max_degree": 5, "num_negatives": 2,
        "sample_rate": 1.0, "num_steps": 1, "noise_multiplier": 1.0, "delta": 0.05,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def pair_of(plan, relations, partners):
    """Neighbors in which every entity is protected."""
    return pair_from_relations(
        relations,
        entity_relations=partners,
        num_entities=plan.num_entities,
        max_degree=plan.max_degree,
    )


def star(plan, others=0):
    """The entity with K partners, and relations that touch none of them."""
    first = plan.max_degree
    apart = [(first + 2 * i, first + 2 * i + 1) for i in range(others)]
    return pair_of(plan, apart, range(plan.max_degree))


def star_with_tails(plan):
    """theory.md 2.1: the entity with partners a_i, each of which has one more relation."""
    arms = range(plan.max_degree)
    return pair_of(plan, [(a, plan.max_degree + a) for a in arms], arms)


def replaced(**wrong):
    """Makes parts like ours with some replaced; each value is called with (plan, graph, key, parts)."""

    def maker(plan, graph, key):
        parts = real_parts(plan, graph, key)
        return replace(parts, **{n: make(plan, graph, key, parts) for n, make in wrong.items()})

    return maker


def with_thresholds(units, thresholds):
    """The same units with other thresholds."""
    return replace(units, thresholds=np.asarray(thresholds, dtype=np.float64))
