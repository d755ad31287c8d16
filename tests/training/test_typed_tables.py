"""Tables of many types, and typed losses inside of other modules, in a real step."""

import numpy as np
import pytest
import torch
from torch import nn

from reldp._validate import TYPED_LOSSES
from reldp.losses import DistMultLoss, MatryoshkaLoss, make_loss
from reldp.noise import Streams
from reldp.training.step import PrivateStep
from tests.training.small import (
    TYPES,
    small_encoder,
    small_graph,
    small_parts,
    small_plan,
    small_types,
    some_units,
)
from tests.training.test_loss_gradients import CLIP, loop_of_autograd_calls

torch.set_num_threads(1)
MANY = tuple(f"type {number:04}" for number in range(4500))  # times 4: too many for a copy per unit


def many_types(loss, rule="tuple"):
    """A step on a graph with a list of many types, of which a few hundred occur."""
    types = [MANY[7 * number % len(MANY)] for number in range(600)]
    capped = small_graph(types=types).with_types(MANY).promise_degrees(4)
    plan = small_plan(capped, clipping=rule, clip_norm=CLIP)
    step = PrivateStep(small_encoder(), capped, plan, loss=loss)
    step.open(Streams(bytes(range(32))))
    with torch.no_grad():
        table = next(p for name, p in step.parameters.items() if name.endswith("relations.weight"))
        table.add_(torch.randn(table.shape, generator=torch.Generator().manual_seed(1)))
    return step


def losses():
    for name in TYPED_LOSSES:
        yield name, make_loss(name, type_names=MANY, dim=4, objective="logistic", temperature=0.5)
    inner = make_loss("transe", type_names=MANY, dim=4, objective="logistic", temperature=0.5)
    yield "dims", MatryoshkaLoss(inner, [4, 2])


CASES = [
    pytest.param(rule, loss, id=f"{rule}-{name}")
    for rule in ("tuple", "pair")
    for name, loss in losses()
]


@pytest.mark.parametrize(("rule", "loss"), CASES)
def test_a_large_table_has_the_clipped_sum_of_a_loop_and_no_copy_per_unit(rule, loss):
    step = many_types(loss, rule)
    assert step._engine.num_inexact == 4 * len(MANY)  # its uses are kept, not its gradients
    units = step.clip_units(step.draw(0))
    expected, num_clipped = loop_of_autograd_calls(step, units)
    result = step.clipped_sum(units)
    assert num_clipped > 0
    torch.testing.assert_close(result.total * step._plan.grid, expected, atol=1e-4, rtol=1e-4)
    step.close()


@pytest.mark.parametrize(("rule", "loss"), CASES)
def test_no_unit_of_a_large_table_contributes_more_than_its_threshold(rule, loss):
    step = many_types(loss, rule)
    units = step.clip_units(step.draw(1))
    places = np.arange(units.num_units)[:8]
    whole = step.clipped_sum(some_units(units, places)).total
    for place in places:
        less = step.clipped_sum(some_units(units, np.delete(places, place))).total
        assert float((whole - less).norm()) * step._plan.grid <= units.thresholds[place]
    step.close()


class Scaled(nn.Module):
    """A loss of one's own around a typed one: its layers run once per unit."""

    def __init__(self, name):
        super().__init__()
        self.inner = make_loss(name, type_names=TYPES, dim=4, objective="logistic", temperature=0.5)
        self.log_scale = nn.Parameter(torch.tensor(0.3))

    def forward(self, embeddings, batch):
        return self.log_scale.exp() * self.inner(embeddings, batch)


@pytest.mark.parametrize("name", TYPED_LOSSES)
def test_a_typed_loss_inside_of_another_module_has_the_clipped_sum_of_a_loop(name):
    step = PrivateStep(*small_parts(types=small_types(), clip_norm=CLIP), loss=Scaled(name))
    step.open(Streams(bytes(range(32))))
    units = step.clip_units(step.draw(0))
    expected, num_clipped = loop_of_autograd_calls(step, units)
    assert num_clipped > 0
    total = step.clipped_sum(units).total * step._plan.grid
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
    step.close()


class ScaledTable(DistMultLoss):
    """A typed loss of one's own, with a parameter more and a table that is read without its layer."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        self.scale = nn.Parameter(torch.tensor(1.3))

    def forward(self, embeddings, batch):
        values = super().forward(embeddings * self.scale, batch)
        return values + self.relations.weight[batch.types].sum(1)


def test_a_subclass_of_a_typed_loss_runs_unit_by_unit():
    parts = small_parts(types=small_types(), clip_norm=CLIP)
    step = PrivateStep(*parts, loss=ScaledTable(TYPES, 4, temperature=0.5))
    step.open(Streams(bytes(range(32))))
    units = step.clip_units(step.draw(0))
    expected, num_clipped = loop_of_autograd_calls(step, units)
    total = step.clipped_sum(units).total * step._plan.grid
    assert num_clipped > 0
    torch.testing.assert_close(total, expected, atol=1e-4, rtol=1e-4)
