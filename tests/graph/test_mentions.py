"""Texts that name another entity are found however the id is written, and ordinary words are not."""

import numpy as np
import pytest

from reldp.graph import EntityGraph
from reldp.graph.mentions import COMMON_SHARE, MIN_DIGITS, MIN_LETTERS, find_mentions


def graph(ids, texts):
    return EntityGraph.from_lists(ids, [], text=texts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bob@example.com", "write to bob@example.com"),
        ("bob@example.com", "(Bob@Example.COM)'s friend"),
        ("bob@example.com", "mailto:bob@example.com?subject=x"),
        ("Bob Smith", "a friend of bob smith."),
        ("user-17", "knows USER_17 well"),
        ("B000123", "see https://shop/dp/B000123/ref"),
        ("7731042", "customer 7731042"),
        ("münchen", "von München nach Ulm"),
        ("Иванов", "друг: Иванов"),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id=3F2504E0-4F89-11D3-9A0C-0305E82C3301;"),
    ],
)
def test_an_id_is_found_as_a_run_of_words(name, text):
    found = find_mentions(graph([name, "other"], ["nothing here", text]))
    assert (found.num_texts, found.num_ids, found.rows, found.shown) == (1, 1, (2,), ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("user-17", "user 170 and a user"),  # another word
        ("B000123", "XB000123"),  # inside a word
        ("Bob Smith", "bob met smithers, and smith met bob"),
        ("12345", "in 12345 cases"),  # too short for a number
        ("cat", "a cat"),  # too short for a word
    ],
)
def test_what_is_no_mention_is_not_counted(name, text):
    assert find_mentions(graph([name, "other"], ["nothing here", text])).num_texts == 0


def test_integer_ids_are_found_and_short_ones_are_counted_as_such():
    found = find_mentions(graph([1234567, 7], ["x 7", "y 1234567"]))
    assert (found.num_texts, found.num_searched, found.num_short) == (1, 1, 1)
    assert (MIN_LETTERS, MIN_DIGITS) == (4, 6)


def test_a_text_may_hold_its_own_id_and_a_run_does_not_cross_texts():
    assert find_mentions(graph(["alice-1", "carol-2"], ["I am alice-1", "2 carol"])).num_texts == 0
    assert find_mentions(graph(["alice-1", "carol-2"], ["x carol", "2 y"])).num_texts == 0
    # Two ids of the same words: neither is somebody else's.
    assert find_mentions(graph(["alice-1", "alice 1"], ["alice 1", "alice-1"])).num_texts == 0


def test_ordinary_words_are_left_out_and_counted_but_an_address_never_is():
    texts = [f"a text about water and bob@example.com {i}" for i in range(200)]
    ids = ["water", "bob@example.com", "alice", *(f"entity-{i}" for i in range(197))]
    texts[50] += " alice"
    found = find_mentions(graph(ids, texts))
    assert found.num_common == 1  # water
    assert found.num_texts == 199  # all but bob's own
    assert found.num_ids == 2  # bob and alice
    assert COMMON_SHARE == 0.001


def test_ids_are_returned_only_where_asked_for():
    small = graph(["alice-1", "carol-2", "x"], ["of carol-2", "y", "by alice-1 and carol-2"])
    assert find_mentions(small).shown == ()
    shown = find_mentions(small, show_ids=True).shown
    assert shown[0] == ("alice-1", "carol-2")
    assert "alice-1" not in repr(find_mentions(small))


def test_several_slices_agree_with_a_plain_search(monkeypatch):
    generator = np.random.default_rng(0)
    ids = [f"u{i:04d}x" for i in range(300)]
    texts, expected = [], 0
    for i in range(300):
        others = generator.integers(0, 300, size=3)
        said = [ids[j] for j in others] if generator.random() < 0.3 else ["nobody", ids[i]]
        expected += any(word in ids and word != ids[i] for word in said)
        texts.append("Says: " + "; ".join(said))
    monkeypatch.setattr("reldp.graph.mentions._AT_ONCE", 37)
    assert find_mentions(graph(ids, texts)).num_texts == expected > 50


def test_wordnet_texts_hold_no_ids():
    assert find_mentions(EntityGraph.read("wordnet-verbs")).num_texts == 0


def test_entities_of_one_owner_may_name_each_other() -> None:
    ids, texts = ["alpha", "bravo", "delta"], ["see bravo", "see delta", "nobody"]
    owned = EntityGraph.from_lists(ids, [], text=texts, owner=["x", "x", "y"])
    assert find_mentions(graph(ids, texts)).num_texts == 2
    assert find_mentions(owned).rows == (2,)


def test_a_name_that_two_owners_have_is_named() -> None:
    ids, texts = ["alpha!", "alpha?", "bravo"], ["nobody", "nobody", "see alpha"]
    owned = EntityGraph.from_lists(ids, [], text=texts, owner=["x", "y", "x"])
    assert find_mentions(owned).rows == (3,)
