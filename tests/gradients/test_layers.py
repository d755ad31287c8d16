"""Clipped sums of many layers, against one autograd call per unit, in float64."""

import warnings

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from reldp.gradients import PerUnitGradients
from tests.gradients.models import Case, clipped, oracle, relative

TOKENS = 10


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


class _Then(nn.Module):
    """A layer, then a function of its output."""

    def __init__(self, layer: nn.Module, then=lambda out: out):  # type: ignore[no-untyped-def]
        super().__init__()
        self.layer, self.then = layer, then

    def forward(self, x: Tensor) -> Tensor:
        return self.then(self.layer(x))


class _OverTime(nn.Module):
    """A recurrent cell in a loop."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros(len(x), 4, dtype=x.dtype)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
        return state


class _SelfAttention(nn.Module):
    def __init__(self, *, causal: bool = False, frozen: bool = False, **settings: object) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **settings)
        if frozen:
            self.attention.in_proj_weight.requires_grad_(False)
        self.causal = causal

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool).triu(1) if self.causal else None
        return self.attention(x, x, x, attn_mask=mask)[0].mean(1)


class _Transformer(nn.Module):
    """A class token, positions as a bare parameter, and torch's encoder with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(6, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        hidden = torch.zeros(x.shape[:2], dtype=torch.bool).index_fill(1, torch.tensor(5), True)
        return self.encoder(x, src_key_padding_mask=hidden)[:, 0]


class _Scaled(nn.Module):
    """A table or bag with a padding index, beside a bare parameter."""

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table, self.scale = table, nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        out = self.table(x) * self.scale
        return out.mean(1) if out.dim() > 2 else out


class _Lists(nn.Module):
    """Parameters in a list and in a dictionary, beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.matrices = nn.ParameterList([torch.randn(4, 4), torch.randn(4)])
        self.named = nn.ParameterDict({"scale": torch.randn(4)})
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(x @ self.matrices[0]) + self.matrices[1]) * self.named["scale"]


class _Twice(nn.Module):
    def __init__(self, layer: nn.Module, *, tie: bool = False) -> None:
        super().__init__()
        self.layer, self.again = layer, layer
        if tie:
            self.again = nn.Linear(4, 4)
            self.again.weight = layer.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.again(torch.tanh(self.layer(x))).flatten(1)


class _Shift(nn.Module):
    """A parametrization with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, weight: Tensor) -> Tensor:
        return weight + torch.tanh(self.inner(weight))


def _shifted() -> nn.Module:
    layer = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(layer, "weight", _Shift())
    layer.parametrizations.weight.original.requires_grad_(False)
    return layer


def _image(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(3))


CASES = {
    "conv1d": (lambda: _image(nn.Conv1d(2, 4, 3, padding=1)), (2, 6)),
    "conv2d": (lambda: _image(nn.Conv2d(2, 4, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2)), (2, 6, 6)),
    "conv3d": (lambda: _image(nn.Conv3d(2, 3, 2)), (2, 3, 3, 3)),
    "groups": (lambda: _image(nn.Conv2d(4, 4, 3, groups=4, bias=False, dilation=2)), (4, 6, 6)),
    "circular": (lambda: _image(nn.Conv1d(2, 4, 3, padding=1, padding_mode="circular")), (2, 6)),
    "transposed": (lambda: _image(nn.ConvTranspose2d(2, 3, 2, stride=2)), (2, 3, 3)),
    "transposed1d": (lambda: _image(nn.ConvTranspose1d(2, 4, 2, groups=2)), (2, 3)),
    "group norm": (lambda: _image(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4)), (2, 5, 5)),
    "instance norm": (lambda: _image(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4)), (2, 5, 5)),
    "affine instance norm": (lambda: _image(nn.InstanceNorm2d(2, affine=True)), (2, 5, 5)),
    "layer norm": (lambda: _image(nn.LayerNorm((4, 4))), (4, 4)),
    "rms norm": (lambda: nn.Sequential(nn.RMSNorm(4), nn.Linear(4, 3)), (4,)),
    "wide rms norm": (lambda: _image(nn.RMSNorm((4, 4))), (4, 4)),
    "prelu": (lambda: nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.PReLU(4)), (4,)),
    "embedding bag": (lambda: nn.EmbeddingBag(TOKENS, 3), (5,)),
    "largest of a bag": (lambda: nn.EmbeddingBag(TOKENS, 3, mode="max"), (5,)),
    "padding": (lambda: _Then(nn.Embedding(TOKENS, 3, padding_idx=0), lambda x: x.mean(1)), (5,)),
    "embedding inside": (lambda: _Scaled(nn.Embedding(TOKENS, 3, padding_idx=0)), (5,)),
    "embedding bag inside": (lambda: _Scaled(nn.EmbeddingBag(TOKENS, 3, padding_idx=0)), (5,)),
    "gru cell": (lambda: _OverTime(nn.GRUCell(3, 4)), (5, 3)),
    "rnn cell": (lambda: _OverTime(nn.RNNCell(3, 4)), (5, 3)),
    "attention": (_SelfAttention, (5, 8)),
    "causal attention": (lambda: _SelfAttention(causal=True, bias=False), (5, 8)),
    "attention with zeros": (lambda: _SelfAttention(add_bias_kv=True, add_zero_attn=True), (5, 8)),
    "half frozen attention": (lambda: _SelfAttention(frozen=True), (5, 8)),
    "transformer": (_Transformer, (5, 8)),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(4, 4)), (4,)),
    "spectral norm": (lambda: parametrizations.spectral_norm(nn.Linear(4, 4)), (4,)),
    "orthogonal": (lambda: parametrizations.orthogonal(nn.Linear(4, 4)), (4,)),
    "parametrized conv": (lambda: _image(parametrizations.weight_norm(nn.Conv1d(2, 4, 3))), (2, 6)),
    "own parametrization": (_shifted, (4,)),
    "parameter lists": (_Lists, (4,)),
    "used twice": (lambda: _Twice(nn.Linear(4, 4)), (4,)),
    "tied": (lambda: _Twice(nn.Linear(4, 4), tie=True), (4,)),
    "conv used twice": (lambda: _Twice(nn.Conv1d(2, 2, 3, padding=1)), (2, 4)),
    "frozen batch norm": (lambda: _image(nn.Conv1d(2, 4, 3), _frozen(nn.BatchNorm1d(4))), (2, 6)),
}


def _frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


def case_of(name: str) -> Case:
    """A module in evaluation mode, in float64, and 64 rows."""
    torch.manual_seed(0)
    make, shape = CASES[name]
    if "embedding" in name or name in ("padding", "largest of a bag"):
        rows = torch.randint(TOKENS, (64, *shape))
    else:
        rows = torch.randn(64, *shape, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lazy layers are experimental
        module = make().double()
        module(rows[:2])
    module.eval()
    return Case(module, lambda numbers: module(rows[numbers]))


@pytest.mark.parametrize("name", CASES)
def test_a_layers_clipped_sum_is_that_of_one_autograd_call_per_unit(name: str) -> None:
    case = case_of(name)
    numbers = torch.arange(24).view(6, 4)
    norms, gradients = oracle(case, numbers)
    thresholds = torch.full((6,), float(norms.median()) * 1.01, dtype=torch.float64)
    found = PerUnitGradients(case.model).clipped_sum(
        lambda a, b: case.losses(numbers[a:b]), thresholds, 4
    )
    truth = clipped(norms, gradients, thresholds * (1 - 1e-6))  # the engine's safety margin
    assert float(((found.norms - norms).abs() / norms).max()) < 1e-12
    assert relative(found.sums, truth) < 1e-12
    assert float(norms.min()) > 0
