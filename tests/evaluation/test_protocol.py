import json
import subprocess
import sys

import numpy as np
import pytest

from reldp.errors import InputError
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph


def ring(entities=60, dim=8, seed=0):
    """A ring whose neighbors have near embeddings, and those embeddings."""
    ids = list(range(entities))
    relations = [(i, (i + 1) % entities) for i in ids]
    angles = 2 * np.pi * np.arange(entities) / entities
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    noise = np.random.default_rng(seed).normal(size=(entities, dim)) * 0.02
    graph = EntityGraph.from_lists(ids, relations, text=[str(i) for i in ids])
    return graph, np.concatenate([vectors, noise], axis=1)


class Remembering:
    """An encoder that remembers which entities it was asked for."""

    def __init__(self, vectors):
        self.vectors = vectors
        self.asked = None

    def encode_graph(self, graph, indices=None, *, batch_size=64):
        self.asked = indices
        return self.vectors[indices].astype(np.float32)


def test_good_embeddings_beat_random_ones_under_both_protocols():
    graph, vectors = ring()
    chance = np.random.default_rng(1).normal(size=vectors.shape)
    for candidates in (16, "all"):
        good = evaluate(vectors, graph, candidates)
        bad = evaluate(chance, graph, candidates)
        assert good["mrr"] > 0.6 > 0.4 > bad["mrr"]
        gain = good.gain_over(bad, "mrr")
        assert gain.value == pytest.approx(good["mrr"] - bad["mrr"])
        assert gain.low > 0.1


def test_random_embeddings_score_as_guessing_does():
    """PREC@1 of guessing among 16 is 1/16; 3,200 queries: a deviation of 0.02 has p < 1e-5."""
    generator = np.random.default_rng(3)
    pairs = generator.permutation(3200).reshape(-1, 2)
    graph = EntityGraph.from_lists(
        list(range(3200)), [tuple(pair) for pair in pairs.tolist()], text=["x"] * 3200
    )
    result = evaluate(generator.normal(size=(3200, 16)), graph, 16, resamples=10)
    assert result["prec@1"] == pytest.approx(1 / 16, abs=0.02)
    assert result["hits@10"] == pytest.approx(10 / 16, abs=0.04)


def test_a_seed_decides_the_batches_and_the_last_incomplete_one_is_left_out():
    graph, vectors = ring(entities=50)
    one, same, other = (evaluate(vectors, graph, 16, seed=seed) for seed in (1, 1, 2))
    assert one.num_relations == 48
    assert one.metrics == same.metrics
    assert one.metrics != other.metrics


def test_only_the_entities_in_question_are_encoded_in_batches_and_all_for_the_full_ranking():
    graph, vectors = ring()
    encoder = Remembering(vectors)
    few = evaluate(encoder, graph, 8, max_relations=8)
    assert len(encoder.asked) <= 16
    assert few.metrics == evaluate(vectors, graph, 8, max_relations=8).metrics
    evaluate(encoder, graph, "all", max_relations=8)
    assert len(encoder.asked) == graph.num_entities


def test_filtering_removes_right_answers_from_the_rivals():
    """Entity 0 has two partners at the same place: unfiltered, each stands in the other's way."""
    graph = EntityGraph.from_lists([0, 1, 2, 3], [(0, 1), (0, 2)], text=["x"] * 4)
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert evaluate(vectors, graph, "all")["hits@1"] == pytest.approx((1 + 1 / 2) / 2)
    assert evaluate(vectors, graph, "all", filtered=False)["hits@1"] == pytest.approx(0.5)
    assert evaluate(vectors, graph, 2, filtered=True)["prec@1"] == 1.0
    assert evaluate(vectors, graph, 2)["prec@1"] == pytest.approx((1 / 2 + 1) / 2)


def test_a_capped_graph_is_evaluated_on_what_is_left_of_it():
    graph, vectors = ring()
    capped = graph.cap_degrees(1, seed=0)
    assert evaluate(vectors, capped, "all").num_relations == capped.num_relations


def test_the_json_says_what_it_is_and_that_it_is_sensitive():
    graph, vectors = ring()
    result = evaluate(vectors, graph, 16)
    values = json.loads(json.dumps(result.to_json()))
    assert values["mrr"] == result["mrr"]
    assert values["intervals"]["mrr"][0] <= values["mrr"] <= values["intervals"]["mrr"][1]
    assert values["privacy"].startswith("sensitive")
    assert values["candidates"] == 16
    assert "mrr" in str(result)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"candidates": 1}, "candidates"),
        ({"candidates": 61}, "candidates"),
        ({"candidates": "some"}, "candidates"),
        ({"candidates": 16, "max_relations": 0}, "max_relations"),
        ({"candidates": 16, "max_relations": 10}, "candidates"),
        ({"score": "euclid", "candidates": 16}, "score"),
        ({"confidence": 2.0, "candidates": 16}, "confidence"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(arguments, named):
    graph, vectors = ring()
    with pytest.raises(InputError, match=f"`{named}`"):
        evaluate(vectors, graph, **arguments)


def test_embeddings_of_another_graph_and_graphs_without_relations_are_refused():
    graph, vectors = ring()
    with pytest.raises(InputError, match="60 embeddings"):
        evaluate(vectors[:-1], graph, 16)
    empty = EntityGraph.from_lists([0, 1], [], text=["x", "y"])
    with pytest.raises(InputError, match="relations"):
        evaluate(np.ones((2, 2)), empty, "all")


def test_results_of_different_settings_are_not_compared():
    graph, vectors = ring()
    with pytest.raises(InputError, match="same settings"):
        evaluate(vectors, graph, 16).gain_over(evaluate(vectors, graph, 16, seed=1), "mrr")


def test_evaluation_needs_no_torch():
    code = "import sys, reldp.evaluation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
