"""Parts of stores."""

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph.store import build_store, selection
from tests.graph.store.test_cap import random_graph


def test_selections_in_chunks_are_those_of_the_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "_CHUNK", 100)
    graph = random_graph(7, typed=True)
    graph.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    rng = np.random.default_rng(0)
    kept = rng.random(graph.num_relations) < 0.4
    assert store.keep_relations(kept, record=graph.record) == graph.keep_relations(
        kept, record=graph.record
    )
    chosen = rng.random(graph.num_entities) < 0.6
    part, expected = store.select_entities(chosen), graph.select_entities(chosen)
    assert part == expected
    assert part.record == expected.record
    inner = rng.random(part.num_entities) < 0.5
    assert part.select_entities(inner) == expected.select_entities(inner)


def test_a_mask_of_nothing_or_of_another_size_is_refused(tmp_path):
    graph = random_graph(7)
    graph.write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    for mask in (np.zeros(400, dtype=bool), np.ones(3, dtype=bool), np.ones(400)):
        with pytest.raises(GraphError) as expected:
            graph.select_entities(mask)
        with pytest.raises(GraphError) as got:
            store.select_entities(mask)
        assert str(got.value) == str(expected.value)
