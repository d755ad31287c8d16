"""Graphs from and to PyTorch Geometric."""

import warnings

import numpy as np
import pytest
import torch

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.integrations.pyg import from_pyg, to_pyg
from tests.integrations.small import graph, pairs_of, triples_of, typed_graph

with warnings.catch_warnings():  # torch_geometric itself uses what torch calls deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.data import Data, HeteroData


def test_pyg_and_back() -> None:
    data = to_pyg(graph())
    assert data.is_undirected()
    assert data.num_nodes == 4
    assert data.x.dtype == torch.float32
    again = from_pyg(data)
    assert again.text() == graph().text()
    assert np.array_equal(again.features, graph().features)
    assert np.array_equal(again.protected, graph().protected)
    owned = EntityGraph.from_lists(
        ["a", "b", "c"], [("a", "b")], text=["x", "y", "z"], owner=["p", None, "p"]
    )
    assert from_pyg(to_pyg(owned)).owners.tolist() == owned.owners.tolist() == [0, 1, 0]
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
    with pytest.raises(GraphError, match="`protected_types` must be left out for a Data"):
        from_pyg(weighted, protected_types=["user"])
    with pytest.raises(GraphError, match=r"`edge_index` must have shape \(2, m\), got \(1,\)"):
        from_pyg(Data(x=torch.eye(2), edge_index=torch.tensor([0])))
    with pytest.raises(GraphError, match="an edge_index, got none"):
        from_pyg(Data(x=torch.eye(2)))
    beyond = Data(x=torch.eye(2), edge_index=torch.tensor([[0], [5]]))
    with pytest.raises(GraphError, match=r"must name nodes 0\.\.1, got 1 pairs"):
        from_pyg(beyond)


def shop(**edges: list[list[int]]) -> HeteroData:
    """Three users, two items, and who bought what."""
    data = HeteroData()
    data["user"].x = torch.eye(3)
    data["item"].x = torch.ones(2, 3)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 1]])
    for name, index in edges.items():
        data["user", name, "item"].edge_index = torch.tensor(index)
    return data


def test_types_of_nodes_become_prefixes_and_a_column() -> None:
    one = EntityGraph.from_pyg(shop(), protected_types=["user"])
    assert one.ids.to_pylist() == ["user:0", "user:1", "user:2", "item:0", "item:1"]
    assert one.column("node_type") == ["user"] * 3 + ["item"] * 2
    assert one.protected.tolist() == [True] * 3 + [False] * 2
    assert one.relations.tolist() == [[0, 3], [1, 3], [2, 4]]
    assert one.features is not None
    assert one.features[3].tolist() == [1, 1, 1]


def test_types_of_nodes_and_back() -> None:
    one = from_pyg(shop(), text={"user": ["a", "b", "c"], "item": ["x", "y"]})
    data = one.to_pyg(node_type="node_type")
    assert set(data.node_types) == {"user", "item"}
    assert data["user", "related_to", "item"].edge_index.tolist() == [[0, 1, 2], [0, 0, 1]]
    assert data["item", "related_to", "user"].edge_index.shape == (2, 3)
    assert (data["user"].text, data["item"].ids) == (["a", "b", "c"], ["item:0", "item:1"])
    assert torch.equal(data["item"].x, torch.ones(2, 3))
    assert data.validate()


def test_several_types_of_edges_must_be_named() -> None:
    data = shop(returns=[[0], [1]], rev_buys=[[0], [0]])
    with pytest.raises(GraphError, match=r"`edge_types` must be given .* got 3 types"):
        from_pyg(data)
    both = from_pyg(data, edge_types=[("user", "buys", "item"), ("user", "returns", "item")])
    assert both.relations.tolist() == [[0, 3], [1, 3], [2, 4], [0, 4]]
    with pytest.raises(GraphError, match="1 repeated relations"):
        from_pyg(data, edge_types=[("user", "buys", "item"), ("user", "rev_buys", "item")])
    for wrong in ([], [("user", "sells", "item")]):
        with pytest.raises(GraphError, match="`edge_types` must name types of edges of `data`"):
            from_pyg(data, edge_types=wrong)


def test_types_that_do_not_fit_together_are_refused() -> None:
    lengths = shop()
    lengths["item"].x = torch.ones(2, 5)
    with pytest.raises(GraphError, match="features x of one length for all types of nodes"):
        from_pyg(lengths)
    missing = shop()
    missing["user"].text = ["a", "b", "c"]
    with pytest.raises(GraphError, match="text for all types of nodes or for none"):
        from_pyg(missing)
    with pytest.raises(GraphError, match="`text` must be a dictionary by node type"):
        from_pyg(shop(), text=["a"] * 5)
    for wrong in (["customer"], "user"):
        with pytest.raises(GraphError, match="`protected_types` must be a list of node types"):
            from_pyg(shop(), protected_types=wrong)


def test_a_number_beyond_its_type_never_names_a_node_of_another_type() -> None:
    data = shop()
    data["user", "buys", "item"].edge_index = torch.tensor([[3], [0]])
    with pytest.raises(GraphError, match="nodes of its two types, got 1 edges with others"):
        from_pyg(data)


def test_typed_relations_and_back() -> None:
    data = to_pyg(typed_graph())
    assert data.edge_index.shape == (2, 3)
    assert data.edge_type_names == ["knows", "likes"]
    assert triples_of(from_pyg(data, typed=True)) == triples_of(typed_graph())
    del data.edge_type_names
    assert from_pyg(data, typed=True).type_names == ("0", "1")
    data.edge_type = data.edge_type[:2]
    with pytest.raises(GraphError, match="one integer per edge in edge_type, got shape"):
        from_pyg(data, typed=True)


def test_edge_types_of_a_hetero_graph_are_types_on_request() -> None:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.eye(2), torch.eye(2)
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1], [0, 1]])
    data["user", "views", "item"].edge_index = torch.tensor([[0], [0]])
    edges = [("user", "buys", "item"), ("user", "views", "item")]
    one = from_pyg(data, edge_types=edges, typed=True)
    assert one.type_names == ("user__buys__item", "user__views__item")
    assert one.num_relations == 3
    again = to_pyg(one, node_type="node_type")
    assert set(again.edge_types) == set(edges)
    assert again["user", "buys", "item"].edge_index.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(GraphError, match="1 repeated relations"):
        from_pyg(data, edge_types=edges)


def test_owners_and_back() -> None:
    owned = graph(owner=["a", "a", None, "b"], protected=None)
    again = from_pyg(to_pyg(owned))
    assert again.owners.tolist() == owned.owners.tolist() == [0, 0, 1, 2]
