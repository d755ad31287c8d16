"""Warnings of reldp are lines; those of others are shown by Python, except while a run is trained."""

import warnings

import pytest

from reldp.cli.main import main
from reldp.cli.warning_lines import all_as_lines, reldp_as_lines
from reldp.runs.known_budgets import StateFolderWarning


@pytest.mark.parametrize(
    ("context", "category", "is_line"),
    [
        (reldp_as_lines, StateFolderWarning, True),
        (reldp_as_lines, RuntimeWarning, False),
        (all_as_lines, StateFolderWarning, True),
        (all_as_lines, RuntimeWarning, True),
    ],
)
def test_who_prints_a_warning(context, category, is_line, capsys):
    left = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show_left = lambda message, *_: left.append(str(message))
        with context():
            warnings.warn("the first\nof two", category, stacklevel=1)
        assert warnings.showwarning is show_left
    line = "reldp: warning: the first of two\n"
    assert capsys.readouterr().err == (line if is_line else "")
    assert left == ([] if is_line else ["the first\nof two"])


@pytest.mark.filterwarnings("always::reldp.runs.known_budgets.StateFolderWarning")
def test_a_state_folder_that_cannot_be_written_is_said_where_a_budget_is_made(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    (tmp_path / "graph").mkdir()
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "file" / "state"))
    assert main(["budget", "init", str(tmp_path / "graph")]) == 0
    said = capsys.readouterr().err
    assert said.startswith("reldp: warning: The state folder ")
    assert said.count("\n") == 1
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "file"))
    (tmp_path / "other").mkdir()
    assert main(["budget", "init", str(tmp_path / "other")]) == 2
    assert "RELDP_STATE_DIR must be a folder" in capsys.readouterr().err
