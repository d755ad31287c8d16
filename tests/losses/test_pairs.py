"""Which pairs of a tuple are compared."""

import pytest
import torch

from reldp.losses import LossBatch
from reldp.losses.pairs import distance_pairs, dot_pairs, per_negative
from reldp.losses.unit_length import NORM_FLOOR

ROWS = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 3.0]]])
BATCH = LossBatch.of([[0, 1]], [[False, True]])


@pytest.mark.parametrize(
    ("pairing", "compared", "hidden"),
    [
        ("one", [1.0, 3.0], [False, True]),
        ("both", [1.0, 0.0, 0.0, 3.0], [False, False, True, True]),
        ("all", [1.0, 0.0, 0.0, 3.0, 0.0], [False, False, True, True, True]),
    ],
)
def test_pairings_name_the_pairs(pairing, compared, hidden):
    pairs = dot_pairs(ROWS, BATCH, pairing=pairing, score="dot")
    assert pairs.positive.tolist() == [0.0]
    assert pairs.compared.tolist() == [compared]
    assert pairs.hidden.tolist() == [hidden]
    distances = distance_pairs(ROWS, BATCH, pairing=pairing)
    assert distances.hidden.tolist() == [hidden]
    assert distances.compared.shape == pairs.compared.shape


def test_distances_have_a_floor_and_no_gradient_below_it():
    rows = torch.zeros(1, 3, 2, requires_grad=True)
    pairs = distance_pairs(rows, LossBatch.of([[0]], [[False]]), pairing="one")
    assert pairs.positive.item() == pytest.approx(NORM_FLOOR)
    (pairs.positive.sum() + pairs.compared.sum()).backward()
    assert not rows.grad.any()


def test_terms_keep_their_negative_where_each_belongs_to_one():
    two, one = BATCH, LossBatch.of([[0]], [[False]])
    assert per_negative(torch.ones(1, 2), two, "one").shape == (1, 2)
    assert per_negative(torch.ones(1, 4), two, "both").shape == (1,)
    assert per_negative(torch.ones(1, 2), one, "both").shape == (1, 1)
    assert per_negative(torch.ones(1, 2), one, "all").shape == (1,)
