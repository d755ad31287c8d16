"""Graphs as Hugging Face datasets, and back."""

import sys

import datasets
import pytest

from reldp.errors import MissingDependency
from reldp.graph import EntityGraph
from reldp.integrations.datasets import to_datasets
from tests.integrations.small import graph


def test_datasets_and_back() -> None:
    entities, relations = graph().to_datasets()
    assert isinstance(entities, datasets.Dataset)
    assert relations[1] == {"source": 2, "target": 1}
    assert EntityGraph.from_arrow(entities, relations) == graph()


def test_no_datasets_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependency, match="pip install datasets"):
        to_datasets(graph())
