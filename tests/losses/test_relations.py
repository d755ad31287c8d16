"""InfoNCE of all relations of a tuple, against its formula written as a loop."""

import math

import pytest
import torch

from reldp.errors import ConfigError
from reldp.losses import InfoNCELoss
from reldp.losses.loss import LossBatch

LOSS = InfoNCELoss(pairing="relations", temperature=0.2)


def batch_of(mask):
    return LossBatch.of(torch.zeros_like(torch.as_tensor(mask), dtype=torch.long), mask)


def slow_loss(rows, mask, temperature):
    """The loss of one tuple, pair by pair."""
    rows = rows / rows.norm(dim=1, keepdim=True)
    hidden = [False, False, *mask]
    relations = range(len(rows) // 2)
    total = torch.zeros((), dtype=rows.dtype)
    for own in relations:
        if hidden[2 * own] or hidden[2 * own + 1]:
            continue
        positive = rows[2 * own] @ rows[2 * own + 1] / temperature
        shares = [positive.exp()]
        for a in range(len(rows)):
            for b in range(a + 1, len(rows)):
                if a // 2 != b // 2 and not hidden[a] and not hidden[b]:
                    shares.append((rows[a] @ rows[b] / temperature).exp())
        total = total + torch.stack(shares).sum().log() - positive
    return total


@pytest.fixture
def rows():
    return torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


MASKS = [[False] * 6, [True, True, *[False] * 4], [False] * 3 + [True, False, False]]


def test_values_and_gradients_are_those_of_the_formula(rows):
    given = rows.clone().requires_grad_()
    LOSS(given, batch_of(MASKS)).sum().backward()
    other = rows.clone().requires_grad_()
    values = torch.stack([slow_loss(t, m, 0.2) for t, m in zip(other, MASKS, strict=True)])
    values.sum().backward()
    torch.testing.assert_close(LOSS(rows, batch_of(MASKS)), values)
    torch.testing.assert_close(given.grad, other.grad)
    assert given.grad[1, 2:4].abs().max() == 0  # the positive again: compared with nothing
    assert values[0] != values[1]


def test_a_tuple_whose_other_relations_are_masked_has_no_loss_and_no_gradient():
    rows = torch.randn(1, 4, 3, requires_grad=True)
    loss = LOSS(rows, batch_of([[True, True]]))
    loss.sum().backward()
    assert loss.item() == 0
    assert rows.grad.abs().max() == 0


def test_every_relation_of_a_tuple_is_learned_from(rows):
    """Each is a positive: bringing its endpoints together lowers the loss; so it does not for plain negatives."""
    near = rows.clone()
    near[:, 5] = near[:, 4]
    mask = batch_of([[False] * 6] * 3)
    assert (LOSS(near, mask) < LOSS(rows, mask)).all()
    plain = InfoNCELoss(pairing="all", temperature=0.2)
    assert not (plain(near, mask) < plain(rows, mask)).all()


def test_an_odd_number_of_negatives_is_refused():
    with pytest.raises(ConfigError, match="an odd number of them, 3"):
        LOSS(torch.randn(1, 5, 3), batch_of([[False] * 3]))


def test_dot_products_are_not_divided_by_lengths(rows):
    loss = InfoNCELoss(pairing="relations", score="dot", temperature=1.0)
    mask = batch_of([[False] * 6] * 3)
    unit = rows / rows.norm(dim=2, keepdim=True)
    cosine = InfoNCELoss(pairing="relations", temperature=1.0)
    torch.testing.assert_close(loss(unit, mask), cosine(rows, mask))
    assert not math.isclose(loss(rows, mask)[0].item(), cosine(rows, mask)[0].item())


def test_no_shape_depends_on_values(rows):
    """Nothing is read back, as a CUDA graph needs: tensors without values are enough to compute the shape."""
    mask = torch.zeros(3, 6, dtype=torch.bool, device="meta")
    batch = LossBatch.of(torch.zeros(3, 6, dtype=torch.long, device="meta"), mask)
    assert LOSS(rows.to("meta"), batch).shape == (3,)
    with pytest.raises(NotImplementedError):  # what selecting by a mask would do
        rows.to("meta")[mask[:, :1].expand(3, 8)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_loss_is_the_loss(rows):
    """Nothing in it may be read back while a CUDA graph is captured."""
    rows = rows.to("cuda", torch.float32)
    batch = LossBatch.of(
        torch.zeros(3, 6, dtype=torch.long, device="cuda"),
        torch.zeros(3, 6, dtype=torch.bool, device="cuda"),
    )
    expected = LOSS(rows, batch)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        captured = LOSS(rows, batch)
    graph.replay()
    assert torch.equal(captured, expected)
