"""Graphs from and to the libraries people already use."""

import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from reldp.errors import GraphError, MissingDependency
from reldp.graph import EntityGraph
from reldp.graph.interop import (
    from_networkx,
    from_pandas,
    from_pyg,
    from_scipy,
    to_networkx,
    to_pandas,
    to_pyg,
    to_scipy,
)

with warnings.catch_warnings():  # torch_geometric itself uses what torch calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.data import Data, HeteroData


def graph(**changes: object) -> EntityGraph:
    values: dict[str, object] = {
        "text": ["w", "x", "y", "z"],
        "features": np.arange(8).reshape(4, 2) / 3,
        "protected": [True, True, False, True],
    }
    pairs = [(0, 1), (2, 1), (0, 3)]
    return EntityGraph.from_lists([0, 1, 2, 3], pairs, **(values | changes))  # type: ignore[arg-type]


def pairs_of(one: EntityGraph) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in one.relations.tolist()}


def test_pandas_and_back() -> None:
    entities, relations = to_pandas(graph())
    assert list(entities.columns) == ["id", "text", "features", "protected"]
    assert relations.to_numpy().tolist() == [[0, 1], [2, 1], [0, 3]]
    assert from_pandas(entities, relations) == graph()
    assert from_pandas(entities.set_index("id"), relations) == graph()


def test_a_frame_with_holes_or_mixed_types_is_refused() -> None:
    endpoints = pd.DataFrame({"source": [1], "target": [2]})
    with pytest.raises(GraphError, match="An empty cell turned integers into floats"):
        from_pandas(pd.DataFrame({"id": [1, None], "text": ["x", "y"]}), endpoints)
    with pytest.raises(GraphError, match="entities must hold one type of value in column"):
        from_pandas(pd.DataFrame({"id": [1, "b"], "text": ["x", "y"]}), endpoints)
    dropped = from_pandas(
        pd.DataFrame({"id": [1, 2], "text": ["x", "y"]}),
        pd.DataFrame({"source": [1, 1], "target": [2, 9]}),
        drop={"unknown_ids"},
    )
    assert dropped.record.drops == {"unknown_ids": 1}


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


@pytest.mark.parametrize("make", [sp.csr_array, sp.coo_array, sp.csr_matrix, sp.csc_array])
def test_scipy_and_back(make: type) -> None:
    matrix = to_scipy(graph())
    assert matrix.shape == (4, 4)
    assert (matrix != matrix.T).nnz == 0
    assert matrix.sum() == 6
    again = from_scipy(make(matrix), text=graph().text(), features=graph().features)
    assert pairs_of(again) == pairs_of(graph())


def test_a_triangle_of_a_matrix_is_each_pair_once() -> None:
    upper = sp.triu(to_scipy(graph()))
    assert pairs_of(from_scipy(upper, text=graph().text())) == pairs_of(graph())


def test_matrices_that_do_not_fit_are_refused() -> None:
    with pytest.raises(GraphError, match="`adjacency` must be square, got 2 x 3"):
        from_scipy(sp.csr_array(np.zeros((2, 3))), text=["x", "y"])
    with pytest.raises(GraphError, match="must hold only 0 and 1, got other weights"):
        from_scipy(sp.csr_array(np.array([[0, 2], [2, 0]])), text=["x", "y"])
    with pytest.raises(GraphError, match="1 self-relations"):
        from_scipy(sp.csr_array(np.eye(2)[:1].repeat(2, 0).T), text=["x", "y"])
    partly = sp.csr_array(np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]]))
    with pytest.raises(GraphError, match="1 repeated relations"):
        from_scipy(partly, text=["x", "y", "z"])
    with pytest.raises(GraphError, match="`text` must have one value per node, got 1 for 2"):
        from_scipy(sp.csr_array((2, 2)), text=["x"])


def test_pyg_and_back() -> None:
    data = to_pyg(graph())
    assert data.is_undirected()
    assert data.num_nodes == 4
    assert data.x.dtype == torch.float32
    again = from_pyg(data)
    assert again.text() == graph().text()
    assert np.array_equal(again.features, graph().features)
    assert np.array_equal(again.protected, graph().protected)
    assert pairs_of(again) == pairs_of(graph())


def test_a_pyg_graph_of_features_alone_says_what_was_left_out() -> None:
    data = Data(
        x=torch.eye(3, requires_grad=True),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        y=torch.ones(3),
    )
    one = from_pyg(data)
    assert one.relations.tolist() == [[0, 1], [1, 2]]
    assert one.record.notes == ("Left out of a PyTorch Geometric graph: y.",)
    assert to_pyg(one).edge_index.shape == (2, 4)
    named = from_pyg(data, text=["a", "b", "c"], ids=["i", "j", "k"])
    assert (named.text([2]), named.ids.to_pylist()) == (["c"], ["i", "j", "k"])


def test_pyg_graphs_that_do_not_fit_are_refused() -> None:
    edges = torch.tensor([[0], [1]])
    weighted = Data(x=torch.eye(2), edge_index=edges, edge_attr=torch.ones(1, 1))
    with pytest.raises(GraphError, match="`data` must not have an edge_attr"):
        from_pyg(weighted)
    dropped = from_pyg(weighted, drop={"relation_columns"})
    assert dropped.record.drops == {"relation_columns": 1}
    hetero = HeteroData()
    hetero["user"].x = torch.eye(2)
    with pytest.raises(GraphError, match="must be a homogeneous graph with an edge_index"):
        from_pyg(hetero)
    with pytest.raises(GraphError, match="an edge_index, got none"):
        from_pyg(Data(x=torch.eye(2)))
    beyond = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [5]]))
    with pytest.raises(GraphError, match=r"must name nodes 0\.\.1, got 1 pairs"):
        from_pyg(beyond)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependency, match="pip install networkx"):
        to_networkx(graph())
