"""Hand-made run folders with a valid hash chain: one line and exit code 2, never "a bug in reldp"."""

import json
import shutil

import pytest

from reldp.cli.main import main
from reldp.errors import LedgerError
from reldp.runs.ledger import _FIRST_LINK, _line
from reldp.runs.start_entry import as_ledger_error, check_start, read_start
from reldp.training import Trainer
from tests.training.small import small_graph, small_parts


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, and the graph that evaluations use."""
    home = tmp_path_factory.mktemp("made")
    Trainer(*small_parts()).fit(home / "run")
    small_graph().write(home / "graph")
    return home


def rewrite(folder, change, *, complete):
    """Change the first entry, and write the whole chain again."""
    entries = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    entries = [entry for entry in entries if complete or entry["kind"] != "complete"]
    change(entries[0])
    link, lines = _FIRST_LINK, b""
    for entry in entries:
        entry.pop("hash")
        line, link = _line(entry, link)
        lines += line
    (folder / "ledger.jsonl").write_bytes(lines)


def without(name):
    return lambda start: start.pop(name)


def with_value(part, **values):
    return lambda start: start[part].update(values)


CHANGES = {
    "no encoder": without("encoder"),
    "no machine": without("machine"),
    "no training": without("training"),
    "no graph": without("graph"),
    "machine is a list": lambda start: start.update(machine=[1]),
    "encoder is text": with_value("encoder", kind="text"),
    "encoder is odd": with_value("encoder", evil=1),
    "hidden is a number": with_value("encoder", hidden=5),
    "negative units": with_value("machine", microbatch_units=-5),
    "units are a word": with_value("machine", microbatch_units="x"),
    "odd precision": with_value("machine", precision="int8"),
    "odd device": with_value("machine", device=7),
}
# What a command makes from the first entry, and which changes it must refuse.
COMMANDS = {
    "finish": ["no encoder", "no training", "no graph", "encoder is odd", "hidden is a number"],
    "audit": [
        *("no encoder", "no machine", "no training", "no graph", "machine is a list"),
        *("negative units", "units are a word", "odd precision", "odd device"),
    ],
    "evaluate": ["no encoder", "no training", "encoder is text"],
}


@pytest.mark.parametrize(
    ("command", "change"), [(c, change) for c, names in COMMANDS.items() for change in names]
)
def test_a_start_that_no_run_writes_is_one_line(command, change, made, tmp_path, capsys):
    run = shutil.copytree(made / "run", tmp_path / "run")
    rewrite(run, CHANGES[change], complete=command != "finish")
    words = {
        "finish": ["finish", str(run), "--decided-by", "time"],
        "audit": ["audit", str(run), "--trials", "20"],
        "evaluate": ["evaluate", str(run), "--graph", str(made / "graph"), "--before"],
    }
    assert main(words[command]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "ledger.jsonl" in said or "microbatch" in said or "precision" in said


def test_a_good_start_passes(made, tmp_path):
    run = shutil.copytree(made / "run", tmp_path / "run")
    rewrite(run, lambda start: None, complete=True)
    check_start(read_start(run / "ledger.jsonl"))


def test_what_settings_raise_becomes_one_line_about_the_ledger():
    message = r"start\.encoder must be as a run writes it.*'dim'"
    with pytest.raises(LedgerError, match=message), as_ledger_error("encoder"):
        {}["dim"]
