import pytest
import torch
from torch import nn
from transformers import AutoModel

from reldp.encoders.adaptation import Adaptation, adapt
from reldp.encoders.loading import DenseLayer
from reldp.encoders.text_module import TextModule

IDS = torch.tensor([[4, 5, 6, 7], [6, 5, 1, 1]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


def make(folder, how, **settings):
    backbone, _ = adapt(AutoModel.from_pretrained(folder), how, "base")
    usual = {"pooling": "mean", "dense": [], "normalize": False, "autocast": False}
    return TextModule(backbone, **{**usual, **settings}).eval()


def test_the_parts_run_in_their_order(folder):
    torch.manual_seed(2)
    dense = [
        DenseLayer(linear=nn.Linear(32, 5), activation=nn.Tanh()),
        DenseLayer(linear=nn.Linear(5, 3)),
    ]
    module = make(folder, Adaptation(train="none"), dense=dense, normalize=True)
    with torch.no_grad():
        hidden = module.backbone(input_ids=IDS, attention_mask=MASK).last_hidden_state
        pooled = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)])
        last = dense[1].linear(torch.tanh(dense[0].linear(pooled)))
        expected = last / last.norm(dim=1, keepdim=True)
        torch.testing.assert_close(module(input_ids=IDS, attention_mask=MASK), expected)


@pytest.mark.parametrize(("train", "rows_of_positions"), [("full", 2), ("none", 1)])
def test_trained_positions_are_looked_up_row_by_row(folders, train, rows_of_positions):
    """A table looked up once for the whole batch has no gradient per row."""
    module = make(folders["bert"], Adaptation(train=train))
    seen = []
    module.backbone.embeddings.position_embeddings.register_forward_hook(
        lambda _, inputs, __: seen.append(inputs[0].shape[0])
    )
    module(input_ids=IDS, attention_mask=MASK)
    assert seen == [rows_of_positions]


def test_the_prefix_is_no_part_of_the_state(folder):
    cut, plain = make(folder, Adaptation(train="last:1")), make(folder, Adaptation(train="none"))
    assert cut.num_frozen == 2
    assert plain.prefix is None
    assert set(cut.state_dict()) == set(plain.state_dict())
