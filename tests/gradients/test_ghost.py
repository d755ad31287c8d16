"""Ghost norms and weighted sums against gradients that are formed."""

import pytest
import torch
from torch import Tensor

from reldp.gradients import ghost
from reldp.gradients.ghost import embedding_norms, embedding_sum, linear_norms, linear_sum
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


# The first is cheaper by Gram matrices, the second by forming the gradient.
@pytest.mark.parametrize(("positions", "width", "out"), [(3, 20, 30), (50, 4, 6)])
@pytest.mark.parametrize("repeats", [1, 3])
def test_both_ways_to_the_norm_equal_the_formed_gradient(
    positions: int, width: int, out: int, repeats: int
) -> None:
    uses = [_linear(positions + i, width, out) for i in range(repeats)]
    square, _ = linear_norms(uses)
    assert torch.allclose(square, _formed(uses).square().sum((1, 2)), rtol=1e-10)


def test_blocks_of_units_do_not_change_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = [_linear(3, 20, 30)]
    whole = linear_norms(uses)[0]
    monkeypatch.setattr(ghost, "_BLOCK", 1)
    assert torch.allclose(linear_norms(uses)[0], whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("width", "out"), [(8, 16), (16, 8)])
def test_the_slack_covers_what_rounding_does_to_each_units_share_of_the_sum(
    dtype: torch.dtype, width: int, out: int
) -> None:
    use = _linear(40, width, out, dtype)
    square, slack = linear_norms([use])
    truth = _formed([use])
    for u in range(UNITS):
        factors = torch.zeros(UNITS, dtype=torch.float64)
        factors[u] = 0.3217
        share = linear_sum([use], factors, None).double()
        length = float(square[u].sqrt() + slack[u].sqrt())
        assert float(share.norm()) <= 0.3217 * length
        assert float((share - 0.3217 * truth[u]).norm()) <= 0.3217 * float(slack[u].sqrt()) * 1.01


def test_the_slack_is_needed_for_low_precision() -> None:
    """Without it some unit's share really is longer than factor times norm."""
    torch.manual_seed(1)
    found = []
    for _ in range(40):
        use = KeptLinear(torch.randn(1, 8, 4).bfloat16(), torch.randn(1, 8, 4).bfloat16())
        factor = torch.rand(1, dtype=torch.float64)
        share = linear_sum([use], factor, None).double().norm()
        found.append(float(share) > float(factor * _formed([use]).norm()) * (1 + 1e-6))
    assert any(found)


def test_a_unit_that_is_not_finite_is_cut_out_of_the_sum() -> None:
    use = _linear(5, 3, 2)
    use.inputs[1, 0, 0] = float("inf")
    use.grads[1, 2, 1] = float("nan")
    keep = torch.tensor([True, False, True, True])
    factors = torch.tensor([0.5, 0.0, 1.0, 0.25], dtype=torch.float64)
    found = linear_sum([use], factors, keep)
    rest = [i for i in range(UNITS) if i != 1]
    truth = torch.einsum("u,uoi->oi", factors[rest], _formed([use])[rest])
    assert torch.allclose(found, truth)
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
    square, _ = embedding_norms(uses)
    assert torch.allclose(square, tables.square().sum((1, 2)), rtol=1e-10)
    factors = torch.rand(UNITS, dtype=torch.float64)
    found = embedding_sum(uses, factors, None, 5)
    assert torch.allclose(found, torch.einsum("u,uvd->vd", factors, tables))
    uses[0].grads[2] = float("nan")
    keep = torch.tensor([True, True, False, True])
    found = embedding_sum(uses, factors * keep, keep, 5)
    assert torch.allclose(found, torch.einsum("u,uvd->vd", factors * keep, tables))


def test_roundoff_grows_as_precision_falls() -> None:
    cpu = torch.device("cpu")
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    values = [ghost.roundoff(kind, cpu) for kind in kinds]
    assert values == sorted(values)
    assert values[-1] >= torch.finfo(torch.bfloat16).eps / 4


def test_tensor_float_is_assumed_where_torch_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def confused() -> str:
        raise RuntimeError("mixed settings")

    assert not ghost._tensor_float()
    monkeypatch.setattr(torch, "get_float32_matmul_precision", confused)
    assert ghost._tensor_float()
    assert ghost.roundoff(torch.float32, torch.device("cuda")) == 2.0**-9


def test_bfloat16_factors_are_cut_towards_zero_never_rounded_up():
    factors = torch.rand(10_000, dtype=torch.float64)
    cut = ghost._cut_to_bfloat16(factors)
    assert cut.dtype == torch.bfloat16
    assert (cut.double() <= factors.float().double()).all()
    assert (cut.double() >= factors * (1 - 2.0**-7)).all()
    assert (factors.to(torch.bfloat16).double() > factors).any()  # what plain rounding would do
    assert ghost._cut_to_bfloat16(torch.tensor([0.0, 1.0])).tolist() == [0.0, 1.0]
