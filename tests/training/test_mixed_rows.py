"""Units of modules and losses that may take something from other tuples run one at a time."""

import pytest
import torch
from torch import nn

from reldp.training.step import PrivateStep
from tests.training.small import small_encoder, small_parts
from tests.training.test_guard import Shaped, opened

torch.set_num_threads(1)


def filled(x):
    known = x != -1
    return torch.where(known, x, (x * known).sum(0) / known.sum(0).clamp(min=1))


def in_use(x):
    return x * (x != -1).all(0)


def false_negatives(embeddings, batch):
    """Leaves out negatives that are the partner in another tuple."""
    anchor, partner, negatives = embeddings[:, :1], embeddings[:, 1:2], embeddings[:, 2:]
    scores = (anchor * partner).sum(-1), (anchor * negatives).sum(-1)
    distances = torch.cdist(negatives.detach().flatten(0, 1), partner.detach()[:, 0])
    known = (distances < 1e-6).any(1).view(scores[1].shape)
    return nn.functional.softplus(scores[1] - scores[0]).masked_fill(batch.mask | known, 0.0)


@pytest.mark.parametrize("what", [filled, in_use])
def test_units_are_alone_where_a_row_may_take_something_from_other_rows(what):
    """Unknown numbers that become the mean of the batch, for example: random rows have no unknown numbers."""
    step = opened(lambda inner: Shaped(inner, what))
    assert set(step._shapes.layouts.values()) == {"single"}
    step.close()


def test_units_are_alone_where_a_loss_looks_for_entities_of_other_tuples():
    _, capped, plan = small_parts()
    step = PrivateStep(small_encoder(), capped, plan, loss=false_negatives)
    step.prepare()
    assert set(step._shapes.layouts.values()) == {"single"}


@pytest.mark.parametrize("loss", ["infonce", "hinge", "logistic", "triplet"])
def test_losses_and_encoders_of_this_package_need_no_units_alone(loss):
    _, capped, plan = small_parts()
    step = PrivateStep(small_encoder(), capped, plan, loss=loss)
    step.prepare()
    assert set(step._shapes.layouts.values()) != {"single"}


def test_units_are_alone_where_a_module_runs_on_few_numbers_of_rows_only():
    def picky(x):
        if len(x) > 28 and len(x) % 5:
            raise ValueError("rows of tuples, please")
        return x.tanh()

    step = opened(lambda inner: Shaped(inner, picky))
    assert set(step._shapes.layouts.values()) == {"single"}
    step.close()
