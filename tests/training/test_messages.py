"""No messages inside of a forward pass or a loss; `test_hostile_groups` tries it with real processes."""

import pytest
import torch
import torch.distributed as dist

from reldp.errors import InputError, RunError
from reldp.processes import messages_sent, new_uncounted_group
from reldp.training.messages import refuse_messages, same_messages
from reldp.training.objective import Objective
from tests.training.small import small_parts


@pytest.fixture
def group(tmp_path):
    """A process group of one process."""
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    dist.destroy_process_group()


def plain(embeddings, batch):
    return (embeddings[:, 2:] * embeddings[:, :1]).sum(-1).masked_fill(batch.mask, 0.0).sum(1)


class Backward(torch.autograd.Function):
    """Talks in the backward pass only."""

    @staticmethod
    def forward(context, values):
        return values * 1.0

    @staticmethod
    def backward(context, gradients):
        dist.all_reduce(gradients)
        return gradients


def forward_message(embeddings, batch):
    dist.all_reduce(embeddings.detach().clone())
    return plain(embeddings, batch)


def gathered_object(embeddings, batch):
    dist.all_gather_object([None], 1)
    return plain(embeddings, batch)


def backward_message(embeddings, batch):
    return Backward.apply(plain(embeddings, batch))


@pytest.mark.parametrize("loss", [forward_message, gathered_object, backward_message])
def test_a_loss_that_sends_messages_is_refused(group, loss):
    encoder, capped, plan = small_parts()
    objective = Objective(encoder, loss, plan)
    with pytest.raises(InputError, match=r"got a message to other processes \(c10d"):
        refuse_messages(objective, encoder.table(capped), length=1)


def test_an_encoder_that_sends_messages_is_refused(group):
    encoder, capped, plan = small_parts()
    embed = encoder.embed
    encoder.embed = lambda rows: Backward.apply(embed(rows))
    with pytest.raises(InputError, match="got a message to other processes"):
        refuse_messages(Objective(encoder, plain, plan), encoder.table(capped), length=1)


def test_what_sends_no_messages_passes(group):
    encoder, capped, plan = small_parts()
    refuse_messages(Objective(encoder, plain, plan), encoder.table(capped), length=1)


def test_without_a_group_nothing_is_tried():
    assert not dist.is_initialized()
    refuse_messages(None, None, length=1)


def test_messages_of_any_group_are_counted_except_those_of_sharded_weights(group, monkeypatch):
    with same_messages():
        torch.ones(2).sum()
    with pytest.raises(RunError, match="must send no messages"), same_messages():
        dist.barrier()
    second = dist.new_group()
    with pytest.raises(RunError, match="must send no messages"), same_messages():
        dist.all_reduce(torch.ones(2), group=second)
    monkeypatch.setattr("reldp.processes._uncounted", [])
    uncounted = new_uncounted_group()
    with same_messages():
        dist.all_reduce(torch.ones(2), group=uncounted)
    assert messages_sent()
