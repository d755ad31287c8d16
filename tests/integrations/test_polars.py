"""Graphs as data frames of Polars, and back."""

import sys

import polars as pl
import pytest

from reldp.errors import MissingDependency
from reldp.graph import EntityGraph
from reldp.integrations.polars import to_polars
from tests.integrations.small import graph


def test_polars_and_back() -> None:
    entities, relations = graph().to_polars()
    assert isinstance(entities, pl.DataFrame)
    assert relations.rows() == [(0, 1), (2, 1), (0, 3)]
    assert EntityGraph.from_arrow(entities, relations) == graph()


def test_no_polars_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependency, match="pip install polars"):
        to_polars(graph())


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["x", "y", "z"])])
def test_categories_of_polars_are_texts(kind):
    data = {"a": ["x", "y", None], "b": ["y", "z", "w"], "ai": [1, 2, 3], "bi": [2, 3, 4]}
    table = pl.DataFrame(data).with_columns(pl.col("a").cast(kind))
    names = {"left": "a", "right": "b", "left_id": "ai", "right_id": "bi"}
    graph = EntityGraph.from_pairs(table[:2], **names)
    assert sorted(graph.text()) == ["x", "y", "z"]
