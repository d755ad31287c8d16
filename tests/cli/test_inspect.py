import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reldp._plan_suggestion import OTHER_RELATIONS, suggest, suggest_settings
from reldp.cli import progress
from reldp.cli.main import main
from reldp.encoders import FeatureEncoder
from reldp.graph import EntityGraph, bundled, inspection
from reldp.plan import PrivacyPlan


def _ring(size: int) -> EntityGraph:
    """A ring of entities, in which neighbors in rows share a text two by two."""
    pairs = [(i, (i + 1) % size) for i in range(size)]
    return EntityGraph.from_lists(
        list(range(size)), pairs, text=[f"t{i // 2}" for i in range(size)]
    )


def test_the_page_shows_sizes_a_picture_caps_and_a_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _ring(4000).write(tmp_path / "ring")
    command = ["inspect", str(tmp_path / "ring"), "--target-epsilon", "8", "--sizes", "public"]
    assert main(command) == 0
    default = " ".join(capsys.readouterr().out.split())
    assert "max degree 1; negatives: other relations; from exact sizes" in default
    assert main([*command, "--max-degree", "5"]) == 0
    printed = capsys.readouterr().out
    assert "4,000, all protected" in printed
    assert "4,000 entities (100.0%) share their text" in " ".join(printed.split())
    assert "█" * 40 in printed
    assert "What capping keeps" in printed
    assert "The largest degree of a protected entity is 2." in printed
    assert "max degree 5; negatives: entities; from exact sizes" in printed
    assert re.search(r"\b4 +16 +620 ", printed)
    noise = [line.split() for line in printed.splitlines() if line.split()[:2] == ["8", "2.5e-05"]]
    assert len(noise) == 1
    assert float(noise[0][5]) / 16 == pytest.approx(float(noise[0][6]), abs=1e-4)
    assert "At epsilon 8 the noise per expected batch is" in printed
    assert "from exact sizes, taken as public" in printed
    assert "Sensitive: counted from the data without noise. Keep this page" in printed


def test_private_sizes_are_released_only_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _ring(4001).write(tmp_path / "ring")
    command = ["inspect", str(tmp_path / "ring"), "--target-epsilon", "8"]
    assert main(command) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "No plan yet: the sizes of this graph are private" in printed
    assert "--release-sizes" in printed
    assert not (tmp_path / "ring" / "sizes.private.json").exists()
    assert main([*command, "--release-sizes"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "from noisy bounds: at least 3," in printed
    assert re.search(r"entities, from 1,\d+ to [12],\d+ relations, released", printed)
    assert "released for epsilon 0." in printed
    assert "Do not choose the target epsilon from this table" in printed
    assert "Do not choose the maximum degree of a private graph from this table" in printed
    assert "It needs more noise than a smaller cap" in printed
    assert (tmp_path / "ring" / "sizes.private.json").stat().st_mode & 0o077 == 0
    assert main(command) == 0
    assert " ".join(capsys.readouterr().out.split()) == printed


def test_json_holds_the_histogram_the_caps_and_noise_that_meets_the_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        main(["inspect", "wordnet-verbs", "--target-epsilon", "4", "--sizes", "public", "--json"])
        == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert (printed["num_entities"], printed["num_relations"]) == (13_639, 15_145)
    assert sum(bar["num_entities"] for bar in printed["degrees"]["bars"]) == 13_639
    assert [cap["max_degree"] for cap in printed["caps"]] == [1, 2, 5, 10, 20]
    assert printed["sensitive"] is True
    capped = bundled.load("wordnet-verbs").cap_degrees(1, seed=0)
    settings = suggest_settings(1, capped.num_relations, OTHER_RELATIONS)
    (row,) = printed["suggestion"]["plans"]
    plan = PrivacyPlan(
        num_entities=capped.num_entities,
        num_relations=capped.num_relations,
        max_degree=1,
        negatives="relations",
        pool_size=capped.num_relations,
        num_negatives=settings.num_negatives,
        expected_batch_size=settings.expected_batch_size,
        num_steps=settings.num_steps,
        delta=row["delta"],
        noise_multiplier=row["noise_multiplier"],
    )
    assert 0.98 * 4 <= plan.epsilon() <= 4


def test_a_target_that_cannot_be_met_is_said_and_not_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two entities: a batch of one relation already needs four distinct negatives.
    EntityGraph.from_lists(["a", "b"], [("a", "b")], text=["x", "y"]).write(tmp_path / "pair")
    command = ["inspect", str(tmp_path / "pair"), "--sizes", "public"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert printed.count("cannot be met") == 3
    assert "num_negatives" in printed
    assert main([*command, "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["suggestion"]["plans"]
    assert [plan["target_epsilon"] for plan in plans] == [1, 4, 10]
    assert all(plan["noise_multiplier"] is None for plan in plans)


def test_the_plan_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _ring(10).write(tmp_path / "ring")
    assert main(["inspect", str(tmp_path / "ring"), "--no-plan"]) == 0
    assert "epsilon" not in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "ring"), "--no-plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["suggestion"] is None


def test_damage_is_refused_and_can_be_dropped_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "entities.csv").write_text("id,text\na,x\nb,y\n")
    (tmp_path / "relations.csv").write_text("source,target\na,b\nb,a\n")
    common = ["inspect", str(tmp_path), "--no-plan"]
    assert main(common) == 2
    assert "duplicate" in capsys.readouterr().err
    assert main([*common, "--drop", "duplicate_relations"]) == 0
    assert "1 duplicate relations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "GRAPH"),
        (["nowhere"], "one of wordnet-nouns, wordnet-verbs"),
        (["wordnet-verbs", "--max-degree", "0"], "--max-degree"),
        (["wordnet-verbs", "--drop", "everything"], "--drop"),
        (["wordnet-verbs", "--target-epsilon", "0"], "--target-epsilon"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["inspect", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_texts_that_name_others_are_warned_of_and_named_only_where_asked_for(tmp_path, capsys):
    rows = "".join(f"user-{i},friend of user-{i + 1}\n" for i in range(9))
    (tmp_path / "entities.csv").write_text(f"id,text\n{rows}user-9,alone\n")
    (tmp_path / "relations.csv").write_text("source,target\nuser-0,user-1\n")
    assert main(["inspect", "--no-plan", str(tmp_path)]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "must describe one entity only" in page
    assert "9 texts contain the id of another entity (row 1, row 2" in page
    assert "user-" not in page
    assert main(["inspect", "--no-plan", "--show-ids", str(tmp_path)]) == 0
    assert "'user-0' mentions 'user-1'" in " ".join(capsys.readouterr().out.split())


def test_types_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = EntityGraph.from_lists(
        list(range(9)),
        [(i, i + 1) for i in range(8)],
        types=["likes"] * 5 + ["knows"] * 3,
        text=[f"text {i}" for i in range(9)],
    )
    graph.write(tmp_path / "seen")
    graph.with_types(["likes", "knows", "pays"]).write(tmp_path / "declared")
    assert main(["inspect", str(tmp_path / "seen"), "--sizes", "public"]) == 0
    assert "2, as in the data: likes 5, knows 3" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "declared"), "--sizes", "public", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["types"] == {"knows": 3, "likes": 5, "pays": 0}


def test_a_page_is_written_for_its_owner_and_never_over_another_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _ring(400).write(tmp_path / "ring")
    command = [
        "inspect",
        str(tmp_path / "ring"),
        "--no-plan",
        "--html",
        str(tmp_path / "page.html"),
    ]
    assert main(command) == 0
    assert f"wrote {tmp_path / 'page.html'}" in capsys.readouterr().out
    assert "Inspection of" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert main(command) == 2
    assert "must be a new file" in capsys.readouterr().err


def test_a_graph_without_relations_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    EntityGraph.from_lists(["a", "b"], [], text=["x", "y"]).write(tmp_path / "empty")
    assert main(["inspect", str(tmp_path / "empty")]) == 0
    assert "! The graph has no relations" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "empty"), "--json"]) == 0
    assert "no relations" in json.loads(capsys.readouterr().out)["warnings"][0]
    _ring(10).write(tmp_path / "ring")
    assert main(["inspect", str(tmp_path / "ring"), "--no-plan"]) == 0
    assert "no relations" not in capsys.readouterr().out


def test_words_of_a_graph_reach_no_terminal_as_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
    pairs = [(i, (i + 1) % 40) for i in range(40)]
    types = [f"kind{evil}{i % 2}" for i in range(40)]
    graph = EntityGraph.from_lists(
        list(range(40)), pairs, features=np.eye(40, dtype=np.float32), types=types
    )
    graph.write(tmp_path / "g")
    FeatureEncoder(40).save(tmp_path / "m")
    path = tmp_path / "g" / "record.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    record |= {label: f"{label}{evil}" for label in ("source", "version", "license")}
    path.write_text(json.dumps(record))
    for command in (["inspect"], ["evaluate", str(tmp_path / "m"), "--candidates", "8", "--graph"]):
        assert main([*command, str(tmp_path / "g")]) == 0
        printed = "".join(capsys.readouterr())
        assert "kind" in printed
        assert not set("\x1b\x07\x9b\u202e") & set(printed)


DECLARED = ["--sizes", "declared", "--min-entities", "3000", "--max-relations", "5000"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--target-epsilon", "nan"], "--target-epsilon must be a finite number"),
        (["--target-epsilon", "-1"], "--target-epsilon must be a finite number"),
        (
            [*DECLARED[:4], "--max-relations", "9" * 400],
            "--max-relations must be an integer from 1",
        ),
        (
            ["--sizes", "declared", "--min-entities", "-1"],
            "--min-entities must be an integer from 1",
        ),
        (["--sizes", "declared"], "--min-entities must be given for declared sizes"),
        (["--min-entities", "5"], "--min-entities must be given for declared sizes only"),
        (
            ["--min-relations", "5"],
            "--min-relations must be given for declared sizes and a maximum",
        ),
        ([*DECLARED, "--min-relations", "5", "--max-degree", "2"], "--min-relations must be given"),
    ],
)
def test_numbers_that_break_a_rule_are_refused_and_not_shown(tmp_path, capsys, flags, words):
    _ring(4000).write(tmp_path / "ring")
    assert main(["inspect", str(tmp_path / "ring"), *flags]) == 2
    assert words in capsys.readouterr().err


def test_a_change_of_the_default_negatives_is_said(tmp_path, capsys):
    _ring(4000).write(tmp_path / "ring")
    command = ["inspect", str(tmp_path / "ring"), *DECLARED, "--target-epsilon", "8"]

    def said(*flags):
        assert main([*command, *flags]) == 0
        return " ".join(capsys.readouterr().out.split())

    switched = "negatives are entities, and an entity keeps up to 5 relations, because sizes are"
    assert switched in said()
    assert switched not in said("--max-degree", "5")
    other = said("--min-relations", "1000")
    assert switched not in other
    assert "max degree 1; negatives: other relations" in other
    assert "from 1,000 to 5,000 relations" in other
    assert "`min_relations` must be at most the number of relations" in said(
        "--min-relations", "3000"
    )


def test_a_log_says_that_reading_and_planning_go_on(tmp_path, capsys, monkeypatch):
    def slow(call):
        def wait(*words, **options):
            time.sleep(0.2)
            return call(*words, **options)

        return wait

    _ring(4000).write(tmp_path / "ring")
    command = ["inspect", str(tmp_path / "ring"), "--target-epsilon", "8", "--sizes", "public"]
    assert main([*command, "--no-plan"]) == 0
    assert capsys.readouterr().err == "", "it is short"
    monkeypatch.setattr(progress, "INTERVAL", 0.05)
    monkeypatch.setattr(inspection, "inspect_graph", slow(inspection.inspect_graph))
    monkeypatch.setattr("reldp.cli.inspect.suggest", slow(suggest))
    assert main(command) == 0
    said = capsys.readouterr().err.splitlines()
    for phase in ("reading and counting", "calibrating the noise"):
        assert any(line.startswith(f"reldp: (sensitive) {phase}, for ") for line in said)


PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""An environment in which Python writes ASCII."""


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [("ü", 0, "gr\\xf6\\xdfer 2"), ("ñandú", 2, "reldp: relations.csv must name entities")],
    ids=["types", "ids"],
)
def test_letters_beyond_ascii_end_in_no_traceback_where_nothing_else_can_be_written(
    tmp_path, target, code, words
):
    graph = tmp_path / "größe"
    graph.mkdir()
    (graph / "entities.csv").write_text("id,text\nä,x\nö,y\nü,z\n", encoding="utf-8")
    rows = f"source,target,type\nä,ö,größer\nö,{target},größer\n"
    (graph / "relations.csv").write_text(rows, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "reldp", "inspect", str(graph), "--no-plan", "--show-ids"],
        env=os.environ | PLAIN,
        capture_output=True,
        check=False,
    )
    printed = (done.stdout + done.stderr).decode("utf-8")
    assert "Traceback" not in printed
    assert "Internal error" not in printed
    assert (done.returncode, words in printed) == (code, True), printed
    assert done.stdout.isascii(), "the control: Python writes ASCII here"
