"""Graphs from and to sparse matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from reldp.errors import GraphError
from reldp.graph import EntityGraph
from reldp.integrations.scipy import from_scipy, to_scipy
from tests.integrations.small import graph, pairs_of, typed_graph


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


def test_it_is_a_method_of_graphs() -> None:
    again = EntityGraph.from_scipy(graph().to_scipy(), text=graph().text())
    assert pairs_of(again) == pairs_of(graph())


def test_something_else_is_refused() -> None:
    with pytest.raises(GraphError, match="`adjacency` must be a SciPy sparse matrix"):
        from_scipy(np.eye(2), text=["x", "y"])
    with pytest.raises(GraphError, match="`ids` must have one value per node, got 1 for 2"):
        from_scipy(sp.csr_array((2, 2)), text=["x", "y"], ids=["a"])


def test_several_types_between_two_entities_are_one_entry() -> None:
    matrix = to_scipy(typed_graph()).toarray()
    assert matrix.sum() == 2
    assert matrix.max() == 1
