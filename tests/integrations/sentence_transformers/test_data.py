"""Datasets of pairs become graphs: what an entity is is said, and nothing beyond pairs gets in."""

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

from reldp.errors import ConfigError, GraphError
from reldp.graph import EntityGraph
from reldp.graph.pairs import AmbiguousEntityWarning
from reldp.integrations.sentence_transformers.data import (
    evaluation_graph,
    graph_folder,
    training_graph,
)
from tests.integrations.sentence_transformers.small import pairs

ROWS = {
    "query": ["a tent", "a mat", "a tent", "a tent", "a mat"],
    "answer": ["a mat", "a lamp", "a stove", "a mat", "a mat"],
}


FEATURES = EntityGraph.from_lists([1, 2], [(1, 2)], features=np.ones((2, 3), np.float32))


def graph_of(dataset=None, graph=None, max_degree=None, seed=0, **settings):
    return training_graph(
        dataset=dataset, graph=graph, max_degree=max_degree, seed=seed, **settings
    )


def test_equal_texts_are_one_entity_on_either_side():
    capped = graph_of(Dataset.from_dict(ROWS))
    assert capped.num_entities == 4
    assert (
        capped.num_relations == 3
    )  # a repeated pair counts once, a text paired with itself not at all
    assert sorted(capped.graph.text(np.arange(4))) == ["a lamp", "a mat", "a stove", "a tent"]
    assert "Equal texts are one entity" in " ".join(capped.graph.record.notes)


def test_equal_ids_are_one_entity():
    rows = {
        "query": ["a tent", "tent, red", "a mat"],
        "answer": ["a mat", "a lamp", "a lamp"],
        "query_id": [1, 2, 3],
        "answer_id": [3, 4, 4],
    }
    capped = graph_of(Dataset.from_dict(rows), id_columns=("query_id", "answer_id"))
    assert capped.num_entities == 4
    assert capped.num_relations == 3


@pytest.mark.parametrize("make", [Dataset.from_dict, pd.DataFrame, dict])
def test_any_table_will_do(make):
    assert graph_of(make(ROWS)).num_relations == 3


def test_degrees_are_bounded_by_the_seed():
    star = Dataset.from_dict({"anchor": ["hub"] * 30, "positive": [f"leaf {i}" for i in range(30)]})
    assert graph_of(star).num_relations == 5
    kept = [graph_of(star, max_degree=3, seed=seed) for seed in (0, 0, 2)]
    assert [capped.num_relations for capped in kept] == [3, 3, 3]
    assert kept[0].fingerprint == kept[1].fingerprint != kept[2].fingerprint


def test_a_prompt_is_put_before_every_text():
    capped = graph_of(Dataset.from_dict(ROWS), prompt="query: ")
    assert capped.num_entities == 4
    assert all(text.startswith("query: a ") for text in capped.graph.text(np.arange(4)))


def test_graphs_pass_through(tmp_path):
    graph = EntityGraph.from_lists(range(9), [(i, i + 1) for i in range(8)], text=["x"] * 9)
    assert graph_of(graph=graph, max_degree=2).max_degree == 2
    capped = graph.promise_degrees(2)
    assert graph_of(graph=capped) is capped
    graph.write(tmp_path / "graph")
    assert graph_of(graph=tmp_path / "graph").num_relations == 8
    assert graph_of(graph=str(tmp_path / "graph")).max_degree == 5
    assert graph_folder(str(tmp_path / "graph")) == tmp_path / "graph"
    assert graph_folder(graph) is None


def test_texts_that_differ_in_case_alone_are_warned_about():
    with pytest.warns(AmbiguousEntityWarning):
        graph_of({"anchor": ["A cat", "a cat"], "positive": ["a dog", "a tree"]})


@pytest.mark.parametrize("column", ["negative", "negative_1", "neg", "hard_negative", "Negatives"])
def test_a_column_of_negatives_is_refused(column):
    """Proven for tuples whose negatives are drawn at random: a mined one would add to a degree."""
    with pytest.raises(ConfigError, match=r"got the column .* too. A mined negative ties a third"):
        graph_of(pairs(**{column: ["x"] * 399}))


def test_a_column_that_only_begins_like_one_is_a_column_too_many():
    with pytest.raises(ConfigError, match="must hold two columns of texts"):
        graph_of(pairs(negotiation=["x"] * 399))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "must be given, and not both, got neither"),
        ({"dataset": ROWS, "graph": "x"}, "must be given, and not both, got both"),
        ({"dataset": {**ROWS, "label": [1] * 5}}, "Relations have no label"),
        ({"dataset": {**ROWS, "more": ["x"] * 5}}, "besides id_columns, got 3. Select them"),
        ({"dataset": {"anchor": ["x"]}}, "besides id_columns, got 1. Select them"),
        ({"graph": FEATURES}, "`graph` must have texts for a SentenceTransformer, got features"),
        ({"graph": FEATURES.promise_degrees(2)}, "`graph` must have texts"),
        (
            {"dataset": ROWS, "id_columns": ("a", "b")},
            "must name columns of train_dataset, got 'a'",
        ),
        ({"dataset": ROWS, "id_columns": "query"}, "must name two columns"),
        ({"graph": 3}, "`graph` must be an EntityGraph, a CappedGraph or a path, got int"),
        ({"graph": "x", "prompt": "q"}, "`prompts` must be left out beside a graph"),
        ({"graph": "x", "id_columns": ("a", "b")}, "`id_columns` must be left out beside a graph"),
    ],
)
def test_what_is_no_dataset_of_pairs_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        graph_of(**given)


@pytest.mark.parametrize("extra", [{}, {"x": [1, 2]}], ids=["two columns", "three columns"])
@pytest.mark.parametrize("prompt", [None, "q: "])
def test_errors_quote_no_name_of_a_column_which_may_be_a_text(extra, prompt):
    """A file without its header has a private text where the names should be."""
    with pytest.raises((ConfigError, GraphError)) as refused:
        graph_of({"bob@example.com": [1, 2], "ann@example.com": ["a", "b"], **extra}, prompt=prompt)
    assert "example.com" not in str(refused.value)


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("prompt", [None, "q: "])
def test_a_missing_text_is_named_by_its_column_and_not_by_what_a_trainer_lacks(empty, prompt):
    rows = {"anchor": ["a", "b", "c"], "positive": ["x", empty, empty]}
    with pytest.raises(
        ConfigError, match=r"got 2 missing in the column 'positive' \(.* row 2"
    ) as e:
        graph_of(rows, prompt=prompt)
    assert "drop" not in str(e.value)
    assert "dataset.filter" in str(e.value)
    rows = {"bob@example.com": ["a", empty], "ann@example.com": ["x", "y"]}
    with pytest.raises(ConfigError, match=r"missing in the first column of texts \(.* row 2"):
        graph_of(rows, prompt=prompt)
    ids = {"left": [1, None, 3], "right": [4, 5, 6]}
    with pytest.raises(ConfigError, match=r"got 1 missing in the column 'left' \(.* row 2"):
        graph_of(
            {"anchor": ["a", "b", "c"], "positive": ["x", "y", "z"], **ids},
            id_columns=("left", "right"),
        )


def test_a_dictionary_of_splits_is_refused():
    with pytest.raises(GraphError, match="Choose a split"):
        graph_of(DatasetDict({"train": Dataset.from_dict(ROWS)}))


def test_another_degree_than_that_of_a_capped_graph_is_refused():
    capped = graph_of(ROWS)
    assert graph_of(graph=capped, max_degree=5) is capped
    with pytest.raises(
        ConfigError, match="`max_degree` must be left out for a capped graph, got 3"
    ):
        graph_of(graph=capped, max_degree=3)


def test_pairs_to_evaluate_on_are_a_graph_too():
    assert evaluation_graph(None) is None
    graph = evaluation_graph(ROWS)
    assert evaluation_graph(graph) is graph
    assert graph.num_relations == 3
    with pytest.raises(ConfigError, match="`eval_dataset` must hold pairs"):
        evaluation_graph({**ROWS, "negative": ["x"] * 5})
