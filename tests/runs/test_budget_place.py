"""A graph has one budget: its own, or one that it was declared to share; none is forgotten."""

import json
import shutil

import pytest

from reldp.errors import ConfigError, LedgerError, ReldpError
from reldp.runs.budget import Budget
from reldp.runs.budget_place import budget_for, find_budget, share_budget
from tests.runs.test_budget import tokens
from tests.runs.test_budget_cost import PLAN


@pytest.fixture
def folders(tmp_path):
    made = [tmp_path / name for name in ("one", "two", "three")]
    for folder in made:
        folder.mkdir()
    return made


def test_a_graph_finds_its_own_and_a_shared_budget(folders, tmp_path):
    one, two, three = folders
    assert find_budget(one) is None
    assert find_budget(None) is None
    assert find_budget("wordnet-verbs") is None
    Budget.create(one).close()
    assert find_budget(one) == one
    share_budget(two, one)
    share_budget(two, one)  # it is declared
    share_budget(three, two)  # by way of another graph that shares it
    assert find_budget(two) == find_budget(three) == one
    (one / "budget.jsonl").rename(tmp_path / "budget.jsonl")
    with pytest.raises(ConfigError, match=r"which has none.*reldp budget show FOLDER"):
        find_budget(two)
    # Once it was opened in its new place, graphs that share it find it there.
    Budget.open(tmp_path, read_only=True).close()
    assert find_budget(two) == tmp_path
    (tmp_path / "budget.jsonl").write_text('{"id":"another"}')
    with pytest.raises(ConfigError, match="which has none"):
        find_budget(two)


def test_a_graph_keeps_the_budget_that_it_has(folders):
    one, two, three = folders
    Budget.create(one).close()
    Budget.create(three).close()
    share_budget(two, one)
    for graph in (two, three):
        with pytest.raises(ConfigError, match="would be forgotten"):
            share_budget(graph, one if graph is three else three)
    assert find_budget(two) == one


def test_a_copy_of_the_budget_is_no_declaration(folders):
    one, two, three = folders
    Budget.create(one).close()
    shutil.copy(one / "budget.jsonl", two)
    with pytest.raises(ConfigError, match=r"got a copy of this one, .*two/budget\.jsonl'\. Delete"):
        share_budget(two, one)
    (two / "budget.jsonl").unlink()
    share_budget(two, one)
    assert find_budget(two) == one
    (three / "budget.jsonl").hardlink_to(one / "budget.jsonl")
    share_budget(three, one)  # one file: entries go to both


def test_a_graph_that_shares_a_budget_gets_none_of_its_own(folders):
    one, two, _ = folders
    Budget.create(one).close()
    share_budget(two, one)
    with pytest.raises(ConfigError, match="must not share a budget already"):
        Budget.create(two)
    assert find_budget(two) == one


def test_a_named_budget_is_for_graphs_without_one(folders):
    one, two, three = folders
    assert budget_for(one, None) is None
    Budget.create(one).close()
    Budget.create(two).close()
    assert budget_for(None, one) == one
    assert budget_for(three, one) == one
    assert budget_for(one, None) == one
    assert budget_for(one, one) == one
    with pytest.raises(ConfigError, match="`budget` must be that of the graph"):
        budget_for(one, two)


def test_a_budget_that_was_made_again_or_is_gone_is_seen(folders):
    one, two, _ = folders
    with Budget.create(one) as budget:
        budget.enter_run(tokens("a")[0], PLAN)
    share_budget(two, one)
    (one / "budget.jsonl").rename(one / "budget.old")
    with pytest.raises(ConfigError, match="was there and is gone"):
        find_budget(one)
    (one / "budget.jsonl").symlink_to("nowhere")  # a broken link is no missing budget
    assert find_budget(one) == one
    (one / "budget.jsonl").unlink()
    other = one.parent / "other"
    Budget.create(other).close()
    shutil.copy(other / "budget.jsonl", one / "budget.jsonl")
    with pytest.raises(ConfigError, match="the budget that was declared"):
        find_budget(two)


def test_damage_is_one_clear_line(folders, tmp_path):
    one, two, _ = folders
    Budget.create(one).close()
    with pytest.raises(ConfigError, match="GRAPH must be a folder"):
        share_budget(tmp_path / "none", one)
    with pytest.raises(ConfigError, match="must be a folder with"):
        share_budget(one, two)
    (one / "budget-folder.json").write_text("{}")
    with pytest.raises(ConfigError, match="got both"):
        find_budget(one)
    name = "0" * 32
    too_long, nul = ({"folder": text, "id": name} for text in ("9" * 400, "\x00"))
    for damaged in ("[]", '{"folder": 3}', "{", "\\ud800", json.dumps(too_long), json.dumps(nul)):
        (two / "budget-folder.json").write_text(damaged)
        with pytest.raises(ReldpError, match=r"budget-folder\.json"):
            find_budget(two)
    (one / "budget-folder.json").unlink()
    (two / "budget-folder.json").unlink()
    (one / "budget.jsonl").write_text("damage\n")
    with pytest.raises(LedgerError, match=r"budget\.jsonl"):
        share_budget(two, one)


def test_graphs_that_shared_a_lost_budget_go_on_with_the_one_that_took_its_place(folders, tmp_path):
    one, two, three = folders
    with Budget.create(one) as budget:
        budget.set_limit(9.0, 1e-6)
        lost = budget.id
    share_budget(two, one)
    share_budget(three, one)
    (one / "budget.jsonl").unlink()
    # Made somewhere else, it is declared anew; another budget is still refused.
    new, other = tmp_path / "new", tmp_path / "other"
    Budget.create(new, lost=[lost]).close()
    Budget.create(other).close()
    with pytest.raises(
        ConfigError, match=r"If it was declared lost, declare .* budget share GRAPH"
    ):
        find_budget(two)
    with pytest.raises(ConfigError, match="which has none"):
        share_budget(two, other)
    share_budget(two, new)
    assert find_budget(two) == new
    # Made in the same folder, it is found there.
    Budget.create(one, lost=[lost]).close()
    assert find_budget(three) == one
