"""``reldp train --dry-run`` shows what a run would take, and leaves nothing behind."""

import json

import pytest
import torch

from reldp.cli.main import main
from reldp.graph import EntityGraph
from tests.cli.test_budget import FLAGS
from tests.cli.train_flags import EXACT, PRIVACY
from tests.encoders.tiny import TEXTS, write_model
from tests.training.small import small_graph

torch.set_num_threads(1)


def content(folder):
    return {place.relative_to(folder).as_posix() for place in folder.rglob("*")}


def test_plan_time_and_memory_are_shown_and_nothing_is_written(tmp_path, capsys):
    small_graph().write(tmp_path / "graph")
    before = content(tmp_path)
    words = ["train", str(tmp_path / "graph"), "-o", str(tmp_path / "run"), *FLAGS, "--dry-run"]
    assert main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["seconds_per_step"] > 0
    assert shown["peak_bytes"] > 2**20
    assert shown["epsilon"] > 0
    assert shown["measured_on"] == "public random rows"
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "estimated from a few microbatches of public random rows of the greatest length" in printed
    )
    assert "Not counted: reading the graph and the model. Nothing was trained or spent." in printed
    assert "Warning:" not in printed
    assert content(tmp_path) == before


def test_a_poor_plan_is_warned_about(tmp_path, capsys):
    small_graph().write(tmp_path / "graph")
    flags = [*FLAGS, "--noise-multiplier", "0.5", "--delta", "0.01"]
    words = ["train", str(tmp_path / "graph"), *flags, "--dry-run"]
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Warning: delta should be below 1/n" in printed
    assert "Warning: epsilon should be at most 10" in printed
    assert main([*words, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == printed.count("Warning: ")


@pytest.mark.parametrize(
    ("train", "rows"), [("lora", "public random texts"), ("pooling", "public random rows")]
)
def test_a_text_model_is_measured_on_public_texts_and_tokenizing_is_not_counted(
    tmp_path, capsys, train, rows
):
    texts = [f"{TEXTS[i % 6]} {TEXTS[(i * 7) % 6]}" for i in range(60)]
    ring = [(i, (i + 1) % 60) for i in range(60)]
    EntityGraph.from_lists(list(range(60)), ring, text=texts).write(tmp_path / "graph")
    model = str(write_model("bert", tmp_path / "model"))
    before = content(tmp_path)
    flags = ["--max-degree", "2", "--num-negatives", "1", "--num-steps", "5", *EXACT, *PRIVACY]
    flags += ["--expected-batch-size", "2", "--max-length", "8", "--train", train]
    words = ["train", str(tmp_path / "graph"), "--model", model, *flags, "--dry-run"]
    assert main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["measured_on"] == rows
    assert shown["seconds"] == pytest.approx(5 * shown["seconds_per_step"])
    assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        f"a few microbatches of {rows} of the greatest length (shorter ones take less)" in printed
    )
    assert "Not counted: reading the graph and the model, and tokenizing the texts." in printed
    assert content(tmp_path) == before


def test_private_sizes_are_not_released(tmp_path, capsys):
    small_graph().write(tmp_path / "graph")
    before = content(tmp_path)
    flags = [word for word in FLAGS if word not in ("--sizes", "public")]
    assert main(["train", str(tmp_path / "graph"), *flags, "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert "--dry-run must not release private sizes" in said
    assert (
        "Use reldp inspect GRAPH --max-degree 4 --release-sizes first, or --sizes declared." in said
    )
    assert content(tmp_path) == before
    # `reldp inspect` caps with seed 0, and so would release other sizes.
    assert (
        main(["train", str(tmp_path / "graph"), *flags, "--set", "data.cap_seed=1", "--dry-run"])
        == 2
    )
    assert "without a release. Use --sizes declared." in capsys.readouterr().err


def test_quiet_prints_the_result_only_and_verbose_more(tmp_path, capsys):
    small_graph().write(tmp_path / "graph")
    said = {}
    for flag in ("--quiet", "--verbose"):
        run = str(tmp_path / flag)
        assert main(["train", str(tmp_path / "graph"), "-o", run, *FLAGS, flag]) == 0
        said[flag] = capsys.readouterr()
        assert "differential privacy" in said[flag].out
    assert said["--quiet"].err == ""
    assert "reldp: 6 steps are planned; checking the encoder.\n" in said["--verbose"].err


def test_a_dry_run_asks_the_budget(tmp_path, capsys):
    graph = str(tmp_path / "graph")
    small_graph().write(tmp_path / "graph")
    assert main(["budget", "init", graph, "--limit", "100", "--delta", "0.01"]) == 0
    words = ["train", graph, "-o", str(tmp_path / "run"), *FLAGS, "--dry-run"]
    assert main(words) == 0
    assert main(["budget", "limit", graph, "--limit", "0.001", "--delta", "0.01"]) == 0
    before = content(tmp_path)
    capsys.readouterr()
    assert main(words) == 2
    assert "must stay within epsilon 0.001" in capsys.readouterr().err
    assert content(tmp_path) == before
    # A budget that is named is asked as well.
    small_graph(seed=7).write(tmp_path / "other")
    words[1] = str(tmp_path / "other")
    assert main(words) == 0
    assert main([*words, "--budget", graph]) == 2
    assert "must stay within epsilon 0.001" in capsys.readouterr().err
