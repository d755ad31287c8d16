"""``reldp evaluate`` on runs, saved models and bare encoders."""

import json

import pytest
import torch

from reldp.cli import progress
from reldp.cli.main import main
from reldp.encoders import TextEncoder
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.training import Trainer
from reldp.training.trained import load_trained, load_trained_loss
from tests.encoders.tiny import TEXTS, write_model
from tests.reporting.killed import killed_writing
from tests.training.small import TYPES, small_graph, small_parts, small_types

torch.set_num_threads(1)


@pytest.fixture
def graph(tmp_path):
    small_graph(seed=3).write(tmp_path / "graph")
    return str(tmp_path / "graph")


def test_a_run_is_evaluated_and_remembers_it(tmp_path, graph, capsys):
    result = Trainer(*small_parts()).fit(tmp_path / "run")
    command = ["evaluate", str(tmp_path / "run"), "--graph", graph, "--candidates", "64"]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    expected = evaluate(result.encoder, small_graph(seed=3), 64)
    assert printed["mrr"] == pytest.approx(expected["mrr"])
    assert "sensitive" in printed["privacy"]
    assert main(command) == 0
    assert "prec@1" in capsys.readouterr().out
    for flag in ("--num-relations", "--max-relations"):  # the second is the name in 0.3
        assert main([*command[:4], "--candidates", "8", flag, "20"]) == 0
        assert capsys.readouterr().out.count("16 relations") == 1
    stored = (tmp_path / "run" / "evaluations.jsonl").read_text().splitlines()
    assert [json.loads(line)["mrr"] for line in stored][:2] == [printed["mrr"]] * 2
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_relations_outside_of_whole_groups_are_said_to_be_dropped(tmp_path, graph, capsys):
    small_parts()[0].save(tmp_path / "model")
    command = ["evaluate", str(tmp_path / "model"), "--graph", graph]  # 600 relations
    groups = (
        "reldp: 512 relations were used, and not 600: relations are ranked in groups of --candidates, and a smaller "
        "last group is dropped."
    )
    for flag in ("--num-relations", "--max-relations"):  # the second is the name in 0.3
        assert main([*command, flag, "600"]) == 0
        said = capsys.readouterr()
        assert groups in said.err.splitlines()
        assert "512 relations, each predicted" in said.out
    assert main([*command, "--num-relations", "512"]) == 0
    assert "were used" not in capsys.readouterr().err
    assert main([*command, "--num-relations", "600", "--candidates", "all"]) == 0
    said = capsys.readouterr()
    assert "were used" not in said.err
    assert "600 relations, each predicted" in " ".join(said.out.split())
    assert main([*command, "--num-relations", "700", "--candidates", "all"]) == 0
    line = "reldp: 600 relations were used, and not 700: the graph has no more."
    assert line in capsys.readouterr().err.splitlines()


def test_a_log_shows_how_far_an_evaluation_is(tmp_path, capsys, monkeypatch):
    ring = [(i, (i + 1) % 8) for i in range(8)]
    EntityGraph.from_lists(list(range(8)), ring, text=TEXTS).write(tmp_path / "graph")
    model = str(write_model("bert", tmp_path / "model"))
    command = ["evaluate", model, "--graph", str(tmp_path / "graph"), "--candidates", "all"]
    command += ["--batch-size", "2"]
    capsys.readouterr()
    assert main(command) == 0
    assert "(sensitive)" not in capsys.readouterr().err, "it is short"
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    assert main(command) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "embedding" in line] == [
        f"reldp: (sensitive) embedding {share} %" for share in (25, 50, 75, 100)
    ]


def test_all_candidates_and_a_bare_text_encoder(tmp_path, capsys):
    from reldp.graph import EntityGraph

    ring = [(i, (i + 1) % 8) for i in range(8)]
    EntityGraph.from_lists(list(range(8)), ring, text=TEXTS).write(tmp_path / "graph")
    model = str(write_model("bert", tmp_path / "model"))
    command = ["evaluate", model, "--graph", str(tmp_path / "graph"), "--candidates", "all"]
    assert main([*command, "--pooling", "cls", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["filtered"]
    assert {"hits@1", "hits@10", "mrr", "ndcg"} <= set(printed)


def test_relations_with_types_are_ranked_by_the_trained_scores_and_by_type(tmp_path, capsys):
    Trainer(*small_parts(types=small_types()), loss="complex").fit(tmp_path / "run")
    test = small_graph(seed=3, types=small_types())
    test.write(tmp_path / "graph")
    command = ["evaluate", str(tmp_path / "run"), "--graph", str(tmp_path / "graph")]
    assert main([*command, "--candidates", "64", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    encoder, loss = load_trained(tmp_path / "run"), load_trained_loss(tmp_path / "run")
    expected = evaluate(encoder, test, 64, loss=loss)
    assert printed["score"] == "complex"
    assert printed["mrr"] == pytest.approx(expected["mrr"])
    assert set(printed["by_type"]) == set(TYPES)
    assert printed["macro"]["mrr"] == pytest.approx(expected.macro["mrr"])
    assert main([*command, "--candidates", "all"]) == 0
    table = capsys.readouterr().out
    for words in (*TYPES, "micro", "macro", "hits@10", "ranked by complex"):
        assert words in table
    assert main([*command, "--candidates", "64", "--score", "cosine", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["mrr"] == pytest.approx(evaluate(encoder, test, 64)["mrr"])
    assert main(["report", str(tmp_path / "run")]) == 0


def test_an_unknown_type_in_the_test_graph_is_one_clear_line(tmp_path, capsys, graph):
    Trainer(*small_parts(types=small_types()), loss="distmult").fit(tmp_path / "run")
    types = ["unheard", *small_types()[1:]]
    small_graph(types=types).write(tmp_path / "other")
    assert main(["evaluate", str(tmp_path / "run"), "--graph", str(tmp_path / "other")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "types that the loss was trained with, got 1 unknown type" in said[0]
    # Without types there is nothing but the similarity of embeddings.
    command = ["evaluate", str(tmp_path / "run"), "--graph", graph, "--candidates", "64", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["score"] == "cosine"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["MODEL", "--graph", "nowhere"], "nowhere"),
        (["nowhere/at/all", "--graph", "GRAPH"], "SOURCE must be a model's folder"),
        (["MODEL", "--graph", "GRAPH", "--candidates", "some"], "--candidates must be"),
        (["MODEL", "--graph", "GRAPH", "--num-relations", "0"], "--num-relations must be"),
        (["MODEL", "--graph", "GRAPH", "--pooling", "cls"], "--pooling must be left out"),
        (["MODEL", "--graph", "GRAPH", "--candidates", "9999"], "--candidates must be at most"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, graph, capsys, arguments, words):
    small_parts()[0].save(tmp_path / "model")
    places = {"MODEL": str(tmp_path / "model"), "GRAPH": graph}
    assert main(["evaluate", *(places.get(word, word) for word in arguments)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert words in said[0]


def test_a_run_that_is_not_complete_has_no_model(tmp_path, graph, capsys, monkeypatch):
    import reldp.training.trainer as trainer_module

    def stop(self, step):
        raise MemoryError

    monkeypatch.setattr(trainer_module.TrainingLoop, "_take", stop)
    with pytest.raises(MemoryError):
        Trainer(*small_parts()).fit(tmp_path / "run")
    assert main(["evaluate", str(tmp_path / "run"), "--graph", graph]) == 2
    assert "must be complete" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_model_before_training_is_measured_beside_the_run(tmp_path, capsys):
    ring = [(i, (i + 1) % 8) for i in range(8)]
    graph = EntityGraph.from_lists(list(range(8)), ring, text=TEXTS)
    graph.write(tmp_path / "graph")
    model, run = write_model("bert", tmp_path / "model"), tmp_path / "run"
    capped = graph.promise_degrees(2)
    sizes = {"num_entities": 8, "num_relations": 8, "max_degree": 2, "num_negatives": 1}
    plan = PrivacyPlan(**sizes, sample_rate=0.02, num_steps=2, noise_multiplier=1.0, delta=0.1)
    Trainer(TextEncoder.load(model, lora_rank=2, max_length=16), capped, plan).fit(run)
    command = ["evaluate", str(run), "--graph", str(tmp_path / "graph"), "--candidates", "all"]
    assert main([*command, "--before", "--base-model", str(model), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    base = evaluate(TextEncoder.load(model, train="none", max_length=16), graph, "all")
    assert printed["before"]["mrr"] == pytest.approx(base["mrr"])
    assert printed["gain"]["mrr"][0] == pytest.approx(printed["mrr"] - base["mrr"])
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "before training" in page
    assert f"{100 * base['mrr']:.1f} [" in page
    assert main([*command, "--before", "--base-model", str(model)]) == 0
    assert "after training" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_another_model_of_the_same_name_is_not_what_the_run_started_from(
    tmp_path, monkeypatch, capsys
):
    """The ledger has the name of the folder alone, and every run folder holds a `model`."""
    ring = [(i, (i + 1) % 8) for i in range(8)]
    graph = EntityGraph.from_lists(list(range(8)), ring, text=TEXTS)
    graph.write(tmp_path / "graph")
    model, run = write_model("bert", tmp_path / "base" / "model"), tmp_path / "run"
    sizes = {"num_entities": 8, "num_relations": 8, "max_degree": 2, "num_negatives": 1}
    plan = PrivacyPlan(**sizes, sample_rate=0.02, num_steps=2, noise_multiplier=1.0, delta=0.1)
    encoder = TextEncoder.load(model, train="full", max_length=16)
    Trainer(encoder, graph.promise_degrees(2), plan, learning_rate=0.1).fit(run)
    command = ["evaluate", str(run), "--graph", str(tmp_path / "graph"), "--candidates", "all"]
    monkeypatch.chdir(run)
    assert main([*command, "--before"]) == 2
    words = "--base-model must be the model that the run started from, got 'model' with another set of weights"
    assert words in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--before"]) == 2
    assert "--base-model must be a folder or a model on the hub" in capsys.readouterr().err
    assert (
        main(
            [
                "audit",
                str(run),
                "--canaries",
                "4",
                "--graph",
                str(tmp_path / "graph"),
                "--model",
                "run/model",
            ]
        )
        == 2
    )
    assert "--model must be the model that the run started from" in capsys.readouterr().err
    assert not (run / "evaluations.jsonl").exists()
    monkeypatch.chdir(tmp_path / "base")
    assert main([*command, "--before"]) == 0


def test_before_needs_a_run_that_started_from_a_text_model(tmp_path, graph, capsys):
    Trainer(*small_parts()).fit(tmp_path / "run")
    command = ["evaluate", str(tmp_path / "run"), "--graph", graph, "--before"]
    assert main(command) == 2
    assert "started from a text model" in capsys.readouterr().err
    assert not (tmp_path / "run" / "evaluations.jsonl").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--batch-size=-1"], "--batch-size must be an integer of at least 1, got -1"),
        (["--batch-size=0"], "--batch-size must be an integer of at least 1, got 0"),
        (["--seed=-1"], "--seed must be"),
        (["--device", "meta"], "--device must exist here, got meta"),
        (["--base-model", "x"], "--base-model must be given with --before only"),
        (["--num-relations=0"], "It is the number of relations of GRAPH to evaluate"),
    ],
)
def test_numbers_that_no_evaluation_has_are_one_line_and_recorded_nowhere(
    tmp_path, graph, capsys, flags, words
):
    Trainer(*small_parts(num_steps=2)).fit(tmp_path / "run")
    command = ["evaluate", str(tmp_path / "run"), "--graph", graph, "--candidates", "64"]
    assert main([*command, *flags]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run" / "evaluations.jsonl").exists()


def test_a_killed_evaluation_is_in_nobodys_way(tmp_path, graph, capsys):
    run = tmp_path / "run"
    Trainer(*small_parts()).fit(run)
    command = ["evaluate", str(run), "--graph", graph, "--candidates", "64"]
    assert main(["report", str(run)]) == 0
    for following in (["report", str(run)], command):
        partial = killed_writing(run / "report.html", *command)
        assert main(["verify", str(run)]) == 3
        assert "or run reldp report again." in capsys.readouterr().err
        assert main(following) == 0
        assert not partial.exists()
        assert main(["verify", str(run)]) == 0
