import numpy as np
import pytest
import torch
from transformers import AutoModel

from reldp.encoders.adaptation import Adaptation, adapt
from reldp.encoders.prefix import FrozenPrefix, HiddenTable, num_frozen_layers
from reldp.encoders.saving import base_model
from reldp.encoders.text import TextEncoder
from reldp.graph import EntityGraph
from tests.encoders.tiny import TEXTS

CUTS = [{"train": "last:1"}, {"train": "last:2"}, {"lora_layers": 1}, {"lora_layers": 2}]


def make_graph():
    return EntityGraph.from_lists(list(range(len(TEXTS))), [(0, 1)], text=TEXTS)


def shaken(encoder):
    generator = torch.manual_seed(3)
    with torch.no_grad():
        for parameter in encoder.trainable().values():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return encoder


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"train": "last:1"}, 2),
        ({"train": "last:3"}, 0),
        ({"train": "full"}, 0),
        ({"lora_layers": 2}, 1),
        ({}, 0),
    ],
)
def test_the_cut_lies_below_everything_that_is_trained(folder, how, expected):
    adapted, _ = adapt(AutoModel.from_pretrained(folder), Adaptation(**how), "base")
    assert num_frozen_layers(base_model(adapted)) == expected


def test_anything_trained_under_the_layers_leaves_no_cut(folder):
    model = AutoModel.from_pretrained(folder)
    adapt(model, Adaptation(train="last:1"), "base")
    model.get_input_embeddings().weight.requires_grad_(True)
    assert num_frozen_layers(model) == 0


def test_states_after_the_lower_layers_are_the_models_own(folder):
    model = AutoModel.from_pretrained(folder).eval()
    ids, mask = (
        torch.tensor([[4, 5, 6, 7], [6, 5, 1, 1]]),
        torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
    )
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    prefix = FrozenPrefix(model, 2)
    states = prefix.below(ids, mask)
    torch.testing.assert_close(states, expected.hidden_states[2])
    with torch.no_grad(), prefix.above(states):
        out = model(input_ids=torch.zeros_like(ids), attention_mask=mask).last_hidden_state
    torch.testing.assert_close(out[0], expected.last_hidden_state[0])
    torch.testing.assert_close(out[1, :2], expected.last_hidden_state[1, :2])
    with torch.no_grad():
        again = model(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.equal(again, expected.last_hidden_state)


@pytest.mark.parametrize("settings", CUTS, ids=lambda s: str(*s.values()))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_embeddings_and_gradients_are_the_same_with_and_without_the_cut(folder, settings, dtype):
    encoder = shaken(TextEncoder.load(folder, dtype=dtype, **settings))
    kept = encoder.table(make_graph(), keep_states=True)
    tokens = encoder.table(make_graph())
    assert isinstance(kept, HiddenTable)
    chosen = [3, 0, 3, 5, 4]
    whole = encoder.embed(encoder._token_rows(tokens, chosen))
    close = {"atol": 1e-5, "rtol": 1e-4} if dtype == "float32" else {"atol": 0.1, "rtol": 0.05}
    parameters = list(encoder.trainable().values())
    expected = torch.autograd.grad(whole.square().sum(), parameters)
    for table, name in ((kept, "hidden"), (tokens, "input_ids")):
        rows = encoder.rows(table, chosen)
        assert name in rows
        embeddings = encoder.embed(rows)
        torch.testing.assert_close(embeddings, whole, **close)
        found = torch.autograd.grad(embeddings.square().sum(), parameters)
        if dtype == "float32":
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_states_made_by_one_encoder_serve_another_like_it(folder):
    first = TextEncoder.load(folder, train="last:1")
    second = TextEncoder.load(folder, train="last:1")
    kept = first.table(make_graph(), pool=["blue cat"], keep_states=True)
    found = second.embed(second.rows(kept, np.arange(len(kept)))).detach().numpy()
    np.testing.assert_allclose(found, first.encode([*TEXTS, "blue cat"]), atol=1e-5)


def test_with_all_layers_trained_there_is_nothing_to_keep(folder):
    encoder = TextEncoder.load(folder)
    assert not isinstance(encoder.table(make_graph(), keep_states=True), HiddenTable)


def test_tables_of_states_join_and_pad_with_zeros():
    one = HiddenTable(states=np.ones((3, 2), np.float32), offsets=np.array([0, 1, 3]))
    two = HiddenTable(states=np.full((1, 2), 5, np.float32), offsets=np.array([0, 1]))
    states, mask = one.join(two).rows([2, 1])
    assert states[:, :, 0].tolist() == [[5, 0], [1, 1]]
    assert mask.tolist() == [[1, 0], [1, 1]]


def test_padding_of_a_row_is_zero_whatever_the_first_text_is():
    for first in (np.nan, np.inf, -1.0):
        states = np.array([[first], [2.0], [3.0], [4.0]], np.float32)
        table = HiddenTable(states=states, offsets=np.array([0, 1, 2, 4]))
        found = table.rows([1, 2])[0][..., 0]
        assert found.tolist() == [[2.0, 0.0], [3.0, 4.0]]
        assert not np.signbit(found).any()
