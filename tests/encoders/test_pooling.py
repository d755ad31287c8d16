import pytest
import torch

from reldp.encoders.pooling import pool
from reldp.errors import EncoderError

HIDDEN = torch.tensor(
    [[[1.0, 2.0], [3.0, 6.0], [50.0, 70.0]], [[4.0, 4.0], [5.0, 5.0], [6.0, 9.0]]]
)
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", [[2.0, 4.0], [5.0, 6.0]]),
        ("cls", [[1.0, 2.0], [4.0, 4.0]]),
        ("last", [[3.0, 6.0], [6.0, 9.0]]),
    ],
)
def test_pooling_by_hand(pooling, expected):
    assert pool(HIDDEN, MASK, pooling).tolist() == expected


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_padding_gets_no_gradient(pooling):
    hidden = HIDDEN.clone().requires_grad_()
    pool(hidden, MASK, pooling).sum().backward()
    assert not hidden.grad[0, 2].any()
    assert hidden.grad[0].any()


def test_half_precision_is_summed_in_single_precision():
    pooled = pool(torch.ones(1, 300, 1, dtype=torch.bfloat16), torch.ones(1, 300), "mean")
    assert pooled.dtype == torch.float32
    assert pooled.item() == 1.0


def test_an_unknown_pooling_is_refused():
    with pytest.raises(EncoderError, match="`pooling`"):
        pool(HIDDEN, MASK, "max")
