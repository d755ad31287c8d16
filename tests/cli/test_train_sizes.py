"""What ``reldp train`` makes of private, declared and public sizes."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from reldp.cli.main import main
from reldp.graph import EntityGraph
from tests.cli.train_flags import EXACT, FLAGS, lines
from tests.training.small import small_graph

torch.set_num_threads(1)


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return str(tmp_path / "graph")


@pytest.mark.parametrize(
    "more", [["--sizes", "private"], ["--sizes", "declared"], ["--min-entities", "9"], ["--max-relations", "9"]]
)  # fmt: skip
def test_sizes_are_exact_without_privacy_and_nothing_else(tmp_path, graph, capsys, more):
    assert main(["train", graph, "-o", str(tmp_path / "run"), "--no-privacy", *more]) == 2
    assert "must be left out with --no-privacy" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_sizes_left_out_are_suggested_for_the_graph(tmp_path, graph):
    run = str(tmp_path / "run")
    assert main(["train", graph, "-o", run, "--no-privacy", "--max-degree", "4"]) == 0
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert plan["num_negatives"] == 4
    assert plan["num_steps"] > 100


@pytest.fixture(scope="module")
def large_graph(tmp_path_factory):
    """A graph that is large enough for private sizes."""
    count = 3000
    features = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    ring = [(i, (i + step) % count) for i in range(count) for step in (1, 2)]
    folder = tmp_path_factory.mktemp("graphs") / "large"
    EntityGraph.from_lists(list(range(count)), ring, features=features).write(folder)
    return str(folder)


def test_a_resumption_with_another_graph_or_bound_says_what_differs(tmp_path, large_graph, capsys):
    command = ["-o", str(tmp_path / "run"), "--target-epsilon", "4", "--num-steps", "3", "--quiet"]
    assert main(["train", large_graph, *command, "--max-degree", "4"]) == 0
    capsys.readouterr()
    assert main(["train", large_graph, *command, "--max-degree", "3"]) == 2
    said = capsys.readouterr().err
    assert "must be resumed as it was started, got: plan.max_degree was 4, is 3." in said
    whole = EntityGraph.read(large_graph)
    mask = np.arange(whole.num_relations) > 0
    whole.keep_relations(mask, record=whole.record).write(tmp_path / "other")
    shutil.copy(Path(large_graph, "sizes.private.json"), tmp_path / "other")
    assert main(["train", str(tmp_path / "other"), *command, "--max-degree", "4"]) == 2
    assert "got: the graph is another." in capsys.readouterr().err


def test_sizes_are_private_by_default_and_their_cost_is_said(tmp_path, large_graph, capsys):
    run = tmp_path / "run"
    command = ["train", large_graph, "--max-degree", "4", "--target-epsilon", "4"]
    assert main([*command, "-o", str(run), "--num-steps", "3", "--json"]) == 0
    said = capsys.readouterr()
    first = lines(said.err)[0]
    assert first.startswith("reldp: sizes are private: the plan knows that there are at least ")
    assert re.search(r"released once for epsilon 0\.\d+, which is included", first)
    assert re.search(r"noise is about \d+% higher than with public sizes\.$", first)
    plan = json.loads((run / "plan.json").read_text())
    assert plan["sizes"] == "private"
    assert plan["num_entities"] < 3000
    assert plan["num_relations"] > 6000
    printed = json.loads(said.out)
    assert "which are included" in printed["sizes"]
    assert 3.9 < printed["epsilon"] <= 4
    for place in run.rglob("*"):
        if place.is_file() and place.name != "sensitive.json":
            assert not re.search(rb"\b(3,?000|6,?000)\b", place.read_bytes()), place.name
    # The same release again: another run on this graph has the same bounds, and resuming is silent.
    assert main([*command, "-o", str(run), "--num-steps", "3"]) == 0
    assert "sizes are private" not in capsys.readouterr().err
    other = tmp_path / "other"
    assert main([*command, "-o", str(other), "--num-steps", "2", "--max-degree", "4"]) == 0
    again = json.loads((other / "plan.json").read_text())
    assert again["num_relations"] == plan["num_relations"]


def test_a_run_that_goes_on_never_releases_sizes_again(tmp_path, large_graph, capsys, monkeypatch):
    """Elsewhere, without the stored release: a second draw would cost epsilon that nobody counts."""
    folder = shutil.copytree(
        large_graph, tmp_path / "graph", ignore=lambda *_: ["sizes.private.json"]
    )
    command = ["train", str(folder), "--max-degree", "4", "--target-epsilon", "4"]
    command += ["--num-steps", "2", "-o", str(tmp_path / "run")]
    assert main(command) == 0
    stored = (folder / "sizes.private.json").read_bytes()
    (folder / "sizes.private.json").unlink()
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "elsewhere"))
    capsys.readouterr()
    assert main(command) == 2
    said = lines(capsys.readouterr().err)
    assert len(said) == 1
    assert "Copy sizes.private.json into the graph's folder" in said[0]
    assert not (folder / "sizes.private.json").exists()
    (folder / "sizes.private.json").write_bytes(stored)
    assert main(command) == 0


def test_a_given_noise_is_compared_by_epsilon(tmp_path, large_graph, capsys):
    command = ["train", large_graph, "--max-degree", "4", "--noise-multiplier", "2"]
    assert main([*command, "-o", str(tmp_path / "run"), "--num-steps", "3"]) == 0
    assert "with public sizes epsilon would be about" in lines(capsys.readouterr().err)[0]


def test_small_graphs_need_declared_or_public_sizes(tmp_path, graph, capsys):
    flags = [word for word in FLAGS if word not in EXACT]
    assert main(["train", graph, "-o", str(tmp_path / "run"), *flags]) == 2
    said = lines(capsys.readouterr().err)
    assert len(said) == 1
    assert "--sizes must not be private for this graph" in said[0]
    bounds = ["--sizes", "declared", "--min-entities", "250", "--max-relations", "700"]
    assert main(["train", graph, "-o", str(tmp_path / "run"), *flags, *bounds]) == 0
    assert main(["verify", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("bounds", [("301", "700"), ("250", "599")])
def test_a_graph_outside_declared_bounds_is_refused_without_its_sizes(
    tmp_path, graph, capsys, bounds
):
    flags = [word for word in FLAGS if word not in EXACT]
    flags += ["--sizes", "declared", "--min-entities", bounds[0], "--max-relations", bounds[1]]
    assert main(["train", graph, "-o", str(tmp_path / "run"), *flags]) == 2
    said = lines(capsys.readouterr().err)
    assert len(said) == 1
    assert "do not show it to others" in said[0]
    assert "300" not in said[0]
    assert "600" not in said[0]
    assert not (tmp_path / "run").exists()


def test_a_text_model_on_features_is_refused_before_sizes_are_released(
    tmp_path, large_graph, capsys
):
    command = ["train", large_graph, "--model", "somewhere", "--target-epsilon", "4"]
    assert main([*command, "-o", str(tmp_path / "run")]) == 2
    assert "must be left out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
