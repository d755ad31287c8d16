"""A folder that is written from a graph with a budget names that budget: no copy forgets what was spent."""

import numpy as np
import pytest

from reldp.cli.main import main
from reldp.errors import ConfigError
from reldp.graph import EntityGraph
from reldp.runs.budget import Budget
from reldp.runs.budget_place import find_budget
from tests.training.small import small_graph


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return EntityGraph.read(tmp_path / "graph")


def test_copies_and_parts_belong_to_the_budget(graph, tmp_path, capsys):
    graph.write(tmp_path / "before")
    assert find_budget(tmp_path / "before") is None
    Budget.create(graph.folder).close()
    graph.write(tmp_path / "copy")
    half = np.arange(graph.num_entities) % 2 == 0
    graph.select_entities(half).write(tmp_path / "part")
    graph.cap_degrees(2, seed=0).write(tmp_path / "capped")
    assert main(["prepare", "store", str(graph.folder), "-o", str(tmp_path / "store")]) == 0
    capsys.readouterr()
    stored = EntityGraph.read(tmp_path / "store")
    for folder in (
        *(tmp_path / name for name in ("copy", "part", "capped", "store")),
        stored.select_entities(half).folder,
        stored.cap_degrees(2, seed=0).to_graph().folder,
    ):
        assert find_budget(folder) == graph.folder


def test_a_folder_with_another_budget_is_refused(graph, tmp_path):
    Budget.create(graph.folder).close()
    Budget.create(tmp_path / "other").close()
    with pytest.raises(ConfigError, match="would be forgotten"):
        graph.write(tmp_path / "other")
