"""Modules of any kind under vmap, against the oracle; what cannot be mapped is refused."""

import pytest
import torch
from torch import Tensor, nn

from reldp.errors import UnsupportedParameter
from reldp.gradients import GradientSettings, PerUnitGradients
from tests.gradients.models import Case, clipped, oracle, relative


class _Gate(nn.Module):
    """A custom layer with a bare parameter and a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(5))
        self.inner = nn.Linear(5, 5)

    def forward(self, x: Tensor, *, power: float = 1.0, shift: Tensor | None = None) -> Tensor:
        out = torch.tanh(self.inner(x)) * self.scale**2 * power
        return out if shift is None else out + shift


class _Mix(nn.Module):
    """Two inputs, one bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.core = nn.Parameter(torch.randn(3, 5, 5))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.einsum("ra,oab,rb->ro", x, self.core, y)


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.gate = _Gate()
        self.mix = _Mix()

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.mix(x, self.gate(x, power=2.0, shift=torch.ones(1, 5)))


def _case() -> Case:
    torch.manual_seed(0)
    model = _Net()
    features = torch.randn(64, 4)
    return Case(model, lambda numbers: model(features[numbers]))


def test_custom_modules_equal_the_oracle() -> None:
    case = _case()
    numbers = torch.arange(24).view(6, 4)
    norms, grads = oracle(case, numbers)
    thresholds = torch.full((6,), float(norms.median()) * 1.01)
    clipped_sum = PerUnitGradients(case.model).clipped_sum(
        lambda a, b: case.losses(numbers[a:b]), thresholds, 4
    )
    assert float(((clipped_sum.norms - norms).abs() / norms).max()) < 1e-5
    assert relative(clipped_sum.sums, clipped(norms, grads, thresholds)) < 1e-5


class _Shared(nn.Module):
    """A layer with two names, and a parameter that two layers have."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(4))
        self.one = self.same = nn.Linear(4, 4)
        self.other = nn.Linear(4, 4)
        self.other.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.other(torch.tanh(self.same(torch.tanh(self.one(x))))) * self.scale


def test_shared_layers_and_parameters_equal_the_oracle_and_stay_whole() -> None:
    torch.manual_seed(0)
    model = _Shared()
    features = torch.randn(64, 4)
    case = Case(model, lambda numbers: model(features[numbers]))
    numbers = torch.arange(24).view(6, 4)
    norms, grads = oracle(case, numbers)
    thresholds = torch.full((6,), float(norms.median()) * 1.01)
    engine = PerUnitGradients(model)
    for _ in range(2):
        clipped_sum = engine.clipped_sum(lambda a, b: case.losses(numbers[a:b]), thresholds, 4)
        assert relative(clipped_sum.sums, clipped(norms, grads, thresholds)) < 1e-5
    assert all(isinstance(p, nn.Parameter) for p in model.one._parameters.values())


def test_a_large_module_of_an_unknown_kind_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedParameter, match=r"`gate\.scale`.*35 trainable"):
        PerUnitGradients(_Net(), GradientSettings(fallback_size=34))


class _Odd(nn.Module):
    """A layer with a bare parameter and a chosen way to misbehave."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.how = how

    def forward(self, x: Tensor) -> object:
        if self.how == "branches" and bool(x.sum() > 0):
            return x
        if self.how == "other output":
            return {"out": x * self.weight}
        if self.how == "pair":
            return x * self.weight, x
        return x.reshape(-1, 4) * self.weight


def _run(model: nn.Module, x: Tensor, rows: int) -> object:
    def losses(start: int, stop: int) -> Tensor:
        out = model(x[start:stop] if len(x) == 3 else x)
        return (out[0] if isinstance(out, tuple) else out).sum(-1)[: stop - start]

    return PerUnitGradients(model).clipped_sum(losses, torch.ones(3), rows)


@pytest.mark.parametrize("how", ["branches", "other output"])
def test_what_vmap_cannot_run_is_refused_by_name(how: str) -> None:
    with pytest.raises(UnsupportedParameter, match="`weight` must be in a layer"):
        _run(_Odd(how), torch.randn(3, 4), 1)


def test_inputs_without_the_rows_of_the_batch_are_refused() -> None:
    with pytest.raises(UnsupportedParameter, match="must see 3 rows"):
        _run(_Odd("plain"), torch.randn(5, 4), 1)
    with pytest.raises(UnsupportedParameter, match="an input without them"):
        _run(_Odd("plain"), torch.randn(1, 4), 1)


def test_several_outputs_are_given_back_as_they_came() -> None:
    x = torch.randn(3, 4)
    found = _run(_Odd("pair"), x, 1)
    assert torch.allclose(found.norms, x.double().norm(dim=1))  # type: ignore[attr-defined] # a sum


class _Rotated(nn.Module):
    """Takes a pair of tensors, as layers with rotary positions do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        return (x * pair[0] + pair[1]) * self.weight


def test_tensors_in_a_collection_are_for_all_rows_or_refused() -> None:
    x, layer = torch.randn(3, 4), _Rotated()
    engine = PerUnitGradients(layer)
    shared = torch.rand(1, 4), torch.rand(1, 4)
    found = engine.clipped_sum(lambda a, b: layer(x[a:b], shared).sum(1), torch.ones(3), 1)
    expected = (x * shared[0] + shared[1]).double().norm(dim=1)
    assert torch.allclose(found.norms, expected, rtol=1e-5)
    with pytest.raises(UnsupportedParameter, match="rows as tensors, got some in a collection"):
        engine.clipped_sum(lambda a, b: layer(x, (x, x)).sum(1), torch.ones(3), 1)
