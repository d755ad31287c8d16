import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from reldp.encoders.features import FeatureTable
from reldp.encoders.prefix import HiddenTable
from reldp.encoders.text_batches import (
    graph_tokens,
    length_batches,
    random_tokens,
    rows_in_order,
    string_batches,
    text_rows,
)
from reldp.encoders.tokens import TokenTable
from reldp.errors import EncoderError
from reldp.graph import EntityGraph
from tests.encoders.tiny import TEXTS


@given(lengths=st.lists(st.integers(1, 30), max_size=20), budget=st.integers(1, 60))
def test_batches_cover_everything_and_keep_the_budget(lengths, budget):
    batches = length_batches(np.array(lengths, int), max_tokens=budget)
    order = [place for batch in batches for place in batch]
    assert sorted(order) == list(range(len(lengths)))
    sizes = [len(batch) for batch in batches]
    longest = [max(lengths[place] for place in batch) for batch in batches]
    assert longest == sorted(longest, reverse=True)
    for size, length in zip(sizes, longest, strict=True):
        assert size == 1 or size * length <= budget
    # Greedy: no batch could have taken the next text in.
    assert all((s + 1) * n > budget for s, n in zip(sizes[:-1], longest[:-1], strict=True))


def test_a_batch_size_takes_the_place_of_the_budget():
    batches = length_batches(np.array([1, 9, 4, 1, 4]), max_tokens=1, batch_size=2)
    assert [batch.tolist() for batch in batches] == [[1, 2], [4, 0], [3]]


def test_entities_at_indices_are_tokenized_in_their_order(folders):
    tokenizer = AutoTokenizer.from_pretrained(folders["bert"])
    count = len(TEXTS)
    graph = EntityGraph.from_lists(list(range(count)), [(0, 1)], text=TEXTS)
    whole = graph_tokens(tokenizer, graph, None, 16)
    some = graph_tokens(tokenizer, graph, [5, 0, 5], 16)
    for place, index in enumerate([5, 0, 5]):
        assert some.rows([place])[0].tolist() == whole.rows([index])[0].tolist()
    with pytest.raises(EncoderError, match="must lie in"):
        graph_tokens(tokenizer, graph, [count], 16)


def test_one_string_is_no_list_of_texts():
    with pytest.raises(EncoderError, match="got one string"):
        string_batches("a text")


def test_vectors_come_back_in_the_order_of_the_texts():
    outputs = [(np.array([2, 0]), torch.tensor([[2.0], [0.0]])), (np.array([1]), torch.ones(1, 1))]
    assert rows_in_order(outputs, 3, 1).tolist() == [[0.0], [1.0], [2.0]]
    assert rows_in_order([], 0, 4).shape == (0, 4)


def test_random_rows_are_padded_on_the_right_and_hold_special_tokens(folders):
    tokenizer = AutoTokenizer.from_pretrained(folders["bert"])
    rows = random_tokens(tokenizer, 40, 200, 12, torch.Generator().manual_seed(0))
    ids, mask = rows["input_ids"], rows["attention_mask"]
    assert ids.shape == mask.shape == (200, 12)
    assert (mask.diff(dim=1) <= 0).all()
    assert (mask[:, 0] == 1).all()
    assert (ids[mask == 0] == tokenizer.pad_token_id).all()
    special = torch.isin(ids[mask == 1], torch.tensor(tokenizer.all_special_ids))
    assert 0.1 < float(special.double().mean()) < 0.35
    again = random_tokens(tokenizer, 40, 200, 12, torch.Generator().manual_seed(0))
    assert torch.equal(again["input_ids"], ids)


def test_tables_state_lengths_and_padding_and_vectors_have_none():
    table = TokenTable(ids=np.array([7, 8, 9]), offsets=np.array([0, 2, 3]), pad_id=4)
    stated = text_rows(table, 16)
    assert stated.lengths.tolist() == [2, 1]
    assert (stated.max_length, stated.mask) == (16, "attention_mask")
    assert stated.padding == {"input_ids": 4, "attention_mask": 0}
    states = HiddenTable(states=np.ones((3, 5), np.float32), offsets=np.array([0, 2, 3]))
    assert text_rows(states, 16).padding == {"hidden": 0, "attention_mask": 0}
    vectors = FeatureTable(features=np.ones((3, 5), np.float32))
    assert text_rows(vectors, 16).max_length is None
