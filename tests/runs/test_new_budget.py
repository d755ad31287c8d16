"""A budget is made with its limit, and not for a copy of a graph that has one."""

import pytest

from reldp.errors import ConfigError
from reldp.graph import EntityGraph
from reldp.graph.graph_names import graph_names
from reldp.runs.budget import Budget
from reldp.runs.budgeted_graphs import note_graph
from reldp.runs.new_budget import new_budget
from tests.training.small import small_graph


def test_a_copy_of_a_graph_gets_no_second_budget(tmp_path):
    first, copy = tmp_path / "first", tmp_path / "copy"
    for place in (first, copy):
        small_graph().write(place)
    with new_budget(first, limit=2.0, delta=1e-6, adaptive=True) as budget:
        assert budget.limit is not None
        assert budget.is_adaptive
        note_graph(budget.id, graph_names(EntityGraph.read(first)))
    with pytest.raises(ConfigError, match=r"got none in its folder.* has one in .*first"):
        new_budget(copy)
    assert not (copy / "budget.jsonl").exists()
    # Another graph, and a folder without one, are free.
    (tmp_path / "empty").mkdir()
    small_graph(seed=5).write(tmp_path / "other")
    for place in (tmp_path / "empty", tmp_path / "other"):
        new_budget(place).close()
        assert Budget.open(place).limit is None
