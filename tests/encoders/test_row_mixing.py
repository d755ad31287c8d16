"""What is computed from several rows at once is known, whether or not any row needs it."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from reldp.encoders.row_mixing import mixes_rows

torch.set_num_threads(1)


def make(count):
    return {"x": torch.randn((count, 6, 8), generator=torch.Generator().manual_seed(count))}


def ids(x):
    return (9 * x[:, :, 0]).abs().long().clamp(max=9)


def last_token(x):
    lengths = (x.abs().sum(-1) > 0).sum(1)
    return x[torch.arange(len(x)), (lengths - 1).clamp(min=0)]


def steps(x):
    state = torch.zeros(len(x), 5)
    for time in range(x.shape[1]):
        state = CELL(x[:, time], state)
    return state


def into_buffer(x):
    out = torch.zeros(len(x), 8)
    out[:, :3] = x[:, 0, :3]
    return torch.where(out > 9, out.mean(0), out)


def one_column(x):
    x = x.clone()
    column = x[:, 0, 0]
    column[column > 9] = column.mean()
    return x


def copied(x):
    first, _ = x[:, :1], x[:, 1:]
    first.copy_(torch.where(first > 9, first.mean(0), first))
    return x


def masked(x):
    x[:, 0].masked_fill_(x[:, 0] > 9, 0.0)
    x[:, 1].add_(x[:, 1].mean() * (x[:, 1] > 9))
    return x


def into_longer_buffer(x):
    buffer = torch.zeros(512, 6, 8)
    buffer[: len(x)] = x
    return torch.where(x > 9, (buffer.sum(0) / len(x)).expand_as(x), x)


def through_data(x):
    data = x.data
    data[data > 9] = x.mean()
    return x


def of_each(x):
    parts = [x[:, 0].clone(), x[:, 1].clone()]
    torch._foreach_mul_(parts, [1.0, 2.0])
    torch._foreach_add_(parts, [(part > 9) * part.mean(0) for part in parts])
    return torch.stack(parts, 1)


def apart_in_buffer(x):
    out = torch.empty(len(x), 8)
    out[:, :4] = x[:, 0, :4]
    out[:, 4:] = x[:, 1, 4:]
    out[:, 0] = torch.where(out[:, 0] > 9, out[:, 1:].mean(1), out[:, 0])
    torch._foreach_mul_([out], 2.0)
    return out


CELL = nn.GRUCell(8, 5)
WORDS = nn.Embedding(10, 7, padding_idx=0)
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True).eval()
ACROSS = nn.MultiheadAttention(8, 2, batch_first=False).eval()
LAYER = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
IMAGES = nn.Sequential(nn.Conv1d(6, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Flatten())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ATTENTION(x, x, x)[0].mean(1),
        lambda x: LAYER(x).mean(1),
        IMAGES,
        nn.InstanceNorm1d(6),
        nn.BatchNorm1d(6).eval(),
        steps,
        last_token,
        lambda x: WORDS(ids(x)).mean(1),
        lambda x: functional.embedding_bag(ids(x), WORDS.weight),
        lambda x: functional.one_hot(ids(x), 10).float().mean(1),
        lambda x: torch.zeros(len(x), 10).scatter_add(1, ids(x), torch.ones(len(x), 6)),
        lambda x: x.gather(1, x.argsort(1)).cumsum(1).softmax(1).flatten(1),
        lambda x: x.topk(2, dim=1)[0].flatten(1),
        lambda x: functional.normalize(x.flatten(1), dim=1),
        lambda x: torch.cdist(x, x).flatten(1),
        lambda x: torch.einsum("bij,bkj->bik", x, x).sum(2),
        lambda x: x.reshape(-1, 8) @ torch.ones(8, 2),
        lambda x: x + torch.zeros_like(x).sum(0) + torch.arange(6.0)[:, None],
        lambda x: torch.where(x > 9, x.mean(1, keepdim=True), x),
        lambda x: torch.func.vmap(lambda row: row.sum())(x)[:, None],
        apart_in_buffer,
        lambda x: (x, x.mean(0))[0],  # a statistic that no result uses
    ],
)
def test_rows_that_are_computed_apart_are_not_mixed(function):
    assert not mixes_rows(lambda x: function(x), make)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.where(x > 9, x.mean(0), x),
        lambda x: torch.where(x > 9, x.detach().flatten().mean(), x),
        lambda x: x * ~(x > 9).any(0),
        lambda x: x / x.amax().clamp(min=100),
        lambda x: x.sum(1) / (x > -9).sum((1, 2)).max(),
        lambda x: x / x.std().clamp(min=99),
        lambda x: ACROSS(x, x, x)[0],
        lambda x: torch.where(x > 9, (x[:, 0] @ x[:, 0].T).sum(1)[:, None, None], x),
        lambda x: torch.where(x > 9, x.softmax(0), x),
        lambda x: torch.where(x > 9, x.cummax(0)[0], x),
        lambda x: torch.where(x > 9, x.sort(0)[0], x),
        lambda x: torch.where(x > 9, x.roll(1, 0), x.roll(1, 1)),
        lambda x: torch.where(x > 9, x.flip(0), x.flip(1)),
        lambda x: torch.where(x > 9, torch.sort(x, dim=0, stable=True)[0], x),
        lambda x: torch.where(x > 9, x.roll(1), x),
        lambda x: torch.where(x > 9, x.topk(len(x), dim=0)[0], x),
        lambda x: torch.where(x > 9, torch.cat([x[1:], x[:1]]), x),
        lambda x: torch.where(x > 9, x[ids(x)[:, 0] * 0], x),
        lambda x: x - x[:1] * (x > 9),
        *(into_buffer, one_column, copied, masked, through_data, of_each, into_longer_buffer),
        lambda x: x + torch.zeros(6, 8).copy_(x.amin(0)).clamp(max=-99),
        lambda x: torch.where(
            (torch.cdist(x[:, 0], x[:, 0]) < 1e-9).sum(1)[:, None] > 1, 0, x[:, 0]
        ),
    ],
)
def test_what_is_computed_from_several_rows_is_mixed_though_no_row_needs_it(function):
    assert mixes_rows(lambda x: function(x), make)


def test_a_size_that_is_a_multiple_of_a_number_of_rows_by_chance_decides_nothing():
    wide = torch.ones(29, 8)
    assert not mixes_rows(lambda x: x @ wide.T, make)
    assert mixes_rows(
        lambda x: torch.where(x @ wide.T > 99, (x @ wide.T).mean(0), x @ wide.T), make
    )
    small = nn.Sequential(*(nn.Conv2d(1, 1, 3) for _ in range(4)))
    assert not mixes_rows(lambda x: small(x), lambda count: {"x": torch.ones(count, 1, 33, 33)})
