"""Sums over negatives, computed by hand and by torch."""

import torch
from torch.nn import functional

from reldp.losses import (
    CosineMarginLoss,
    HingeLoss,
    LogisticLoss,
    LossBatch,
    TripletMarginLoss,
)
from tests.losses.oracle import random_tuples


def test_each_negative_is_scored_against_the_endpoint_that_was_drawn_for_it():
    rows = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    hinge = HingeLoss(score="dot", temperature=1.0, margin=1.0)
    assert hinge(rows, LossBatch.of([[0]], [[False]])).item() == 2.0
    assert hinge(rows, LossBatch.of([[1]], [[False]])).item() == 1.0


def test_triplet_and_cosine_are_those_of_torch():
    rows, _, _ = random_tuples(4, tuples=6, k=1)
    embeddings, batch = torch.tensor(rows), LossBatch.of([[0]] * 6, [[False]] * 6)
    anchor, partner, negative = embeddings.unbind(1)
    expected = functional.triplet_margin_loss(
        anchor, partner, negative, margin=0.5, reduction="none", eps=0.0
    )
    torch.testing.assert_close(TripletMarginLoss(margin=0.5)(embeddings, batch)[:, 0], expected)
    near = functional.cosine_embedding_loss(anchor, partner, torch.ones(6), reduction="none")
    far = functional.cosine_embedding_loss(
        anchor, negative, -torch.ones(6), margin=0.1, reduction="none"
    )
    got = CosineMarginLoss(margin=0.1)(embeddings, batch)[:, 0]
    torch.testing.assert_close(got, near + far, atol=1e-6, rtol=1e-6)


def test_settings_are_plain_values():
    assert LogisticLoss(pairing="both").describe() == {
        "pairing": "both",
        "score": "cosine",
        "temperature": 0.05,
    }
    assert TripletMarginLoss().describe() == {"pairing": "one", "margin": 1.0}
