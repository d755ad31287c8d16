"""Several embedding sizes from one loss."""

import pytest
import torch
from torch import nn

from reldp._validate import LOSSES
from reldp.errors import ConfigError
from reldp.losses import LossBatch, MatryoshkaLoss, make_loss
from tests.losses.oracle import random_tuples


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_is_the_weighted_sum_over_sizes(name):
    rows, endpoints, mask = random_tuples(1)
    embeddings, batch, inner = torch.tensor(rows), LossBatch.of(endpoints, mask), make_loss(name)
    got = MatryoshkaLoss(inner, dims=[6, 2], weights=[1.0, 0.5])(embeddings, batch)
    torch.testing.assert_close(
        got, inner(embeddings, batch) + 0.5 * inner(embeddings[..., :2], batch)
    )


@pytest.mark.parametrize(
    ("dims", "weights", "named"),
    [
        ([], None, "dims"),
        ([3, 3], None, "dims"),
        ([0], None, "dims"),
        ([2.5], None, "dims"),
        ("ab", None, "dims"),
        ([4, 2], [1.0], "weights"),
        ([4], [0.0], "weights"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(dims, weights, named):
    with pytest.raises(ConfigError, match=f"`{named}`"):
        MatryoshkaLoss(make_loss("infonce"), dims, weights=weights)


def test_more_numbers_than_an_embedding_has_are_refused():
    rows, endpoints, mask = random_tuples(1)
    loss = MatryoshkaLoss(make_loss("hinge"), [7])
    with pytest.raises(ConfigError, match="at most the embeddings' 6, got 7"):
        loss(torch.tensor(rows), LossBatch.of(endpoints, mask))


def test_parameters_of_the_inner_loss_are_found_and_settings_are_plain():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, embeddings, batch):
            return self.scale * make_loss("hinge")(embeddings, batch)

    loss = MatryoshkaLoss(Scaled(), [4])
    assert [name for name, _ in loss.named_parameters()] == ["loss.scale"]
    assert loss.describe() == {"dims": [4], "weights": [1.0], "loss": {"name": "Scaled"}}
    assert MatryoshkaLoss(make_loss("triplet"), [4]).describe()["loss"]["margin"] == 1.0
