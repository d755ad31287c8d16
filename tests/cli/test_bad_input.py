"""What a user may get wrong on the command line, and what a damaged file holds: one clear line each."""

import json
import os
import subprocess
import sys

import pytest

from reldp.cli.main import main
from tests.cli.train_flags import lines
from tests.reporting.example import PLAN
from tests.training.small import small_graph

ACCOUNT = {
    "--num-entities": "1e4", "--num-relations": "2e4", "--max-degree": "5", "--num-negatives": "4",
    "--sample-rate": "1e-3", "--noise-multiplier": "1", "--num-steps": "2", "--delta": "1e-6",
}  # fmt: skip


def said_by(words, capsys):
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("reldp: ")
    assert said.count("\n") == 1
    assert len(said) < 600
    return said


@pytest.mark.parametrize(
    ("flag", "value", "rule"),
    [
        ("--noise-multiplier", "1e-100", "must be 0, or from 1e-12"),
        ("--num-steps", "1e-400", "must be a whole number"),
        ("--num-steps", "9" * 400, "must be an integer from 0 to"),
        ("--num-steps", "9" * 5000, "must be a whole number"),
        ("--num-entities", "9" * 400, "must be an integer from 1 to"),
        ("--max-degree", "1e15", "must be an integer from 1 to"),
        ("--delta", "1e-400", "must be 0 or at least 1e-300"),
        ("--sample-rate", "1e-400", "must be 0 or at least 1e-300"),
    ],
)
def test_numbers_beyond_every_run(flag, value, rule, capsys):
    words = [word for pair in {**ACCOUNT, flag: value}.items() for word in pair]
    assert f"{flag} {rule}" in said_by(["account", *words], capsys)


@pytest.mark.parametrize("trials", ["1e23", "1e15", "9" * 400])
def test_an_audit_without_end(trials, capsys, tmp_path):
    (tmp_path / "plan.json").write_text(PLAN.to_json())
    words = ["audit", "--plan", tmp_path / "plan.json", "--trials", trials]
    assert "--trials must be" in said_by(words, capsys)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe{}", b"[" * 100_000, b'{"num_entities": ' + b"9" * 400 + b"}", b""]
)
def test_a_plan_that_is_none(content, capsys, tmp_path):
    (tmp_path / "plan.json").write_bytes(content)
    said_by(["audit", "--plan", tmp_path / "plan.json"], capsys)


@pytest.mark.parametrize(
    "content", [b"[data]\ngraph = '\xff'", b"a = " + b"[" * 20_000, b"a = " + b"9" * 5000]
)
def test_a_recipe_that_is_none(content, capsys, tmp_path):
    (tmp_path / "recipe.toml").write_bytes(content)
    words = ["train", "--config", tmp_path / "recipe.toml", "-o", tmp_path / "run"]
    assert "recipe" in said_by(words, capsys)
    assert not (tmp_path / "run").exists()


def test_a_plan_or_a_graph_that_is_a_pipe_does_not_block(capsys, tmp_path):
    os.mkfifo(tmp_path / "plan.json")
    said_by(["audit", "--plan", tmp_path / "plan.json"], capsys)
    os.mkfifo(tmp_path / "entities.csv")
    os.mkfifo(tmp_path / "relations.csv")
    said_by(["inspect", tmp_path, "--no-plan"], capsys)


def test_a_degree_and_candidates_of_hundreds_of_digits(capsys, tmp_path):
    (tmp_path / "entities.csv").write_text("id,text\na,x\nb,y\n")
    (tmp_path / "relations.csv").write_text("source,target\na,b\n")
    assert "--max-degree must" in said_by(["inspect", tmp_path, "--max-degree", "9" * 400], capsys)


def test_names_with_a_null_character(capsys):
    assert "null character" in said_by(["report", "a\0b"], capsys)


def test_a_terminal_without_unicode_shows_escapes(tmp_path):
    place = tmp_path / "gé"
    place.mkdir()
    (place / "entities.csv").write_text("id,text\ná,été\nb,½\n", encoding="utf-8")
    (place / "relations.csv").write_text("source,target\ná,b\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "reldp", "inspect", str(place), "--no-plan", "--json"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.decode("ascii"))["num_entities"] == 2


@pytest.mark.parametrize(
    "command",
    [
        ["train", "GRAPH", "--config", "LOOP", "--target-epsilon", "4", "-o", "new"],
        ["train", "LOOP", "--target-epsilon", "4", "-o", "new"],
        ["verify", "LOOP"],
        ["publish", "LOOP", "-o", "new"],
        ["report", "LOOP"],
        ["finish", "LOOP", "--decided-by", "time"],
        ["sign", "LOOP", "--key", "LOOP"],
        ["budget", "share", "GRAPH", "--with", "LOOP"],
        ["budget", "enter", "LOOP", "LOOP"],
        ["budget", "init", "LOOP"],
        ["inspect", "LOOP"],
    ],
)
def test_links_in_a_circle_are_bad_input(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_graph().write(tmp_path / "graph")
    (tmp_path / "loop").symlink_to("loop")
    places = {"LOOP": str(tmp_path / "loop"), "GRAPH": str(tmp_path / "graph")}
    assert main([places.get(word, word) for word in command]) == 2
    said = capsys.readouterr().err
    assert said.startswith("reldp: ")
    assert len(lines(said)) == 1
    assert "Internal" not in said
