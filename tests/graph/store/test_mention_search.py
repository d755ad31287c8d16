"""Mentions in a store are those in memory, whatever the ids look like."""

import numpy as np
import pytest

from reldp.graph import EntityGraph
from reldp.graph.mentions import find_mentions
from reldp.graph.store import build_store


@pytest.mark.parametrize("seed", range(3))
def test_random_texts_with_ids_of_several_words(tmp_path, seed):
    rng = np.random.default_rng(seed)
    words = ["red", "blue", "Anna-Lena", "K9 unit", "12 3456", "o'neil", "tree", "x"]
    names = list(dict.fromkeys(" ".join(rng.choice(words, 3)) for _ in range(120)))
    texts = [" ".join(rng.choice([*words, *names[:20]], 5)) for _ in names]
    graph = EntityGraph.from_lists(names, [], text=texts)
    graph.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    expected = find_mentions(graph, show_ids=True)
    assert expected.num_texts > 5
    assert find_mentions(store, show_ids=True) == expected


def test_integers_are_names_too(tmp_path):
    graph = EntityGraph.from_lists([1234567, 8], [], text=["called 8", "see 1234567"])
    graph.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    assert find_mentions(store) == find_mentions(graph)
    assert find_mentions(store).num_texts == 1
