"""``reldp train``: flags and recipes, resuming, and bad input as a new user would give it."""

import json
import re
import signal
import time

import numpy as np
import pytest
import torch

from reldp.cli import progress
from reldp.cli.main import main
from reldp.graph import EntityGraph
from reldp.runs.run_folder import RunFolder
from reldp.training.loop import TrainingLoop
from reldp.training.recipe import Recipe
from tests.cli.train_flags import EXACT, FLAGS, PRIVACY, SIZES, errors, lines
from tests.encoders.tiny import TEXTS, write_model
from tests.training.small import TYPES, small_graph, small_types

torch.set_num_threads(1)


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return str(tmp_path / "graph")


def test_flags_are_enough(tmp_path, graph, capsys):
    run = str(tmp_path / "run")
    assert main(["train", graph, "-o", run, *FLAGS, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["status"] == "proven"
    assert printed["steps"]["counted"] == 4
    assert 0 < printed["epsilon"] < 10
    assert main(["verify", run]) == 0


@pytest.mark.parametrize("by_recipe", [True, False])
def test_a_typed_loss_is_a_name_away(tmp_path, capsys, by_recipe):
    small_graph(types=small_types()).write(tmp_path / "graph")
    given = ["--loss", "distmult", "--set", "learning.objective=logistic"]
    if by_recipe:
        recipe = tmp_path / "recipe.toml"
        recipe.write_text('[learning]\nloss = "distmult"\nobjective = "logistic"\n')
        given = ["--config", str(recipe)]
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "graph"), "-o", str(run), *FLAGS, *given]) == 0
    values = json.loads((run / "certificate.json").read_text())
    assert values["training"]["loss"] == "distmult"
    assert values["training"]["objective"] == "logistic"
    assert values["plan"]["num_relation_types"] == 3
    assert "DistMultLoss" in (run / "certificate.md").read_text()
    start = json.loads((run / "ledger.jsonl").read_text().splitlines()[0])
    assert "distmult" in json.dumps(start)
    assert json.loads((run / "model" / "loss.json").read_text())["type_names"] == list(TYPES)
    assert main(["verify", str(run)]) == 0


def test_the_printed_recipe_is_a_recipe_and_flags_go_before_it(tmp_path, graph, capsys):
    assert main(["train", "--print-config"]) == 0
    text = capsys.readouterr().out
    assert "# Epsilon that the noise is calibrated to" in text
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        text.replace("max_degree = 5", "max_degree = 4").replace(
            '# graph = "path/to/graph"', f"graph = {json.dumps(graph)}"
        )
    )
    run = str(tmp_path / "run")
    flags = [*FLAGS[2:], "--set", "learning.schedule=cosine", "--set", "encoder.hidden=[5]"]
    assert main(["train", "--config", str(recipe), "-o", run, *flags]) == 0
    said = capsys.readouterr()
    assert "Proven" in said.out
    assert "reldp verify" in said.out
    values = json.loads((tmp_path / "run" / "certificate.json").read_text())
    assert values["training"]["schedule"] == "cosine"
    assert values["encoder"]["hidden"] == [5]
    assert values["plan"]["num_steps"] == 4


def test_a_target_epsilon_is_calibrated_and_kept(tmp_path, graph, capsys):
    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS[:-4]]
    assert main([*command, "--delta", "1e-4", "--target-epsilon", "2", "--json"]) == 0
    assert 1.9 < json.loads(capsys.readouterr().out)["epsilon"] <= 2


def test_the_same_command_again_resumes_or_shows_what_is_done(tmp_path, graph, capsys):
    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS, "--json"]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert main(command) == 0
    assert (again := capsys.readouterr()).out == first
    assert "was complete: nothing was left to do." in again.err
    assert main([*command, "--learning-rate", "0.5"]) == 2
    assert "nothing was left" not in capsys.readouterr().err


def test_no_privacy_says_so(tmp_path, graph, capsys):
    sizes = ["--max-degree", "4", *SIZES]
    run = str(tmp_path / "run")
    assert main(["train", graph, "-o", run, *sizes, "--no-privacy", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["epsilon"] == "Infinity"
    assert "No privacy" in printed["summary"]


def test_poor_plans_are_warned_about_in_one_line_each(tmp_path, graph, capsys):
    flags = [*FLAGS[:-4], "--noise-multiplier", "0.5", "--delta", "0.01"]
    assert main(["train", graph, "-o", str(tmp_path / "run"), *flags]) == 0
    said = errors(capsys.readouterr().err)
    assert all(line.startswith("reldp: warning: ") for line in said)
    assert any("delta should be below 1/n" in line for line in said)
    assert any("epsilon should be at most 10" in line for line in said)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_text_models_train_end_to_end_and_load_elsewhere(tmp_path, kind):
    from sentence_transformers import SentenceTransformer

    from reldp.training.trained import load_trained

    texts = [f"{TEXTS[i % 6]} {TEXTS[(i * 7) % 6]}" for i in range(120)]
    ring = [(i, (i + 1) % 120) for i in range(120)]
    EntityGraph.from_lists(list(range(120)), ring, text=texts).write(tmp_path / "graph")
    model = str(write_model(kind, tmp_path / "model"))
    run = tmp_path / "run"
    command = ["train", str(tmp_path / "graph"), "--model", model, "-o", str(run)]
    flags = ["--max-degree", "2", "--promise-degrees", "--num-negatives", "2", "--num-steps", "3"]
    flags += ["--expected-batch-size", "6", "--noise-multiplier", "1.5", "--delta", "1e-3", *EXACT]
    assert main([*command, *flags, "--lora-rank", "2", "--max-length", "16"]) == 0
    assert main(["verify", str(run)]) == 0
    ours = load_trained(run).encode(texts[:8])
    theirs = SentenceTransformer(str(run / "model"), device="cpu").encode(texts[:8])
    assert np.abs(ours - theirs).max() < 1e-5
    before = load_trained(model, max_length=16).encode(texts[:8])
    assert np.abs(ours - before).max() > 1e-6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere"),
        (["GRAPH", "--model", "no/such/model"], "--model must be left out for a graph with"),
        (["GRAPH", "--device", "cuda:99"], "--device must exist here"),
        (["GRAPH", "--device", "gpu"], "--device must be cpu, cuda or cuda:N"),
        (["GRAPH", "--target-epsilon", "0"], "and not both"),
        (["GRAPH", "--loss", "infonse"], "Did you mean infonce?"),
        (["GRAPH", "--loss", "transe"], "--loss must be untyped for relations without a type"),
        (["GRAPH", "--set", "learning.objective=hinge"], "must be left out for the loss infonce"),
        (["GRAPH", "--set", "learning.lerning_rate=1"], "Did you mean learning_rate?"),
        (["GRAPH", "--set", "nonsense"], "--set must be section.name=value"),
        (["GRAPH", "--set", "data.drop=3"], "--drop must be a list, got 3"),
        (["GRAPH", "--max-degree", "3"], "Leave out --promise-degrees"),
        (["GRAPH", "--clipping", "pair"], "--loss must be a sum over negatives"),
        (["GRAPH", "--learning-rate", "-1"], "--learning-rate must be"),
        ([], "GRAPH must be given"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, graph, capsys, arguments, words):
    given = [graph if word == "GRAPH" else word for word in arguments]
    assert main(["train", "-o", str(tmp_path / "run"), *FLAGS, *given]) == 2
    said = lines(capsys.readouterr().err)
    assert len(said) == 1
    assert words in said[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "given",
    [["--lora-rank", "8"], ["--lora-rank", "4"], ["--train", "lora"], ["--set", "encoder.dtype='float32'"]],
)  # fmt: skip
def test_settings_of_text_models_are_refused_for_features_also_with_their_defaults(
    tmp_path, graph, capsys, given
):
    command = ["train", graph, *FLAGS, "-o", str(tmp_path / "run")]
    recipe = tmp_path / "recipe.toml"
    for file in ([], ["--config", str(recipe)]):
        if file:
            recipe.write_text(Recipe.template())  # all defaults are in it, and that is no choice
            assert main([*command, *file, "--dry-run"]) == 0
        assert main([*command, *file, *given]) == 2
        assert "must be left out for a graph with features" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
@pytest.mark.parametrize(
    "place", ["reldp.processes.join_processes", "reldp.training.recipe.Recipe.trainer"]
)
def test_a_stop_before_the_first_step_says_how_to_resume_a_run_that_is_there(
    tmp_path, graph, capsys, monkeypatch, number, code, place
):
    run = tmp_path / "run"
    command = ["train", graph, "-o", str(run), *FLAGS]

    def stopped(*more):
        with monkeypatch.context() as patch:
            patch.setattr(place, lambda *_, **__: signal.raise_signal(number))
            assert main([*command, *more]) == code
        return capsys.readouterr().err

    assert "To resume" not in stopped(), "there is nothing to resume"
    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "_take", lambda *_: 1 / 0)
        assert main(command) == 70
    assert RunFolder(run).has_run
    capsys.readouterr()
    last = stopped().splitlines()[-1]
    assert last.startswith("reldp: stopped ")
    assert last.endswith(f" To resume, run the same command with -o {run}.")
    assert "To resume" not in stopped("--dry-run"), "a dry run resumes nothing"


def test_a_target_of_zero_is_refused(tmp_path, graph, capsys):
    flags = [*FLAGS[:-4], "--target-epsilon", "0"]
    assert main(["train", graph, "-o", str(tmp_path / "run"), *flags]) == 2
    assert "--target-epsilon must be a finite number of at least 0.001" in capsys.readouterr().err


def test_a_text_model_needs_texts(tmp_path, graph, capsys):
    model = str(write_model("bert", tmp_path / "model"))
    command = ["train", graph, "--model", model, *FLAGS, "-o", str(tmp_path / "run")]
    assert main(command) == 2
    assert "--model must be left out for a graph with features" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--quiet"]])
def test_long_planning_is_said_to_go_on(tmp_path, graph, capsys, monkeypatch, more):
    make = Recipe.trainer

    def slow(self, **given):
        time.sleep(0.3)
        return make(self, **given)

    monkeypatch.setattr(Recipe, "trainer", slow)
    monkeypatch.setattr(progress, "INTERVAL", 0.05)
    assert main(["train", graph, "-o", str(tmp_path / "run"), *FLAGS, *more]) == 0
    said = "reldp: (sensitive) reading and planning, for " in capsys.readouterr().err
    assert said != ("--quiet" in more)


def test_encoder_and_device_are_named(tmp_path, graph, capsys):
    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS, "--device", "cpu"]
    assert main(command) == 0
    line = "reldp: training an encoder of the graph's features (the default, since --model is not given) on cpu."
    assert line in lines(capsys.readouterr().err)


def test_a_graph_of_texts_is_trained_with_minilm_unless_a_model_is_named(tmp_path, capsys):
    texts = [f"{TEXTS[i % 6]} {TEXTS[(i * 7) % 6]}" for i in range(60)]
    ring = [(i, (i + 1) % 60) for i in range(60)]
    EntityGraph.from_lists(list(range(60)), ring, text=texts).write(tmp_path / "graph")
    flags = ["--max-degree", "2", "--num-negatives", "1", "--num-steps", "1", *EXACT, *PRIVACY]
    flags += ["--expected-batch-size", "2", "--max-length", "8", "--device", "cpu"]
    run = tmp_path / "run"
    assert main(["train", str(tmp_path / "graph"), "-o", str(run), *flags]) == 0
    name = "sentence-transformers/all-MiniLM-L6-v2"
    assert f"reldp: training {name} (the default" in capsys.readouterr().err
    values = json.loads((run / "certificate.json").read_text())
    assert values["encoder"]["base_model"] == name


def test_the_run_folder_is_new_and_named_after_graph_and_date_unless_given(
    tmp_path, graph, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for number in ("", "-2"):
        assert main(["train", graph, *FLAGS, "--json"]) == 0
        said = capsys.readouterr()
        folder = json.loads(said.out)["folder"]
        assert re.fullmatch(rf"graph-\d{{4}}-\d\d-\d\d{number}", folder)
        assert (tmp_path / folder / "certificate.json").is_file()
        assert f"reldp: the run folder is {folder}. To resume the run, add -o {folder}." in said.err


def test_a_graph_may_come_from_the_recipe_and_the_argument_goes_before_it(tmp_path, graph, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"[data]\ngraph = {json.dumps(graph)}\n")
    command = ["train", "--config", str(recipe), *FLAGS, "-o", str(tmp_path / "run")]
    assert main(command) == 0
    assert main([*command, "-o", str(tmp_path / "other"), "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_graph_is_a_hidden_option_too(tmp_path, graph, capsys):
    command = ["train", "--graph", graph, *FLAGS, "-o", str(tmp_path / "run")]
    assert main(command) == 0
    assert main([*command, graph]) == 2
    assert "GRAPH must be given once" in capsys.readouterr().err
    assert main(["train", "--help"]) == 0
    assert "--graph" not in capsys.readouterr().out


def test_a_recipe_in_place_of_the_graph_is_an_error_that_names_config(tmp_path, capsys):
    assert main(["train", "recipe.toml", *FLAGS, "-o", str(tmp_path / "run")]) == 2
    said = lines(capsys.readouterr().err)
    assert len(said) == 1
    assert "Use --config recipe.toml" in said[0]


def test_the_options_that_matter_come_first_in_the_help(capsys):
    assert main(["train", "--help"]) == 0
    page = capsys.readouterr().out
    first = page.split("Main options:")[1].split("Privacy:")[0]
    for flag in ("--target-epsilon", "--model", "--max-degree", "--output", "--config"):
        assert flag in first


def test_a_recipe_that_is_none_is_refused_by_line(tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text("[data\n")
    run = ["-o", str(tmp_path / "run")]
    assert main(["train", "--config", str(tmp_path / "recipe.toml"), *run]) == 2
    assert "must be TOML" in capsys.readouterr().err
    assert main(["train", "--config", str(tmp_path / "none.toml"), *run]) == 2
    assert "could not be read" in capsys.readouterr().err


def test_a_place_where_no_folder_can_be_is_a_clear_error(tmp_path, graph, capsys):
    (tmp_path / "file").write_text("not a folder")
    command = ["train", graph, "-o", str(tmp_path / "file" / "run"), *FLAGS]
    assert main(command) == 2
    said = errors(capsys.readouterr().err)
    assert len(said) == 1
    assert "run could not be written" in said[0]


def test_a_full_disk_is_a_clear_error_and_the_run_goes_on_later(
    tmp_path, graph, capsys, monkeypatch
):
    import errno

    from reldp.runs import durable

    command = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS]
    command += ["--checkpoint-every", "2"]
    sync, seen = durable._sync, []

    def full(path):
        seen.append(path)
        if len(seen) == 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(path)

    with monkeypatch.context() as patch:
        patch.setattr(durable, "_sync", full)
        assert main(command) == 2
    said = errors(capsys.readouterr().err)
    assert len(said) == 1
    assert "the disk is full" in said[0]
    assert main(command) == 0
    assert main(["verify", str(tmp_path / "run")]) == 0
