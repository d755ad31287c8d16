"""Modules that decide by the values of their rows are known before they decide."""

import numpy as np
import pytest
import torch
from torch import nn

from reldp.encoders import TextEncoder
from reldp.encoders.control_flow import depends_on_values
from tests.encoders.tiny import write_model

ROWS = {"x": torch.arange(12.0).view(4, 3)}


def routed(x):
    """Every expert sees the rows that chose it."""
    chosen = (x.sum(1) > 9).long()
    out = torch.zeros_like(x)
    for expert in range(2):
        where = torch.where(chosen == expert)[0]
        out = out.index_copy(0, where, x[where] * (expert + 1))
    return out


def written(x):
    """A number goes through memory that did not come from the rows."""
    memory = torch.zeros(4, 3)
    memory.copy_(x)
    return x if memory.max() > 1e9 else x * 2


def written_in_part(x):
    """The whole memory comes from the rows as soon as a part of it does."""
    memory = torch.zeros(4, 3)
    memory[:, :2] = x[:, :2]
    return x if (memory > 1e9).any() else x * 2


def written_in_place(x):
    memory = torch.zeros(4, 3)
    torch._foreach_add_([memory[:, 0]], [x[:, 0]])
    return x if memory.max() > 1e9 else x * 2


@pytest.mark.parametrize(
    "module",
    [
        lambda x: x / x.max() if x.max() > 1e9 else x,  # a branch that is not taken
        lambda x: x * 2 if bool(torch.isnan(x).any()) else x,
        lambda x: x.clamp(max=float(x.std())),
        lambda x: x[x > 3].sum() + x,
        lambda x: torch.unique(x, dim=0),
        lambda x: x if torch.equal(x, x + 1) else x * 2,
        lambda x: x.repeat_interleave(x[:, 0].long() % 3, dim=0),
        routed,
        written,
        lambda x: x / 10 if max(x.flatten().tolist()) > 1e9 else x,
        lambda x: x / 10 if x.detach().numpy().max() > 1e9 else x,
        lambda x: x / 10 if np.asarray(x.detach()).max() > 1e9 else x,
        lambda x: torch.as_tensor([max(row) for row in x.tolist()])[:, None] + x,
        written_in_part,
        written_in_place,
    ],
)
def test_decisions_are_seen_whichever_way_they_fall(module):
    assert depends_on_values(lambda x: module(x), ROWS)


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 2),
        lambda x: x.sort(1)[0] + x.topk(2, dim=1)[0].sum(1, keepdim=True),
        lambda x: torch.where(x > 3, x, -x).gather(1, x.argsort(1)),
        lambda x: x[torch.tensor([3, 1])],  # whole numbers: the shape is known
        lambda x: x / 2 if x.shape[0] > 2 else x,
        lambda x: (
            x * 2 if torch.ones(3).sum() > 2 else x + sum(torch.ones(3).tolist())
        ),  # does not come from the rows
    ],
)
def test_what_is_computed_alike_for_all_rows_is_no_decision(module):
    assert not depends_on_values(lambda x: module(x), ROWS)


def test_decisions_about_attention_masks_do_not_count():
    mask = torch.ones(2, 3)
    rows = {"attention_mask": mask, "input_ids": torch.ones(2, 3)}

    def module(attention_mask, input_ids):
        return input_ids * 2 if bool(attention_mask.all()) else input_ids

    assert not depends_on_values(module, rows, mask="attention_mask")
    assert depends_on_values(module, rows)
    assert depends_on_values(lambda attention_mask, input_ids: module(input_ids, mask), rows)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_text_models_decide_nothing_by_their_texts(kind, tmp_path):
    encoder = TextEncoder.load(write_model(kind, tmp_path / kind), lora_rank=2)
    rows = encoder.synthetic_rows(None, 4, length=8, generator=torch.Generator().manual_seed(0))
    assert not depends_on_values(lambda **own: encoder.embed(own), rows, mask="attention_mask")
