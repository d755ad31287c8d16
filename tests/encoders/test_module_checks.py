"""Modules that cannot be trained privately are refused by name, on public rows, in one line."""

import warnings

import pytest
import torch
from torch import nn

from reldp.encoders import ModuleEncoder
from reldp.encoders.inputs import Column
from reldp.encoders.module_checks import check_gradients, check_kind, check_outputs
from reldp.errors import EncoderError, ReldpError, UnsupportedParameter
from reldp.gradients.engine import PerUnitGradients

VECTOR = Column("features", shape=(4,))


def net(*layers):
    return nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 3))


class Of(nn.Module):
    """A layer, then a function of the module and its output."""

    def __init__(self, function, layer=None):
        super().__init__()
        self.layer = nn.Linear(4, 3) if layer is None else layer
        self.function, self.calls = function, 0
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        return self.function(self, self.layer(x))


def counting(module, out):
    module.calls += 1
    return out


def remembering(module, out):
    module.seen.add_(out.detach().sum(0))
    return out


class Beside(nn.Module):
    """Has a trainable tensor that is not a parameter."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.hidden = [torch.ones(3, requires_grad=True)]

    def forward(self, x):
        return self.layer(x) * self.hidden[0]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class OwnFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return Square.apply(x * self.scale)


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3).bfloat16()

    def forward(self, x):
        return self.layer(x.bfloat16())


def lazy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return nn.LazyLinear(3)


def extra_state():
    module = nn.Linear(4, 3)
    module.__class__ = type("Extra", (nn.Linear,), {"get_extra_state": lambda self: {"a": 1}})
    return module


REFUSED = [
    (lambda: nn.Linear, "must be a torch.nn.Module, got the class Linear"),
    (lambda: len, "must be a torch.nn.Module, got builtin"),
    (lambda: torch.compile(net()), "must be the module itself"),
    (lambda: nn.DataParallel(net()), "must be the module itself, got DataParallel"),
    (lambda: torch.jit.trace(net(), torch.ones(2, 4)), "got a TorchScript module"),
    (lazy, "got 'weight' of a lazy layer"),
    (Half, "in float32, got 'layer.weight' in bfloat16"),
    (lambda: net(nn.BatchNorm1d(4)), "got BatchNorm1d at '1'. Use GroupNorm or LayerNorm"),
    (lambda: net(nn.BatchNorm1d(4, affine=False, track_running_stats=False)), "BatchNorm1d at"),
    (lambda: Of(lambda m, out: out[:, 0]), r"\(6, dim\) for 6 rows, got shape \(6,\)"),
    (lambda: Of(lambda m, out: out[None]), r"got shape \(1, 6, 3\)"),
    (lambda: Of(lambda m, out: {"out": out}), "got dict from Of"),
    (lambda: Of(lambda m, out: out.argmax(1)[:, None]), "finite floating-point numbers"),
    (lambda: Of(lambda m, out: out.log()), "finite floating-point numbers"),
    (lambda: Of(lambda m, out: out @ torch.ones(7, 2)), "got an error from Of: RuntimeError: mat1"),
    (lambda: Of(lambda m, out: out.squeeze()), r"\(1, dim\) for 1 rows, got shape \(3,\)"),
    (lambda: Of(lambda m, out: out - out.mean(0)), "embed every row by itself, got Of"),
    (lambda: Of(lambda m, out: out / len(out)), "depends on the other rows or on their number"),
    (lambda: Of(lambda m, out: out.detach().amax(0) + out), "embed every row by itself"),
    (lambda: Of(lambda m, out: out + out.roll(1, 0)), "embed every row by itself"),
    (lambda: Of(lambda m, out: out + torch.rand(3)), "draw no random numbers"),
    (lambda: Of(counting), "which changes 'calls'"),
    (lambda: Of(remembering), "which changes 'seen'"),
    (Beside, "Trainable tensors must be frozen or in `module`"),
    (lambda: Of(lambda m, out: out.detach()), "must return one differentiable loss"),
    (extra_state, "got dict at '_extra_state'"),
]
WITHOUT_GRADIENTS = [
    (OwnFunction, "`scale` must be in a layer that vmap can run"),
    (
        lambda: Of(lambda m, out: out @ m.layer.weight),
        "`layer.weight` must be used only by its own",
    ),
]


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_cannot_be_trained_is_refused(make, said):
    with pytest.raises(ReldpError, match=said) as refusal:
        ModuleEncoder(make(), VECTOR)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(("make", "said"), WITHOUT_GRADIENTS)
def test_parameters_without_gradients_per_unit_are_refused_by_name(make, said):
    with pytest.raises(UnsupportedParameter, match=said) as refusal:
        ModuleEncoder(make(), VECTOR)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: net(nn.Dropout(0.5), nn.LayerNorm(4), nn.GELU()),
        lambda: net(nn.BatchNorm1d(4).requires_grad_(False)),
        lambda: net().requires_grad_(False),
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)),
        lambda: Of(lambda m, out: out * 2 if bool((out > -9).all()) else out),
    ],
)
def test_what_can_be_trained_or_used_as_it_is_passes(make):
    torch.manual_seed(0)
    assert ModuleEncoder(make(), VECTOR).dim == 3


def rows(count, seed):
    return {"input": torch.randn((count, 4), generator=torch.Generator().manual_seed(seed))}


@pytest.mark.parametrize("wrong", ["total", "norms"])
def test_gradients_per_unit_that_differ_from_autograd_are_refused(monkeypatch, wrong):
    module = net()
    right = PerUnitGradients.clipped_sum

    def spoilt(self, *args, **settings):
        summed = right(self, *args, **settings)
        getattr(summed, wrong)[0] += 0.1
        return summed

    check_gradients(module, lambda inputs: module(**inputs), rows)
    monkeypatch.setattr(PerUnitGradients, "clipped_sum", spoilt)
    with pytest.raises(ReldpError, match="plain autograd"):
        check_gradients(module, lambda inputs: module(**inputs), rows)


def test_the_length_of_an_embedding_is_that_of_public_rows():
    check_kind(module := net().eval())
    assert check_outputs(module, lambda inputs: module(**inputs), rows) == 3
    with pytest.raises(EncoderError, match="must run on rows of the stated shapes"):
        ModuleEncoder(net(), Column("features", shape=(5,)))
