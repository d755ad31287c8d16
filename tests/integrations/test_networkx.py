"""Graphs from and to networkx."""

import sys

import networkx as nx
import numpy as np
import pytest

from reldp.errors import GraphError, MissingDependency
from reldp.graph import EntityGraph
from reldp.integrations.networkx import from_networkx, to_networkx
from tests.integrations.small import graph, pairs_of, triples_of, typed_graph


def test_networkx_and_back() -> None:
    network = to_networkx(graph())
    assert not network.is_directed()
    assert network.nodes[2]["text"] == "y"
    again = from_networkx(network)
    assert again.ids.to_pylist() == [0, 1, 2, 3]
    assert again.text() == graph().text()
    assert np.array_equal(again.protected, graph().protected)
    assert np.array_equal(again.features, graph().features)
    assert pairs_of(again) == pairs_of(graph())


def test_a_network_of_strings_without_edges() -> None:
    network = nx.Graph()
    network.add_node("a", text="x")
    assert from_networkx(network).num_relations == 0


def test_networks_that_do_not_fit_are_refused() -> None:
    both = nx.DiGraph([("a", "b"), ("b", "a")])
    nx.set_node_attributes(both, "x", "text")
    with pytest.raises(GraphError, match="1 repeated relations"):
        from_networkx(both)
    assert from_networkx(both, drop={"duplicate_relations"}).num_relations == 1
    weighted = nx.Graph()
    weighted.add_nodes_from("ab", text="x")
    weighted.add_edge("a", "b", weight=2.0)
    with pytest.raises(GraphError, match="got column number 3 too"):
        from_networkx(weighted)
    assert from_networkx(weighted, drop={"relation_columns"}).record.drops == {
        "relation_columns": 1
    }
    mixed = nx.Graph([(1, "b")])
    nx.set_node_attributes(mixed, "x", "text")
    with pytest.raises(GraphError, match="one type of value in column 'id'"):
        from_networkx(mixed)
    bare = nx.Graph([("a", "b")])
    with pytest.raises(GraphError, match="must have a column 'text' or 'features'"):
        from_networkx(bare)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependency, match="pip install networkx"):
        to_networkx(graph())


def test_it_is_a_method_of_graphs() -> None:
    again = EntityGraph.from_networkx(graph().to_networkx())
    assert pairs_of(again) == pairs_of(graph())


def test_something_else_is_refused() -> None:
    with pytest.raises(GraphError, match="`network` must be a networkx graph, got dict"):
        from_networkx({"a": ["b"]})


def test_typed_relations_and_back() -> None:
    network = to_networkx(typed_graph())
    assert isinstance(network, nx.MultiDiGraph)
    assert sorted(network.edges(data="type")) == [(1, 2, "knows"), (1, 2, "likes"), (2, 1, "likes")]
    assert triples_of(from_networkx(network)) == triples_of(typed_graph())
    with pytest.raises(GraphError, match="`network` must be directed if its edges have types"):
        from_networkx(nx.MultiGraph(network))
    network.add_edge(2, 3, type=None)
    with pytest.raises(GraphError, match="must give every relation a type"):
        from_networkx(network)
