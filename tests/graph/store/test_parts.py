"""Parts are made once, known to be right in the process that made them, and compared with the store in others."""

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.graph.store import build_store, parts
from tests.graph.store.test_cap import random_graph


@pytest.mark.parametrize(
    ("check", "use"),
    [
        ("check_kept", lambda s: s.keep_relations(np.arange(s.num_relations) > 5, record=s.record)),
        ("check_recoded", lambda s: s.with_types(list("abcd"))),
        ("check_selected", lambda s: s.select_entities(np.arange(s.num_entities) > 5)),
    ],
)
def test_a_part_is_compared_unless_this_call_made_it(tmp_path, monkeypatch, check, use):
    random_graph(1, typed=True).write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    calls = []
    right = getattr(parts, check)
    monkeypatch.setattr(parts, check, lambda *given: calls.append(1) or right(*given))
    one = use(store)
    assert calls == []
    assert use(EntityGraph.read(tmp_path / "store")) == one
    assert calls == [1]


def test_types_of_a_graph_without_them_are_refused(tmp_path):
    random_graph(1).write(tmp_path / "graph")
    store = build_store(tmp_path / "graph", tmp_path / "store")
    with pytest.raises(GraphError, match="The graph must have relations with types, got none"):
        store.with_types(["a"])
