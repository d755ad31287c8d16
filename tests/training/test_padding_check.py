"""Modules that take something from the whole batch where rows are padded, which random rows do not show."""

import pytest
import torch
from torch import nn

from reldp.encoders import Column, ModuleEncoder, PerEntity
from reldp.errors import InputError
from reldp.gradients.microbatches import MicrobatchShape
from reldp.training.locality import SyntheticUnits
from reldp.training.padding_check import padded_rows, refuse_mixing_of_padding
from tests.training.small import make_step, small_parts

torch.set_num_threads(1)
WORDS, LENGTH = 100_000, 6  # random texts have no padding by chance


class Bag(nn.Module):
    """The sum of a text's word vectors, divided by something."""

    def __init__(self, divisor, padding=0):
        super().__init__()
        self.words, self.divisor, self.padding = nn.Embedding(WORDS, 5), divisor, padding

    def forward(self, ids):
        mask = (ids != self.padding).float()
        return (self.words(ids) * mask[..., None]).sum(1) / self.divisor(mask)


class Points(nn.Module):
    """The sum of a list of points, divided by the number of points that are not zero in the longest list."""

    def __init__(self, divisor):
        super().__init__()
        self.out, self.divisor = nn.Linear(2, 4), divisor

    def forward(self, points):
        mask = (points.abs().sum(-1) > 0).float()
        return self.out(points.sum(1) / self.divisor(mask))


def alone(mask):
    return mask.sum(1, keepdim=True).clamp(min=1)


ACROSS = {
    "longest": lambda mask: mask.sum(1).max().clamp(min=1),
    "shortest": lambda mask: mask.sum(1).min().clamp(min=1),
    "columns in use": lambda mask: mask.amax(0).sum().clamp(min=1),
    "mean": lambda mask: mask.sum(1).mean().clamp(min=1),
    "detached": lambda mask: mask.detach().sum(1).max().clamp(min=1),
}


def prepare(module, given):
    _, capped, plan = small_parts()
    step = make_step(ModuleEncoder(module, given), capped, plan)
    step.prepare()
    return step


def words(entity):
    return [1 + int(entity["id"]) % (WORDS - 2)] * LENGTH


IDS = {"ids": PerEntity(words, shape=(LENGTH,), num_values=WORDS)}
POINTS = {"points": Column("features", shape=(3, 2))}


@pytest.mark.parametrize("padding", [0, WORDS - 1])
@pytest.mark.parametrize("name", ACROSS)
def test_lengths_of_other_texts_are_refused(name, padding):
    """The longest text of a batch, for example, belongs to one entity and would scale all others."""
    with pytest.raises(InputError, match="must keep units apart"):
        prepare(Bag(ACROSS[name], padding), IDS)


@pytest.mark.parametrize("name", ACROSS)
def test_lengths_of_other_lists_of_points_are_refused(name):
    with pytest.raises(InputError, match="must keep units apart"):
        prepare(Points(ACROSS[name]), POINTS)


@pytest.mark.parametrize(("module", "given"), [(Bag, IDS), (Points, POINTS)])
def test_a_row_may_be_divided_by_its_own_length(module, given):
    step = prepare(module(alone), given)
    assert set(step._shapes.layouts.values()) != {"single"}


def test_rows_that_a_module_has_no_number_for_show_nothing():
    def some_full_texts_only(mask):
        is_short = mask.sum(1, keepdim=True) < LENGTH
        return torch.where(is_short, torch.nan, alone(mask))

    prepare(Bag(some_full_texts_only), IDS)


def test_rows_that_a_module_stops_at_show_nothing():
    def run(shape, units, *, weights):
        stopped.append(bool((units.rows["x"] == 0).any()))
        raise ValueError("no padding here")

    stopped: list[bool] = []
    units = SyntheticUnits({"x": torch.ones(4, 3)}, torch.zeros(2, 1), torch.zeros(2, 1))
    refuse_mixing_of_padding(MicrobatchShape(units=2, length=1), run, units, {})
    assert any(stopped)


def test_rows_are_padded_at_both_ends_along_the_first_and_the_last_dimension():
    rows = {"x": torch.ones(2, 2, 3), "age": torch.ones(2), "one": torch.ones(2, 1)}
    made = list(padded_rows(rows, [False, True], {}))
    assert len(made) == 4
    assert all(bool((m[name] == 1).all()) for m in made for name in ("age", "one"))
    assert all(bool((m["x"][0] == 1).all()) for m in made)
    assert [m["x"][1].tolist() for m in made] == [
        [[1, 1, 1], [0, 0, 0]],
        [[0, 0, 0], [1, 1, 1]],
        [[1, 1, 0], [1, 1, 0]],
        [[0, 1, 1], [0, 1, 1]],
    ]
    assert rows["x"].min() == 1, "copies are padded"
    assert not list(padded_rows({"age": torch.ones(2, 1)}, [True, False], {}))
