"""Mistakes in what is clipped, and to which norm."""

import numpy as np

from reldp.auditing.designs import OPPOSING_ELSEWHERE, Design
from reldp.auditing.mechanism import clip, real_parts, units_of
from reldp.clipping import get_rule
from tests.auditing.mistakes.case import (
    Case,
    pair_of,
    plan_of,
    replaced,
    star,
    star_with_tails,
    with_thresholds,
)

FREQUENCY = plan_of(clipping="frequency")


def without_factor_two(plan, graph, key, parts):
    """C / max frequency: the factor 2 pays for a replaced negative and for changed neighbors."""

    def units(flat):
        right = units_of(plan.clipping, flat, plan.clip_norm)
        return with_thresholds(right, 2 * right.thresholds)

    return units


def counted_per_chunk(plan, graph, key, parts):
    """Frequencies from physical batches of one tuple each, not from the logical batch."""

    def units(flat):
        right = units_of(plan.clipping, flat, plan.clip_norm)
        alone = [
            plan.clipping.thresholds(
                flat.positives[i : i + 1], flat.negatives[i : i + 1], clip_norm=1.0
            )
            for i in range(len(flat.owner))
        ]
        return with_thresholds(right, np.concatenate(alone))

    return units


def column_major(plan, graph, key, parts):
    """Pair (i, j) gets a tuple's threshold as if pairs were laid out negative by negative."""

    def units(flat):
        limits = units_of(plan.clipping, flat, plan.clip_norm).thresholds
        pairs = units_of(get_rule("pair"), flat, plan.clip_norm)
        mixed = [
            np.tile(limits[flat.owner == step], plan.num_negatives) / plan.num_negatives
            for step in range(flat.num_steps)
        ]
        return with_thresholds(pairs, np.concatenate(mixed))

    return units


def per_row(plan, graph, key, parts):
    """Every row of a tuple clipped to C, then added up: k + 2 times the bound."""
    rows = plan.num_negatives + 2
    return lambda gradients, thresholds: rows * clip(gradients / rows, thresholds)


def partial_norm(plan, graph, key, parts):
    """The norm misses a parameter; here the gradient is in that one."""

    def wrong(gradients, thresholds):
        seen = np.linalg.norm(gradients[:, :1], axis=1)
        factors = np.minimum(1.0, thresholds / np.maximum(seen, 1e-12))
        return gradients * factors[:, None]

    return wrong


def by_truncated_text(plan, graph, key, parts):
    """Entities told apart by the first characters of their text, as a tokenizer cuts them."""
    texts = [f"{place % 5} is how this description begins" for place in range(10)]
    texts += [f"{place} is another one altogether" for place in range(10, plan.num_entities)]
    _, known_as = np.unique([text[:12] for text in texts], return_inverse=True)

    def units(flat):
        merged = type(flat)(
            **{
                **vars(flat),
                "positives": known_as[flat.positives],
                "negatives": known_as[flat.negatives],
            }
        )
        limits = units_of(plan.clipping, merged, plan.clip_norm).thresholds
        return with_thresholds(units_of(plan.clipping, flat, plan.clip_norm), limits)

    return units


TWO_ARMS = plan_of(clipping="frequency", max_degree=2, num_relations=2)
MANY_OTHERS = plan_of(clipping="frequency", num_entities=200, num_relations=15)
ONE_RELATION = plan_of(max_degree=1)

CASES = [
    Case(
        letter="a",
        title="frequency rule on the graph of theory.md 2.1",
        plan=FREQUENCY,
        pair=star_with_tails(FREQUENCY),
        wrong=real_parts,
        design=OPPOSING_ELSEWHERE,
    ),
    Case(
        letter="b",
        title="frequency rule without its factor 2",
        plan=TWO_ARMS,
        pair=star_with_tails(TWO_ARMS),
        wrong=replaced(units=without_factor_two),
        design=OPPOSING_ELSEWHERE,
    ),
    Case(
        letter="c",
        title="frequencies counted per chunk",
        plan=FREQUENCY,
        pair=star(FREQUENCY),
        wrong=replaced(units=counted_per_chunk),
        trials=500,
    ),
    Case(
        letter="e",
        title="thresholds taken from another tuple (row-major for column-major)",
        plan=MANY_OTHERS,
        pair=star(MANY_OTHERS, others=15),
        wrong=replaced(units=column_major),
    ),
    Case(
        letter="f",
        title="clipping per row instead of per tuple",
        plan=ONE_RELATION,
        pair=star(ONE_RELATION, others=5),
        wrong=replaced(clip=per_row),
    ),
    Case(
        letter="k",
        title="a parameter left out of the norm",
        plan=ONE_RELATION,
        pair=star(ONE_RELATION, others=5),
        wrong=replaced(clip=partial_norm),
        design=Design(name="hidden", touching=(0.0, 4.0), other=(0.0, 0.0)),
        trials=500,
    ),
    Case(
        letter="m",
        title="entities identified by truncated text",
        plan=FREQUENCY,
        # a_i are 0..4 and c_i are 5..9: c_i reads like a_i, and (c_i, b_i) touches none of the star.
        pair=pair_of(FREQUENCY, [(5 + i, 10 + i) for i in range(5)], range(5)),
        wrong=replaced(units=by_truncated_text),
        design=OPPOSING_ELSEWHERE,
    ),
]
