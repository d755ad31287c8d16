import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.errors import InputError
from reldp.evaluation.metrics import FULL_METRICS, IN_BATCH_METRICS, Ranks, metric


def gain(name, rank):
    if name == "mrr":
        return 1 / rank
    if name == "ndcg":
        return 1 / math.log2(1 + rank)
    return float(rank <= int(name.split("@")[1]))


@pytest.mark.parametrize("name", sorted({*IN_BATCH_METRICS, *FULL_METRICS}))
@given(better=st.integers(0, 300), ties=st.integers(0, 50))
def test_a_metric_is_the_mean_gain_over_every_place_the_answer_could_take(name, better, ties):
    ranks = Ranks(better=np.array([better]), ties=np.array([ties]))
    expected = np.mean([gain(name, better + 1 + place) for place in range(ties + 1)])
    np.testing.assert_allclose(metric(ranks, name), [expected], rtol=1e-12, atol=1e-12)


def test_the_shape_of_the_ranks_is_kept():
    ranks = Ranks(better=np.zeros((5, 2), int), ties=np.zeros((5, 2), int))
    assert metric(ranks, "mrr").tolist() == [[1.0, 1.0]] * 5


@pytest.mark.parametrize("name", ["accuracy", "hits@", "hits@ten", "prec@5", ""])
def test_an_unknown_metric_is_refused(name):
    with pytest.raises(InputError, match="`name`"):
        metric(Ranks(better=np.zeros(1, int), ties=np.zeros(1, int)), name)
