"""Graphs from and to two pandas data frames."""

import sys

import pandas as pd
import pytest

from reldp.errors import GraphError, MissingDependency
from reldp.graph import EntityGraph
from reldp.integrations.pandas import from_pandas, to_pandas
from tests.integrations.small import graph


def test_pandas_and_back() -> None:
    entities, relations = to_pandas(graph())
    assert list(entities.columns) == ["id", "text", "features", "protected"]
    assert relations.to_numpy().tolist() == [[0, 1], [2, 1], [0, 3]]
    assert from_pandas(entities, relations) == graph()
    assert from_pandas(entities.set_index("id"), relations) == graph()


def test_a_frame_with_holes_or_mixed_types_is_refused() -> None:
    endpoints = pd.DataFrame({"source": [1], "target": [2]})
    with pytest.raises(GraphError, match="A program turned integers into floats"):
        from_pandas(pd.DataFrame({"id": [1, None], "text": ["x", "y"]}), endpoints)
    with pytest.raises(GraphError, match="entities must hold one type of value in column"):
        from_pandas(pd.DataFrame({"id": [1, "b"], "text": ["x", "y"]}), endpoints)
    dropped = from_pandas(
        pd.DataFrame({"id": [1, 2], "text": ["x", "y"]}),
        pd.DataFrame({"source": [1, 1], "target": [2, 9]}),
        drop={"unknown_ids"},
    )
    assert dropped.record.drops == {"unknown_ids": 1}


def test_it_is_a_method_of_graphs() -> None:
    assert EntityGraph.from_pandas(*graph().to_pandas()) == graph()


def test_other_tables_are_refused_by_name() -> None:
    entities, relations = to_pandas(graph())
    with pytest.raises(GraphError, match="`relations` must be a pandas DataFrame, got list"):
        from_pandas(entities, relations.to_numpy().tolist())
    with pytest.raises(GraphError, match="`entities` must be a pandas DataFrame, got dict"):
        from_pandas({"id": [1]}, relations)


def test_no_pandas_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency, match="pip install pandas"):
        to_pandas(graph())


def test_an_index_counts_as_a_column_only_where_one_is_needed() -> None:
    entities, relations = to_pandas(graph())
    relations.index.name = "id"
    assert from_pandas(entities.set_index("id"), relations) == graph()
