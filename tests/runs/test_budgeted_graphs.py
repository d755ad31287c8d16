"""A graph folder that was copied without its budget is refused where the budget is known."""

import json
import os
import shutil
from pathlib import Path

import pytest

from reldp.auditing.run_audit import audit_canaries
from reldp.cli.main import main
from reldp.errors import ConfigError, LedgerError
from reldp.graph import EntityGraph
from reldp.graph.graph_names import GraphNames, graph_names
from reldp.runs.budget import Budget
from reldp.runs.budget_place import share_budget
from reldp.runs.budgeted_graphs import FILE_NAME, note_graph, note_lost, refuse_copied_graph
from reldp.runs.run_folder import RunFolder
from tests.cli.test_budget import FLAGS, train
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


def test_a_budget_is_known_wherever_it_is_and_lost_only_by_declaration(tmp_path):
    one, other = GraphNames("a" * 64), GraphNames("b" * 64)
    home, moved = tmp_path / "home", tmp_path / "moved"
    with Budget.create(home) as budget:
        budget.set_limit(1.0, 1e-6)
        name = budget.id
    refuse_copied_graph(one)
    note_graph(name, one)
    note_graph(name, one)
    refuse_copied_graph(other)
    with pytest.raises(ConfigError, match="must be used with its budget"):
        refuse_copied_graph(one)
    with pytest.raises(ConfigError, match=r"got another one.* budget share COPY --with"):
        refuse_copied_graph(one, "0" * 32)
    refuse_copied_graph(one, name)
    # A budget that is not where it was: refused, with its last place and what to do.
    home.rename(moved)
    said = rf"not where it was\. It was last in '{home}'.*--lost-budget {name}$"
    for used in (None, "0" * 32):
        with pytest.raises(ConfigError, match=said):
            refuse_copied_graph(one, used)
    # Another budget in the old folder is not the one.
    with pytest.raises(ConfigError, match=rf"whose budget.jsonl is gone.*--lost-budget {name}$"):
        Budget.create(home)
    home.mkdir()
    (home / "budget.jsonl").write_bytes(b'{"id":"1"}')
    with pytest.raises(ConfigError, match=said):
        refuse_copied_graph(one)
    # Opening it makes its new place known.
    Budget.open(moved, read_only=True).close()
    with pytest.raises(ConfigError, match=f"has one in '{moved}'"):
        refuse_copied_graph(one)
    # The budget that takes its place is accepted, also where this machine did not make it.
    (moved / "budget.jsonl").unlink()
    refuse_copied_graph(one, "0" * 32, lost=[name])
    refuse_copied_graph(other, "0" * 32)
    note_lost([name], "0" * 32)
    refuse_copied_graph(one, "0" * 32)
    with pytest.raises(ConfigError, match="must not be one that was declared lost"):
        refuse_copied_graph(one, name)
    place = Path(os.environ["RELDP_STATE_DIR"]) / FILE_NAME
    assert place.stat().st_mode & 0o777 == 0o600
    assert b"a" * 64 not in place.read_bytes()
    for damage in (b"[]", b'{"format": 1, "graphs": {"x": 1}}', b"{"):
        place.write_bytes(damage)
        with pytest.raises(LedgerError, match=f"{FILE_NAME} in the state folder must be whole"):
            refuse_copied_graph(one)


def test_a_copy_is_refused_after_the_graph_was_renamed(tmp_path, capsys):
    graph, copy, renamed = tmp_path / "graph", tmp_path / "copy", tmp_path / "renamed"
    small_graph().write(graph)
    shutil.copytree(graph, copy)
    assert main(["budget", "init", str(graph), "--limit", "90", "--delta", "1e-4"]) == 0
    assert train(graph, tmp_path / "one") == 0
    graph.rename(renamed)
    capsys.readouterr()
    for words, advice in (
        (
            ["train", str(copy), "-o", str(tmp_path / "two"), *FLAGS],
            "name its new folder with --budget, or",
        ),
        (["budget", "init", str(copy)], "Declare the graph: reldp budget share"),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert f"It was last in '{graph}'" in said
        assert f"If it was moved: {advice}" in said
    assert not (tmp_path / "two" / "ledger.jsonl").exists()
    assert not (copy / "budget.jsonl").exists()
    name = said.split()[-1]
    # It is not lost: any command shows where it is.
    assert main(["budget", "show", str(renamed)]) == 0
    assert main(["budget", "init", str(copy), "--lost-budget", name]) == 2
    assert f"the same graph has one in '{renamed}'" in capsys.readouterr().err
    # It is gone for good: a new one says so, and takes its runs.
    (renamed / "budget.jsonl").rename(tmp_path / "kept")
    assert main(["budget", "init", str(copy), "--lost-budget", "0" * 32]) == 2
    assert main(["budget", "init", str(copy), "--lost-budget", name]) == 0
    assert train(copy, tmp_path / "two") == 0
    assert main(["budget", "enter", str(copy), str(tmp_path / "one")]) == 0
    capsys.readouterr()
    assert main(["budget", "show", str(copy), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["lost"] == [{"id": name, "folder": str(renamed), "entries": 6}]
    assert len(shown["entries"]) == 2
    assert main(["budget", "show", str(copy)]) == 0
    words = f"({name}, last in {renamed}, with 6 lines) was declared lost on"
    assert "".join(words.split()) in "".join(capsys.readouterr().out.split())
    # Found again, it is refused: two limits are none.
    (tmp_path / "kept").rename(renamed / "budget.jsonl")
    assert train(renamed, tmp_path / "three") == 2
    assert "must not be one that was declared lost" in capsys.readouterr().err


def test_the_same_relations_in_another_form_are_refused(tmp_path):
    first, turned, less = (
        EntityGraph.from_lists(ids, pairs, text=["a", "b", "c"])
        for ids, pairs in (
            ([1, 2, 3], [(1, 2), (2, 3)]),
            (["1", "2", "3"], [("3", "2"), ("2", "1")]),
            ([1, 2, 3], [(1, 2)]),
        )
    )
    with Budget.create(tmp_path) as budget:
        budget.set_limit(1.0, 1e-6)
        note_graph(budget.id, graph_names(first))
    with pytest.raises(ConfigError, match=f"has one in '{tmp_path}'"):
        refuse_copied_graph(graph_names(turned))
    refuse_copied_graph(graph_names(turned), budget.id)
    refuse_copied_graph(graph_names(less))  # the control


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
