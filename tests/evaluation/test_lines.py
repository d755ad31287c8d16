"""Lines of evaluations.jsonl: one after training, or two with the gain between them."""

import numpy as np
import pytest

from reldp.evaluation import evaluate
from reldp.evaluation.lines import AFTER, BEFORE, evaluation_lines
from reldp.graph import EntityGraph

NUM = 40


@pytest.fixture(scope="module")
def results():
    ring = [(i, (i + 1) % NUM) for i in range(NUM)]
    graph = EntityGraph.from_lists(list(range(NUM)), ring, text=["x"] * NUM)
    angle = np.arange(NUM) * 2 * np.pi / NUM
    good = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    bad = np.random.default_rng(0).normal(size=(NUM, 2))
    return tuple(evaluate(vectors, graph, 20) for vectors in (bad, good))


def test_both_encoders_have_a_line_and_the_gain_is_in_the_second(results):
    before, after = results
    first, second = evaluation_lines({"graph": "ring"}, before, after)
    assert (first["encoder"], second["encoder"]) == (BEFORE, AFTER)
    assert first["graph"] == second["graph"] == "ring"
    assert "gain" not in first
    gain, low, high = second["gain"]["mrr"]
    assert gain == pytest.approx(second["mrr"] - first["mrr"])
    assert low < gain < high
    assert all(line["privacy"].startswith("sensitive") for line in (first, second))


def test_without_an_evaluation_before_training_there_is_one_line_without_a_gain(results):
    (line,) = evaluation_lines({"graph": "ring"}, None, results[1])
    assert line["mrr"] == results[1]["mrr"]
    assert "encoder" not in line
    assert "gain" not in line
