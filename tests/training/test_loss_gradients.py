"""Every loss in a real step: against a loop of autograd calls, and against a neighbor of the graph."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from reldp._validate import LOSSES, OBJECTIVES, PAIRINGS, TYPED_LOSSES
from reldp.clipping import RULES, ClipUnits
from reldp.losses import LossBatch, MatryoshkaLoss, make_loss
from reldp.losses.saved import typed_part
from reldp.noise import Streams
from reldp.training.step import PrivateStep
from tests.training.small import TYPES, small_parts, small_types, some_units
from tests.training.test_objective import Bilinear

torch.set_num_threads(1)
CLIP = 0.2


def settings(name, pairing):
    return make_loss(name, pairing=pairing, temperature=0.5)


CASES = [
    pytest.param(rule, settings(name, pairing), id=f"{rule}-{name}-{pairing}")
    for rule in ("tuple", "pair", "frequency")
    for name in LOSSES
    for pairing in PAIRINGS
    if rule != "pair" or (name != "infonce" and pairing != "all")
]
CASES += [
    pytest.param(rule, MatryoshkaLoss(loss, [4, 2], weights=[1.0, 0.5]), id=f"{rule}-{name}-dims")
    for rule in ("tuple", "pair", "frequency")
    for name in LOSSES
    for loss in [settings(name, "both")]
    if rule != "pair" or name != "infonce"
]
CASES += [
    pytest.param(rule, loss, id=f"{rule}-{name}")
    for rule in ("tuple", "pair", "frequency")
    for name, loss in (("dims-module", MatryoshkaLoss(Bilinear(), [4])), ("module", Bilinear()))
]


def typed(name, **chosen):
    """A typed loss whose vectors differ by type; gradients of distances are long enough to be clipped."""
    loss = make_loss(name, type_names=TYPES, dim=4, temperature=0.5, **chosen)
    with torch.no_grad():
        loss.relations.weight.add_(torch.randn(3, 4, generator=torch.Generator().manual_seed(3)))
    return loss


TYPED = [
    pytest.param(
        rule,
        typed(name, objective=objective, pairing=pairing),
        id=f"{rule}-{name}-{objective}-{pairing}",
    )
    for rule in ("tuple", "pair", "frequency")
    for name in TYPED_LOSSES
    for objective, pairing in [
        *((objective, "both") for objective in OBJECTIVES),
        ("logistic", "one"),
    ]
    if rule != "pair" or objective != "infonce"
]
TYPED += [
    pytest.param(rule, loss, id=f"{rule}-{name}")
    for rule in ("tuple", "pair")
    for name, loss in (
        ("transe-l1", typed("transe", distance="l1", objective="logistic")),
        ("distmult-dims", MatryoshkaLoss(typed("distmult", objective="hinge"), [4, 2])),
        ("transe-dims", MatryoshkaLoss(typed("transe", objective="hinge"), [4, 2])),
    )
]
CASES += TYPED


@cache
def opened(rule, loss, **plan):
    """A step and its parts; tests take sums only, which leave a step as it was, so they share it."""
    types = None if typed_part(loss) is None else small_types()
    parts = small_parts(types=types, clipping=rule, clip_norm=CLIP, **plan)
    step = PrivateStep(*parts, loss=loss)
    step.open(Streams(bytes(range(32))))
    step.close()
    return step, parts


def unit_gradient(step, entities, endpoints, mask, kind):
    """The gradient of one clip unit by plain autograd, all trained parameters as one vector."""
    encoder, loss = step._encoder, step._objective.loss
    rows = encoder.embed(encoder.rows(step._rows.table, entities))[None]
    kinds = None if kind is None else [kind]
    value = loss(rows, LossBatch.of(endpoints[None], mask[None], kinds)).sum()
    gradients = torch.autograd.grad(
        value, list(step.parameters.values()), allow_unused=True, materialize_grads=True
    )
    return torch.cat([g.reshape(-1).double() for g in gradients])


@pytest.mark.parametrize(("rule", "loss"), CASES)
def test_the_clipped_sum_equals_a_loop_of_autograd_calls(rule, loss):
    step, _ = opened(rule, loss)
    units = step.clip_units(step.draw(0))
    expected, num_clipped = loop_of_autograd_calls(step, units)
    result = step.clipped_sum(units)
    total = result.total * step._plan.grid
    assert num_clipped > 0
    assert result.num_units == units.num_units
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)


def loop_of_autograd_calls(step, units):
    """The clipped sum and the number of clipped units, one unit at a time."""
    expected = torch.zeros(sum(p.numel() for p in step.parameters.values()), dtype=torch.float64)
    num_clipped = 0
    for unit in range(units.num_units):
        given = units.entities[unit], units.endpoints[unit], units.mask[unit]
        kind = None if units.types is None else int(units.types[unit])
        gradient, bound = unit_gradient(step, *given, kind), float(units.thresholds[unit])
        num_clipped += float(gradient.norm()) > bound
        expected += gradient * min(1.0, bound / max(float(gradient.norm()), 1e-12))
    return expected, num_clipped


@pytest.mark.parametrize(("rule", "loss"), TYPED)
def test_the_oracle_refutes_units_with_the_types_of_others(rule, loss):
    """The control: the same units with their types moved on by one."""
    step, _ = opened(rule, loss)
    units = step.clip_units(step.draw(0))
    expected, _ = loop_of_autograd_calls(step, units)
    wrong = replace(units, types=(units.types + 1) % 3)
    total = step.clipped_sum(wrong).total * step._plan.grid
    assert float((total - expected).norm()) > 0.1 * float(expected.norm())
    vectors = sum(p.numel() for p in step._encoder.trainable().values())
    assert float((total - expected)[vectors:].abs().max()) > 1e-3


def with_entity(batch, entity, num_entities):
    """A batch in which the entity is an endpoint, and a negative of one tuple elsewhere; and its place there."""
    negatives, mask = np.array(batch.negatives), np.array(batch.mask)
    outside = ~(batch.positives == entity).any(1)
    places = np.argwhere((negatives == entity) & outside[:, None])
    row, column = places[0] if len(places) else (np.flatnonzero(outside)[0], 0)
    negatives[row, column], mask[row, column] = entity, False
    used = [*negatives.flat, *batch.positives.flat]
    replaced = negatives.copy()
    replaced[row, column] = np.setdiff1d(np.arange(num_entities), used)[0]
    return outside, row, negatives, replaced, mask


@pytest.mark.parametrize(("rule", "loss"), [case for case in CASES if "frequency" not in case.id])
def test_removing_an_entity_moves_the_sum_by_at_most_the_stated_sensitivity(rule, loss):
    """All other draws stay: the entity's relations leave, and as a negative it is replaced."""
    step, (_, capped, plan) = opened(rule, loss, expected_batch_size=40.0)
    for number in range(2):
        batch = step.draw(number)
        entity = int(batch.positives[0, 0])
        outside, row, negatives, replaced, mask = with_entity(batch, entity, capped.num_entities)

        def total(places, negatives, batch=batch, mask=mask):
            units = plan.clipping.units(
                batch.positives[places],
                negatives[places],
                clip_norm=CLIP,
                endpoints=batch.endpoints[places],
                mask=mask[places],
                types=None if batch.types is None else batch.types[places],
            )
            return step.clipped_sum(units).total  # in whole steps of the grid

        kept = np.flatnonzero(outside)
        moved = total(np.arange(len(outside)), negatives) - total(kept, replaced)
        stated = float((~outside).sum()) * plan.clipping.removal_sensitivity()
        stated += plan.clipping.replacement_sensitivity(plan.num_negatives)
        assert 0 < float(moved.norm()) * plan.grid <= stated * CLIP * (1 + 1e-9)
        # Tuples without the entity contribute the same, to the last bit.
        rest = kept[kept != row]
        alone = total(np.array([row]), negatives)
        assert torch.equal(total(kept, negatives) - alone, total(rest, negatives))


@pytest.mark.parametrize(("rule", "loss"), [case for case in TYPED if "frequency" not in case.id])
def test_a_neighbor_refutes_types_that_do_not_leave_with_their_relations(rule, loss):
    """The control: types of the first places, whichever relations are left."""
    step, (_, _, plan) = opened(rule, loss, expected_batch_size=40.0)
    batch = step.draw(0)
    outside = ~(batch.positives == int(batch.positives[0, 0])).any(1)

    def total(places, types):
        names = ("positives", "negatives", "endpoints", "mask")
        given = {name: getattr(batch, name)[places] for name in names}
        units = plan.clipping.units(**given, types=types, clip_norm=CLIP)
        return step.clipped_sum(units).total

    whole = total(np.arange(len(outside)), batch.types)
    kept = np.flatnonzero(outside)
    stated = float((~outside).sum()) * plan.clipping.removal_sensitivity() * CLIP
    for types, holds in ((batch.types[kept], True), (batch.types[: len(kept)], False)):
        moved = float((whole - total(kept, types)).norm()) * plan.grid
        assert (moved <= stated * (1 + 1e-9)) == holds


@pytest.mark.parametrize(("rule", "loss"), CASES)
def test_no_unit_contributes_more_than_its_threshold_whatever_the_others_are(rule, loss):
    step, _ = opened(rule, loss)
    units: ClipUnits = step.clip_units(step.draw(1))
    places = np.arange(units.num_units)[:10]
    whole = step.clipped_sum(some_units(units, places)).total
    for place in places:
        alone = step.clipped_sum(some_units(units, [place])).total
        less = step.clipped_sum(some_units(units, np.delete(places, place))).total
        assert torch.equal(whole - less, alone)
        assert float(alone.norm()) * step._plan.grid <= units.thresholds[place]


def test_every_rule_has_cases():
    assert {case.values[0] for case in CASES} == set(RULES)
