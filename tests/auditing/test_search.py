import json

import numpy as np
import pytest

from reldp.auditing.search import Batch, claimed_shift, families, movement, search_neighbors
from reldp.clipping import ClippingRule, get_rule
from reldp.errors import InputError


def exhaustive_movement(rule, batch):
    """The sum's movement with explicit aligned gradients, signs chosen unit by unit."""
    has_entity = (batch.positives == 0).any(axis=1)
    before = rule.units(batch.positives, batch.negatives, clip_norm=1.0)
    replaced = np.where(batch.negatives == 0, batch.substitute, batch.negatives)[~has_entity]
    after = rule.units(batch.positives[~has_entity], replaced, clip_norm=1.0)
    key = lambda row: tuple(row)  # noqa: E731 - a gradient is a function of the unit's members
    was = {key(row): limit for row, limit in zip(before.entities, before.thresholds, strict=True)}
    now = {key(row): limit for row, limit in zip(after.entities, after.thresholds, strict=True)}
    return sum(abs(was.get(unit, 0.0) - now.get(unit, 0.0)) for unit in {*was, *now})


@pytest.mark.parametrize("name", ["tuple", "pair", "frequency"])
def test_movement_is_what_gradients_per_unit_can_reach(name):
    for _, batch in families(3, 2):
        expected = exhaustive_movement(get_rule(name), batch)
        assert movement(get_rule(name), batch) == pytest.approx(expected)


def test_families_are_legal_batches():
    actual = list(families(4, 3))
    assert len(actual) > 20
    assert all(batch.legal(4) for _, batch in actual)


def test_illegal_batches_are_recognized():
    batch = dict(families(3, 1))["star 3, tails 0"]
    assert not batch.legal(2)  # degree
    twice = Batch(batch.positives, np.full_like(batch.negatives, 9), 50)
    assert not twice.legal(3)  # a negative used more than once
    same = Batch(np.array([[0, 1], [1, 0]]), np.array([[5], [6]]), 50)
    assert not same.legal(3)  # a relation twice


def test_the_frequency_rule_is_broken_from_families_and_from_nothing():
    rule = get_rule("frequency")
    actual = search_neighbors(rule, max_degree=5, num_negatives=4, evaluations=300)
    assert actual.ratio >= 6.75
    assert actual.batch.legal(5)
    assert actual.verdict.startswith("REFUTED: in a batch of")
    assert json.loads(json.dumps(actual.to_dict()))["batch"]["entity"] == 0
    alone = search_neighbors(
        rule, max_degree=5, num_negatives=4, evaluations=6000, use_families=False
    )
    assert alone.ratio > 1.75
    assert exhaustive_movement(rule, alone.batch) == pytest.approx(alone.moved)


@pytest.mark.parametrize("name", ["tuple", "pair"])
def test_the_proven_rules_hold_and_their_claims_are_reached(name):
    actual = search_neighbors(get_rule(name), max_degree=3, num_negatives=3, evaluations=3000)
    assert actual.ratio == pytest.approx(1.0, abs=1e-9)
    assert not actual.refuted
    assert actual.verdict.startswith("Consistent: of 3,000 batches none")


def test_a_pair_rule_that_divides_by_unmasked_negatives_is_caught():
    class Renormalized:
        """Gives a pair more room when another negative of its tuple is masked."""

        def units(self, positives, negatives, *, clip_norm):
            mask = (negatives[:, :, None] == positives[:, None, :]).any(axis=2)
            units = get_rule("pair").units(positives, negatives, clip_norm=clip_norm, mask=mask)
            room = clip_norm / np.maximum((~mask).sum(axis=1), 1)
            units.thresholds[:] = np.repeat(room, negatives.shape[1])
            return units

    claim = claimed_shift(get_rule("pair"), 2)
    actual = search_neighbors(
        Renormalized(), max_degree=2, num_negatives=2, claim=claim, evaluations=4000
    )
    assert actual.ratio > 1.4


def test_a_foreign_rule_needs_a_claim():
    class Foreign:
        units = ClippingRule.units

    with pytest.raises(InputError, match="`claim` must be given"):
        search_neighbors(Foreign(), max_degree=2, num_negatives=1)
