"""A budget is made with its limit, and not for a copy of a graph that has one."""

import shutil

import pyarrow.csv
import pytest

from reldp.errors import ConfigError, PlanError
from reldp.graph import EntityGraph
from reldp.graph.graph_names import graph_names
from reldp.runs import budget_file
from reldp.runs import new_budget as new_budget_module
from reldp.runs.budget import NAME, Budget
from reldp.runs.budget_place import budget_of_graph, share_budget
from reldp.runs.new_budget import new_budget
from tests.training.small import small_graph
from tests.training.test_fit_release import store

IDS, TEXTS = [1, 2, 3, 4], ["a", "b", "c", "d"]
PAIRS = [(1, 2), (2, 3), (3, 4)]


def test_a_copy_of_a_graph_gets_no_second_budget(tmp_path):
    first, copy = tmp_path / "first", tmp_path / "copy"
    for place in (first, copy):
        small_graph().write(place)
    with new_budget(first, limit=2.0, delta=1e-6, adaptive=True) as budget:
        assert budget.limit is not None
        assert budget.is_adaptive
    with pytest.raises(ConfigError, match=r"got none in its folder.* has one in .*first"):
        new_budget(copy)
    assert not (copy / "budget.jsonl").exists()
    # Another graph, and a folder without one, are free.
    (tmp_path / "empty").mkdir()
    small_graph(seed=5).write(tmp_path / "other")
    for place in (tmp_path / "empty", tmp_path / "other"):
        new_budget(place).close()
        assert Budget.open(place).limit is None


def text_graph(ids=IDS, pairs=PAIRS, texts=TEXTS, **columns):
    return EntityGraph.from_lists(ids, pairs, text=texts, **columns)


def refuse(folder, **settings):
    """Start a run on a graph, as far as its budget."""
    graph = EntityGraph.read(folder, **settings)
    return budget_of_graph(graph.folder, None, graph_names(graph))


def write_csv(folder, graph):
    """Write a graph as another program would, with its rows in the opposite order."""
    folder.mkdir()
    for name, table in zip(("entities", "relations"), graph.to_arrow(), strict=True):
        turned = table.take(list(range(table.num_rows))[::-1])
        pyarrow.csv.write_csv(turned, folder / f"{name}.csv")


def test_a_copy_from_before_the_budget_is_known_in_every_form_and_the_first_use_is_too_late(
    tmp_path,
):
    graph, table, typed = tmp_path / "graph", tmp_path / "table", tmp_path / "typed"
    text_graph().write(graph)
    write_csv(table, text_graph())
    text_graph(pairs=[*PAIRS, (2, 1)], types=["x", "y", "x", "x"]).write(typed)
    text_graph(texts=[*TEXTS[:3], "e"]).write(tmp_path / "other")
    assert refuse(table) is None
    new_budget(graph).close()
    for copy in (table, typed):
        with pytest.raises(ConfigError, match=f"has one in '{graph}'"):
            refuse(copy)
        with pytest.raises(ConfigError, match=f"has one in '{graph}'"):
            new_budget(copy)
    assert refuse(graph) == graph
    graph.rename(tmp_path / "renamed")
    with pytest.raises(ConfigError, match=f"last in '{graph}'"):
        refuse(table)
    assert refuse(tmp_path / "renamed") == tmp_path / "renamed"
    with pytest.raises(ConfigError, match=r"has one in '.*renamed'"):
        refuse(table)
    assert refuse(tmp_path / "other") is None  # the control


def test_a_graph_that_is_read_with_drops_is_known_too(tmp_path):
    for name in ("graph", "copy"):
        write_csv(tmp_path / name, text_graph())
        with open(tmp_path / name / "relations.csv", "a") as file:
            file.write("1,2\n3,3\n")
    new_budget(tmp_path / "graph").close()
    with pytest.raises(ConfigError, match=r"has one in '.*graph'"):
        refuse(tmp_path / "copy", drop=["duplicate_relations", "self_relations"])


def test_a_copy_from_before_its_graph_shared_a_budget_is_known(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    for name in ("graph", "copy", "other"):
        text_graph().write(tmp_path / name)
    new_budget(home).close()
    share_budget(tmp_path / "graph", home)
    with pytest.raises(ConfigError, match=f"has one in '{home}'"):
        refuse(tmp_path / "copy")
    share_budget(tmp_path / "copy", home)
    assert refuse(tmp_path / "copy") == home
    # A second budget is not shared: two limits are none.
    (tmp_path / "second").mkdir()
    new_budget(tmp_path / "second").close()
    with pytest.raises(
        ConfigError, match=f"got another one, and the same graph has one in '{home}'"
    ):
        share_budget(tmp_path / "other", tmp_path / "second")
    assert [place.name for place in (tmp_path / "other").glob("budget*")] == []


def test_a_budget_that_was_never_used_may_be_made_again(tmp_path):
    graph = tmp_path / "graph"
    text_graph().write(graph)
    new_budget(graph, unit="relation").close()
    (graph / NAME).unlink()
    with new_budget(graph) as budget:
        assert not budget.lost
    assert refuse(graph) == graph
    # With a limit, it is lost.
    (graph / NAME).unlink()
    new_budget(graph, limit=3.0, delta=1e-6).close()
    (graph / NAME).unlink()
    with pytest.raises(ConfigError, match="--lost-budget"):
        new_budget(graph)


def owned_graph(place):
    text_graph(owner=["p", "p", "q", "q"]).write(place)
    return place


def test_a_graph_with_owners_gets_a_budget_for_owners(tmp_path):
    with new_budget(owned_graph(tmp_path / "owned")) as budget:
        assert budget.unit == "owner"
    text_graph(texts=list("efgh")).write(tmp_path / "plain")
    with new_budget(tmp_path / "plain", unit="relation") as budget:
        assert budget.unit == "relation"
    other = text_graph(texts=list("stuv"), owner=["p", "p", "q", "q"])
    other.write(tmp_path / "other")
    for unit in ("entity", "relation"):
        with pytest.raises(ConfigError, match="`unit` must be owner for a graph with owners, got"):
            new_budget(tmp_path / "other", unit=unit)
    assert not (tmp_path / "other" / NAME).exists()


@pytest.mark.parametrize("step", ["note", "_put", "note_graph"])
def test_a_budget_appears_with_releases_and_limit_or_not_at_all(tmp_path, monkeypatch, step):
    """A stop at any moment: what was spent before would be forgotten, and the limit too."""
    graph = small_graph()
    graph.write(tmp_path / "graph")
    folder = tmp_path / "graph"
    capped = EntityGraph.read(folder).cap_degrees(2, seed=0)
    store(capped, folder)
    module = new_budget_module if step == "note_graph" else budget_file

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, step, stop)
        with pytest.raises(KeyboardInterrupt):
            new_budget(folder, limit=5.0, delta=1e-4)
    if step == "_put":
        assert not (folder / NAME).exists()
        new_budget(folder, limit=5.0, delta=1e-4).close()
    with Budget.open(folder) as budget:
        assert [entry["kind"] for entry in budget.entries] == ["budget", "sizes", "limit"]
        assert budget.limit["epsilon"] == 5.0
        assert budget.epsilon(1e-4) == budget.charges[0].epsilon > 0
    assert sorted(path.name for path in folder.glob(f".{NAME}*")) == []


def test_a_limit_out_of_range_leaves_no_budget(tmp_path):
    for limit, delta in ((-1.0, 1e-4), (5.0, 2.0), (float("inf"), 1e-4)):
        with pytest.raises(PlanError):
            new_budget(tmp_path, limit=limit, delta=delta)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["init", "share"])
def test_a_kill_before_the_graph_is_noted_lets_no_copy_through(tmp_path, monkeypatch, command):
    """Both write a file and note the graph: a process may end in between."""
    graph, home = tmp_path / "graph", tmp_path / "home"
    text_graph().write(graph)
    shutil.copytree(graph, tmp_path / "copy")
    home.mkdir()
    new_budget(home, unit="entity").close()

    def run():
        share_budget(graph, home) if command == "share" else new_budget(graph).close()

    def killed(*given, **more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if command == "share":
            patch.setattr("reldp.runs.budget_place.write_durably", killed)
        else:
            patch.setattr(new_budget_module, "note_graph", killed)
        with pytest.raises(KeyboardInterrupt):
            run()
    if command == "share":
        run()
    else:
        with pytest.raises(ConfigError, match="The budget must be new"):
            run()
    assert refuse(graph) == (home if command == "share" else graph)
    with pytest.raises(ConfigError, match="the same graph has one in"):
        refuse(tmp_path / "copy")
