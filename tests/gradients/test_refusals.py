"""Layers without a gradient per unit are refused by name, in one line that says what to use."""

import pytest
import torch
from torch import nn

from reldp.errors import UnsupportedParameter
from reldp.gradients import PerUnitGradients
from reldp.gradients.refusals import refuse_layer, refuse_parameter


class _Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phase = nn.Parameter(torch.zeros(3, dtype=torch.complex64))


@pytest.mark.parametrize(
    ("layer", "instead"),
    [
        (nn.LSTM(2, 3), "GRUCell"),
        (nn.GRU(2, 3), "GRUCell"),
        (nn.RNN(2, 3), "GRUCell"),
        (nn.LSTMCell(2, 3), "GRUCell"),
        (nn.BatchNorm2d(3), "GroupNorm"),
        (nn.SyncBatchNorm(3), "GroupNorm"),
        (nn.InstanceNorm1d(3, affine=True, track_running_stats=True), "track_running_stats=False"),
        (nn.EmbeddingBag(3, 2, sparse=True), "sparse=False"),
        (nn.Embedding(3, 2, max_norm=1.0), "max_norm=None"),
        (nn.MultiheadAttention(4, 2), "batch_first=True"),
        (nn.ParameterList([torch.zeros(2)]), "module that uses"),
        (_Complex(), "imaginary part as two"),
    ],
)
def test_the_refusal_names_the_parameter_and_what_to_use(layer: nn.Module, instead: str) -> None:
    with pytest.raises(UnsupportedParameter) as refusal:
        PerUnitGradients(nn.ModuleDict({"part": layer}))
    message = str(refusal.value)
    assert message.startswith("`part.")
    assert instead in message
    assert "\n" not in message


def test_layers_and_parameters_that_work_are_not_refused() -> None:
    for layer in (nn.Conv2d(2, 3, 3), nn.GRUCell(2, 3), nn.InstanceNorm1d(3, affine=True)):
        refuse_layer(layer, "weight")
    refuse_layer(nn.MultiheadAttention(4, 2, batch_first=True), "in_proj_weight")
    refuse_parameter(nn.Parameter(torch.zeros(2, dtype=torch.float64)), "weight")
