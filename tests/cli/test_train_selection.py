"""``reldp train --eval-graph``: the weights that a public graph chooses, on the screen, in the ledger and released."""

import json

import numpy as np
import pytest
import torch

from reldp.cli.main import main
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph
from reldp.runs.ledger import read_ledger
from reldp.training.selection import MAX_RELATIONS, Selection
from reldp.training.trained import load_trained
from tests.cli.train_flags import FLAGS
from tests.training.small import small_graph

torch.set_num_threads(1)


@pytest.fixture
def command(tmp_path):
    """A command that trains for 4 steps and evaluates on a public graph with ids of its own."""
    small_graph().write(tmp_path / "graph")
    other = small_graph(seed=5)
    ids = [f"public {i}" for i in range(other.num_entities)]
    pairs = [(ids[a], ids[b]) for a, b in other.relations.tolist()]
    public = EntityGraph.from_lists(ids, pairs, features=np.asarray(other.features))
    public.write(tmp_path / "public")
    words = ["train", str(tmp_path / "graph"), *FLAGS, "--eval-graph", str(tmp_path / "public")]
    return [*words, "--learning-rate", "0.5", "-o", str(tmp_path / "run")]


@pytest.mark.parametrize(
    ("every", "scores", "step"),
    [("1", [0.2, 0.9, 0.9, 0.1], 2), ("2", [0.2, 0.9], 4), ("2", [0.9, 0.2], 2)],
)
def test_the_best_step_by_the_public_graph_is_named_and_recorded(
    tmp_path, command, capsys, monkeypatch, every, scores, step
):
    given = list(scores)
    # Two relations show that the graph can be evaluated; all of them give the score.
    choose = lambda *words: 0.0 if len(words) > 3 else given.pop(0)  # noqa: E731
    monkeypatch.setattr(Selection, "_score", choose)
    run = tmp_path / "run"
    assert main([*command, "--eval-every", every]) == 0
    line = f"weights      after step {step}, chosen on the public graph"
    assert line in capsys.readouterr().out.splitlines()
    assert given == []
    record = read_ledger(run / "ledger.jsonl")
    assert record.start["selection"]["every"] == int(every)
    assert record.completion["chosen"] == {"step": step, "score": max(scores)}
    certificate = json.loads((run / "certificate.json").read_text())
    assert certificate["steps"]["chosen_step"] == step
    assert certificate["steps"]["counted"] == 4, "it covers all steps"
    assert main(["verify", str(run)]) == 0


def test_the_released_weights_are_those_that_were_chosen(tmp_path, command, capsys):
    run = tmp_path / "run"
    assert main([*command, "--eval-every", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    chosen = read_ledger(run / "ledger.jsonl").completion["chosen"]
    assert printed["steps"]["chosen_step"] == chosen["step"]
    public = EntityGraph.read(tmp_path / "public")
    result = evaluate(load_trained(run), public, 256, max_relations=MAX_RELATIONS)
    assert result["mrr"] == pytest.approx(chosen["score"], abs=1e-9)
    assert main(["verify", str(run)]) == 0
