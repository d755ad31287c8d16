"""Norms and clipped sums of kept parameters against gradients that are formed one by one."""

import math
from fractions import Fraction
from itertools import product

import pytest
import torch
from torch import Tensor

from reldp.gradients import ghost
from reldp.gradients.ghost import (
    SPREAD,
    embedding_norms,
    embedding_sum,
    linear_norms,
    linear_sum,
    sum_error,
)
from reldp.gradients.recorder import KeptEmbedding, KeptLinear

UNITS = 4


def _linear(positions: int, width: int, out: int, dtype: torch.dtype = torch.float64) -> KeptLinear:
    torch.manual_seed(positions)
    inputs, grads = torch.randn(UNITS, positions, width), torch.randn(UNITS, positions, out)
    return KeptLinear(inputs.to(dtype), grads.to(dtype))


def _formed(uses: list[KeptLinear]) -> Tensor:
    """(U, out, in) in float64."""
    parts = [torch.einsum("upo,upi->uoi", u.grads.double(), u.inputs.double()) for u in uses]
    return torch.stack(parts).sum(0)


@pytest.mark.parametrize(("positions", "width", "out"), [(3, 20, 30), (50, 4, 6)])
@pytest.mark.parametrize("repeats", [1, 3])
def test_norms_equal_those_of_the_formed_gradient(
    positions: int, width: int, out: int, repeats: int
) -> None:
    uses = [_linear(positions + i, width, out) for i in range(repeats)]
    square, truth = linear_norms(uses)[0], _formed(uses).square().sum((1, 2))
    assert torch.allclose(square, truth, rtol=1e-9)
    assert (square >= truth * (1 - 1e-15)).all()


def test_blocks_of_units_do_not_change_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = [_linear(3, 20, 30)]
    whole = linear_norms(uses)[0]
    monkeypatch.setattr(ghost, "_BLOCK", 1)
    assert torch.allclose(linear_norms(uses)[0], whole, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("width", "out"), [(8, 16), (16, 8)])
def test_a_units_share_of_the_sum_is_its_factor_times_its_gradient(
    dtype: torch.dtype, width: int, out: int
) -> None:
    use = _linear(40, width, out, dtype)
    norms = linear_norms([use])[0].sqrt()
    truth = _formed([use])
    for u in range(UNITS):
        factors = torch.zeros(UNITS, dtype=torch.float64)
        factors[u] = 0.3217
        share = linear_sum([use], factors)
        assert float(share.norm()) <= 0.3217 * float(norms[u])
        assert torch.allclose(share, 0.3217 * truth[u], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("cancel", [False, True])
def test_the_sum_is_as_close_to_the_exact_one_as_stated(cancel: bool) -> None:
    """Rational numbers are the oracle; positions that cancel make rounding large."""
    torch.manual_seed(0)
    inputs, grads = torch.randn(6, 30, 2), torch.randn(6, 30, 2)
    if cancel:
        grads[:, 1::2], inputs[:, 1::2] = -grads[:, ::2] * (1 + 1e-6), inputs[:, ::2]
    use = KeptLinear(inputs, grads)
    square, spread = linear_norms([use])
    factors = torch.minimum(1.0 / square.sqrt(), SPREAD / spread)
    exact = [[Fraction(0)] * 2 for _ in range(2)]
    for u, p, o, i in product(range(6), range(30), range(2), range(2)):
        g, x = Fraction(float(grads[u, p, o])), Fraction(float(inputs[u, p, i]))
        exact[o][i] += Fraction(float(factors[u])) * g * x
    total = linear_sum([use], factors)
    apart = [float(Fraction(float(total[o, i])) - exact[o][i]) for o in range(2) for i in range(2)]
    assert 0 < math.hypot(*apart) <= sum_error(180, 6)


def test_the_spread_of_a_unit_bounds_its_terms() -> None:
    for use in (_linear(3, 20, 30), _linear(50, 4, 6)):
        lengths = use.inputs.norm(dim=-1) * use.grads.norm(dim=-1)
        assert torch.allclose(linear_norms([use])[1], lengths.sum(1), rtol=1e-12)


def test_a_unit_that_is_not_finite_is_cut_out_of_the_sum() -> None:
    use = _linear(5, 3, 2)
    use.inputs[1, 0, 0] = float("inf")
    use.grads[1, 2, 1] = float("nan")
    factors = torch.tensor([0.5, 0.0, 1.0, 0.25], dtype=torch.float64)
    rest = [i for i in range(UNITS) if i != 1]
    truth = torch.einsum("u,uoi->oi", factors[rest], _formed([use])[rest])
    assert torch.allclose(linear_sum([use], factors), truth)
    assert not torch.isfinite(linear_norms([use])[0][1])


def test_embedding_norms_and_sums_count_repeated_indices_once() -> None:
    torch.manual_seed(0)
    uses = [
        KeptEmbedding(torch.randint(5, (UNITS, 6)), torch.randn(UNITS, 6, 3).double())
        for _ in range(2)
    ]
    tables = torch.zeros(UNITS, 5, 3, dtype=torch.float64)
    for use in uses:
        for u in range(UNITS):
            tables[u].index_add_(0, use.indices[u], use.grads[u])
    assert torch.allclose(embedding_norms(uses)[0], tables.square().sum((1, 2)), rtol=1e-10)
    factors = torch.rand(UNITS, dtype=torch.float64)
    found = embedding_sum(uses, factors, 5)
    assert torch.allclose(found, torch.einsum("u,uvd->vd", factors, tables))
    uses[0].grads[2] = float("nan")
    keep = torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert not torch.isfinite(embedding_norms(uses)[0][2])
    found = embedding_sum(uses, factors * keep, 5)
    assert torch.allclose(found, torch.einsum("u,uvd->vd", factors * keep, tables))
