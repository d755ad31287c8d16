"""A graph folder that was copied without its budget is refused where the budget is known."""

import os
import shutil
from pathlib import Path

import pytest

from reldp.auditing.run_audit import audit_canaries
from reldp.cli.main import main
from reldp.errors import ConfigError, LedgerError
from reldp.graph import EntityGraph
from reldp.runs.budget import Budget
from reldp.runs.budget_place import share_budget
from reldp.runs.budgeted_graphs import FILE_NAME, note_graph, refuse_copied_graph
from reldp.runs.run_folder import RunFolder
from tests.cli.test_budget import train
from tests.training.small import small_graph


def test_a_copy_without_the_budget_is_refused_until_it_is_declared(tmp_path, capsys):
    graph, copy, bare = tmp_path / "graph", tmp_path / "copy", tmp_path / "bare"
    small_graph().write(graph)
    shutil.copytree(graph, copy)
    assert main(["budget", "init", str(graph)]) == 0
    assert train(graph, tmp_path / "one") == 0
    capsys.readouterr()
    # Another degree bound, and another format: the same graph all the same.
    EntityGraph.read(copy).write(bare)
    for place in (copy, bare):
        assert train(place, tmp_path / "two", "--set", "data.max_degree=3") == 2
        said = capsys.readouterr().err
        assert f"the same graph has one in '{graph}'" in said
        assert f"reldp budget share GRAPH --with {graph}" in said
        assert not (tmp_path / "two" / "ledger.jsonl").exists()
    assert train(copy, tmp_path / "two", "--dry-run") == 2
    assert main(["budget", "share", str(copy), "--with", str(graph)]) == 0
    assert train(copy, tmp_path / "two") == 0
    with Budget.open(graph) as budget:
        assert len(budget.charges) == 2
    # Another budget, in the folder of a copy or a named one, does not take its place.
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert main(["budget", "init", str(fresh)]) == 0
    capsys.readouterr()
    assert train(bare, tmp_path / "three", "--budget", str(fresh)) == 2
    assert f"the same graph has one in '{graph}'" in capsys.readouterr().err
    assert train(bare, tmp_path / "three", "--budget", str(fresh), "--dry-run") == 2
    assert main(["budget", "init", str(bare)]) == 2
    assert f"reldp budget share GRAPH --with {graph}" in capsys.readouterr().err
    assert not (bare / "budget.jsonl").exists()
    with pytest.raises(ConfigError, match="got another one"):
        audit_canaries(RunFolder(tmp_path / "one"), with_budget(bare, fresh))
    with Budget.open(fresh) as budget:
        assert not budget.charges
    # A part of the same graph is no other graph.
    holdout = ("--holdout", "0.4")
    assert train(bare, tmp_path / "three", *holdout) == 2
    assert f"the same graph has one in '{graph}'" in capsys.readouterr().err
    # The control: another graph is free.
    small_graph(seed=99).write(tmp_path / "other")
    assert train(tmp_path / "other", tmp_path / "three") == 0


def with_budget(graph, budget):
    """Return a graph whose folder shares a budget."""
    share_budget(graph, budget)
    return EntityGraph.read(graph)


def test_only_a_budget_that_is_there_refuses(tmp_path):
    with Budget.create(tmp_path) as budget:
        budget.set_limit(1.0, 1e-6)
        name = budget.id
    refuse_copied_graph("a" * 64)
    note_graph(name, "a" * 64)
    note_graph(name, "a" * 64)
    refuse_copied_graph("b" * 64)
    with pytest.raises(ConfigError, match="must be used with its budget"):
        refuse_copied_graph("a" * 64)
    with pytest.raises(ConfigError, match=r"got another one.* budget share COPY --with"):
        refuse_copied_graph("a" * 64, "0" * 32)
    refuse_copied_graph("a" * 64, name)
    (tmp_path / "budget.jsonl").unlink()
    refuse_copied_graph("a" * 64)
    place = Path(os.environ["RELDP_STATE_DIR"]) / FILE_NAME
    assert place.stat().st_mode & 0o777 == 0o600
    assert b"a" * 64 not in place.read_bytes()
    for damage in (b"[]", b'{"format": 1, "graphs": {"x": 1}}', b"{"):
        place.write_bytes(damage)
        with pytest.raises(LedgerError, match=f"{FILE_NAME} in the state folder must be whole"):
            refuse_copied_graph("a" * 64)


def test_a_copy_of_a_graph_that_was_trained_on_with_a_holdout_is_refused(tmp_path, capsys):
    graph, copy = tmp_path / "graph", tmp_path / "copy"
    small_graph().write(graph)
    shutil.copytree(graph, copy)
    assert main(["budget", "init", str(graph)]) == 0
    assert train(graph, tmp_path / "one", "--holdout", "0.4") == 0
    for settings in ((), ("--holdout", "0.4", "--set", "data.holdout_seed=1")):
        capsys.readouterr()
        assert train(copy, tmp_path / "two", *settings) == 2
        assert f"the same graph has one in '{graph}'" in capsys.readouterr().err


def test_every_command_knows_the_whole_graph_of_a_part(tmp_path, capsys):
    graph, copy = tmp_path / "graph", tmp_path / "copy"
    small_graph().write(graph)
    shutil.copytree(graph, copy)
    assert main(["budget", "init", str(graph)]) == 0
    assert train(graph, tmp_path / "one") == 0
    capsys.readouterr()
    assert train(copy, tmp_path / "two", "--holdout", "0.4", "--dry-run") == 2
    assert f"the same graph has one in '{graph}'" in capsys.readouterr().err
