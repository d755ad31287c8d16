"""Modules, losses and arguments that the engine must refuse."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reldp.errors import InputError, UnsupportedParameter
from reldp.gradients import PerUnitGradients
from tests.gradients.models import mlp

NUMBERS = torch.as_tensor(np.random.default_rng(7).integers(0, 64, (5, 5)))  # (units, rows)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class _Tied(nn.Module):
    """A weight that is read past its own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x).sum(1) @ self.table.weight.t()


def test_a_weight_that_is_read_past_its_layer_is_refused_by_name() -> None:
    model = _Tied()
    x = torch.tensor([[0, 1], [2, 3]])
    with pytest.raises(UnsupportedParameter, match=r"`table\.weight`"):
        PerUnitGradients(model).clipped_sum(lambda a, b: model(x[a:b]).sum(1), np.ones(2), 1)


def test_losses_over_in_batch_negatives_are_refused() -> None:
    case = mlp()

    def in_batch(start: int, stop: int) -> Tensor:
        out = case.rows(NUMBERS[start:stop].reshape(-1)).view(stop - start, NUMBERS.shape[1], -1)
        return -torch.log_softmax(out[:, 0] @ out[:, 1].t(), dim=1).diagonal()

    with pytest.raises(InputError, match="keep units apart"):
        PerUnitGradients(case.model).clipped_sum(in_batch, np.ones(5), NUMBERS.shape[1])


def test_a_first_loss_without_a_gradient_does_not_count_as_checked() -> None:
    case = mlp()
    engine = PerUnitGradients(case.model)

    def masked(start: int, stop: int) -> Tensor:
        weights = (torch.arange(start, stop) == 2).float()
        return case.losses(NUMBERS[start:stop]) * weights

    def in_batch(start: int, stop: int) -> Tensor:
        losses = case.losses(NUMBERS[start:stop])
        return losses + losses.mean()

    engine.clipped_sum(masked, np.ones(5), NUMBERS.shape[1])
    with pytest.raises(InputError, match="keep units apart"):
        engine.clipped_sum(in_batch, np.ones(5), NUMBERS.shape[1])


def test_batch_normalization_is_refused_while_it_trains_and_allowed_frozen() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, affine=False))
    x = torch.randn(6, 3)
    engine = PerUnitGradients(model)
    with pytest.raises(UnsupportedParameter, match="normalize over the batch"):
        engine.clipped_sum(lambda a, b: model(x[a:b]).sum(1), np.ones(6), 1)
    model.eval()
    assert engine.clipped_sum(lambda a, b: model(x[a:b]).sum(1), np.ones(6), 1).num_units == 6


@pytest.mark.parametrize(
    ("thresholds", "rows", "name"),
    [
        ([1.0, 0.0], 1, "thresholds"),
        ([1.0, float("nan")], 1, "thresholds"),
        ([[1.0, 1.0]], 1, "thresholds"),
        ([1.0, 1.0], 0, "rows_per_unit"),
    ],
)
def test_arguments_that_break_a_rule_are_refused(thresholds: Any, rows: int, name: str) -> None:
    layer = nn.Linear(2, 1)
    x = torch.randn(2, 2)
    with pytest.raises(InputError, match=f"`{name}`"):
        PerUnitGradients(layer).clipped_sum(lambda a, b: layer(x[a:b])[:, 0], thresholds, rows)


def test_losses_that_are_not_one_number_per_unit_are_refused() -> None:
    layer = nn.Linear(2, 1)
    with pytest.raises(InputError, match="one differentiable loss per unit"):
        PerUnitGradients(layer).clipped_sum(lambda a, b: layer(torch.ones(b, 2)).sum(), [1.0], 1)


def test_losses_without_gradients_are_refused() -> None:
    layer = nn.Linear(2, 1)
    with torch.no_grad(), pytest.raises(InputError, match="gradients on"):
        PerUnitGradients(layer).clipped_sum(lambda a, b: layer(torch.ones(1, 2))[0], [1.0], 1)


@pytest.mark.parametrize("index", [0, 1])
def test_freezing_or_unfreezing_behind_the_engines_back_is_refused(index: int) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    engine = PerUnitGradients(model)
    model[index].weight.requires_grad_(index == 0)
    with pytest.raises(InputError, match=rf"got {index}\.weight changed"):
        engine.clipped_sum(lambda a, b: model(torch.ones(1, 2))[:, 0], [1.0], 1)


def test_a_module_without_trainable_parameters_is_refused() -> None:
    with pytest.raises(InputError, match="trainable"):
        PerUnitGradients(nn.Linear(2, 1).requires_grad_(False))
