"""The protocol that a loss follows, and what a loss sees."""

import numpy as np
import pytest
import torch

from reldp._validate import LOSSES
from reldp.errors import ConfigError
from reldp.losses import Loss, LossBatch, make_loss
from tests.losses.oracle import random_tuples


@pytest.mark.parametrize("name", LOSSES)
def test_the_included_losses_and_functions_follow_the_protocol(name):
    assert isinstance(make_loss(name), Loss)
    assert isinstance(make_loss(name, matryoshka_dims=[2]), Loss)
    assert isinstance(lambda embeddings, batch: embeddings.sum((1, 2)), Loss)


def test_a_batch_takes_lists_arrays_and_tensors():
    mask = np.array([[True, False]])
    mask.flags.writeable = False
    for given in (mask, mask.tolist(), torch.tensor(mask.tolist())):
        batch = LossBatch.of(np.zeros((1, 2), np.int8), given)
        assert batch.mask.tolist() == [[True, False]]
        assert batch.endpoints.dtype == torch.int64
        assert (batch.num_tuples, batch.num_negatives) == (1, 2)


@pytest.mark.parametrize("name", LOSSES)
def test_shapes_that_do_not_belong_together_are_refused(name):
    rows, endpoints, mask = random_tuples(2, tuples=3, k=2)
    embeddings, loss = torch.tensor(rows), make_loss(name)
    with pytest.raises(ConfigError, match="`endpoints`"):
        loss(embeddings, LossBatch.of(endpoints[:, :1], mask))
    with pytest.raises(ConfigError, match="`mask`"):
        loss(embeddings, LossBatch.of(endpoints, mask[:2]))
    with pytest.raises(ConfigError, match="k >= 1"):
        loss(embeddings[:, :2], LossBatch.of(endpoints[:, :0], mask[:, :0]))
