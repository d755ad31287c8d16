"""InfoNCE: one softmax per tuple."""

import torch

from reldp.losses import InfoNCELoss, LossBatch
from tests.losses.oracle import random_tuples


def test_infonce_gives_a_value_per_tuple_whatever_the_number_of_negatives():
    """So that pair clipping refuses it."""
    for k in (1, 3):
        rows, endpoints, mask = random_tuples(1, tuples=2, k=k)
        assert InfoNCELoss()(torch.tensor(rows), LossBatch.of(endpoints, mask)).shape == (2,)


def test_settings_are_plain_values():
    assert InfoNCELoss().describe() == {"score": "cosine", "temperature": 0.05, "pairing": "one"}
