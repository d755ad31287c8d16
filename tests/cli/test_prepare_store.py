import json
import sys
from pathlib import Path

import pytest

from reldp.cli import main as cli
from reldp.cli import prepare_store
from reldp.cli.main import main
from reldp.graph import EntityGraph
from reldp.graph.store import progress
from reldp.graph.store.progress import Progress, Tick
from tests.graph.folders import RELATIONS, folder_of


def source(tmp_path: Path, **files: str) -> Path:
    (tmp_path / "graph").mkdir()
    return folder_of(tmp_path / "graph", **files)


def test_a_store_is_written_and_inspected(tmp_path, capsys):
    out = tmp_path / "a store"
    graph = source(tmp_path)
    assert main(["prepare", "store", str(graph), "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert "3 entities, 2 relations" in printed.out
    assert f"reldp inspect '{out}'" in printed.out
    assert printed.err == ""
    assert EntityGraph.read(out) == EntityGraph.read(graph)
    assert main(["inspect", str(out), "--no-plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_relations"] == 2


def test_settings_and_drops(tmp_path, capsys):
    graph = source(tmp_path, relations_csv=RELATIONS + "b,a\n")
    arguments = ["prepare", "store", str(graph), "-o", str(tmp_path / "store")]
    assert main(arguments) == 2
    assert "1 repeated relations (line 4)" in capsys.readouterr().err
    more = ["--drop", "duplicate_relations", "--memory-limit", "200MB", "--threads", "1"]
    assert main([*arguments, *more, "--temp-dir", str(tmp_path / "temp"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["record"]["drops"] == {"duplicate_relations": 1}
    assert main([*arguments, *more]) == 2
    assert "set --overwrite" in capsys.readouterr().err
    assert main([*arguments, *more, "--overwrite", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["build_hash"] == printed["build_hash"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--memory-limit", "much", "must be a size such as 6GB, got 'much'"),
        ("--memory-limit", "1MB", "must be at least 100MB"),
        ("--threads", "0", "--threads must be"),
        ("--entities", "none*.csv", "must name at least one file, got none"),
        ("--drop", "all", "--drop must name kinds among"),
    ],
)
def test_a_wrong_setting_is_one_line_and_leaves_nothing(tmp_path, capsys, option, value, words):
    out = tmp_path / "store"
    assert main(["prepare", "store", str(source(tmp_path)), "-o", str(out), option, value]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph"]


def test_progress_has_a_rate_and_an_estimate():
    tick = Tick(phase="joining", done=50, total=200, unit="rows", seconds=2.0)
    assert prepare_store.progress_words(tick) == "50 rows, 25/s, 6 s left"
    tick = Tick(phase="joining", done=50, total=0, unit="rows", seconds=2.0)
    assert prepare_store.progress_words(tick) == "50 rows, 25/s"


def test_progress_on_a_store_is_one_line_for_each_phase(capsys):
    with prepare_store.progress_lines(), Progress().phase("capping", 10, "relations") as advance:
        advance(10)
    assert capsys.readouterr().err == ""  # too short to be shown
    with prepare_store.progress_lines():
        for done, seconds, ended in ((5, 2.0, False), (10, 4.0, True)):
            tick = {"phase": "capping", "total": 10, "unit": "relations", "seconds": seconds}
            progress._REPORT.get()(Tick(done=done, ended=ended, **tick))
    lines = "\r\x1b[Kcapping: 5 relations, 2/s, 2 s left\r\x1b[Kcapping: 10 relations, 2/s\n"
    assert capsys.readouterr().err == lines


@pytest.mark.parametrize(("command", "shown"), [("train", True), ("verify", False)])
def test_commands_that_may_take_long_show_it_on_a_terminal(monkeypatch, command, shown):
    monkeypatch.setattr(cli, "_called", [command])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with cli._progress([command]):
        assert (progress._REPORT.get() is not None) == shown
    with cli._progress([command, "--quiet"]):
        assert progress._REPORT.get() is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with cli._progress([command]):
        assert progress._REPORT.get() is None


def test_phases_print_lines_where_there_is_no_terminal(monkeypatch, capsys):
    ticks = [
        Tick(phase=phase, done=done, total=total, unit="rows", seconds=9.6, ended=False)
        for phase, done, total in (("reading", 1, 4), ("joining", 7, 0))
    ]
    for interval, lines in ((0.0, ["reading, 25 %", "joining, for 10 s"]), (30.0, [])):
        monkeypatch.setattr(prepare_store, "INTERVAL", interval)
        with prepare_store.shown_progress() as report:
            for tick in ticks:
                report(tick)
        expected = [f"reldp: (sensitive) {line}" for line in lines]
        assert capsys.readouterr().err.splitlines() == expected
