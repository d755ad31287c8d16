"""Products per unit, in float32 or better."""

import pytest
import torch

from reldp.gradients.products import by_unit, per_unit_outer, per_unit_sum, sum_dtype


def test_rows_of_a_unit_are_a_view_of_consecutive_rows() -> None:
    rows = torch.arange(24.0).view(6, 2, 2)
    units = by_unit(rows, 3)
    assert units.shape == (3, 4, 2)
    assert units.data_ptr() == rows.data_ptr()
    assert torch.equal(units[1], rows[2:4].reshape(4, 2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_outer_products_equal_a_loop_and_are_never_rounded_to_the_inputs_type(
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(3, 7, 2).to(dtype), torch.randn(3, 7, 4).to(dtype)
    found = per_unit_outer(left, right)
    slow = torch.stack([a.double().t() @ b.double() for a, b in zip(left, right, strict=True)])
    assert found.dtype == sum_dtype(dtype)
    # Rounding to bfloat16 anywhere would be off by about 1e-3.
    assert torch.allclose(found.double(), slow, rtol=1e-5, atol=1e-5)


def test_sums_of_low_precision_values_are_kept_in_float32() -> None:
    value = torch.full((512, 1), 1.0, dtype=torch.bfloat16)
    assert per_unit_sum(value, 1).item() == 512.0
    assert per_unit_sum(value * 3, 2).dtype == torch.float32
    fine = torch.tensor([[256.0], [1.0]], dtype=torch.bfloat16)
    assert per_unit_sum(fine, 1).item() == 257.0  # not a bfloat16 number
