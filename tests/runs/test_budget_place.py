"""A graph has one budget: its own, or one that it was declared to share."""

import json

import pytest

from reldp.errors import ConfigError, ReldpError
from reldp.runs.budget import Budget
from reldp.runs.budget_place import find_budget, share_budget


def test_a_graph_finds_its_own_and_a_shared_budget(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    assert find_budget(one) is None
    assert find_budget(None) is None
    assert find_budget("wordnet-verbs") is None
    Budget.create(one).close()
    assert find_budget(one) == one
    share_budget(two, one)
    assert find_budget(two) == one
    (one / "budget.jsonl").rename(tmp_path / "budget.jsonl")
    with pytest.raises(ConfigError, match="which has none"):
        find_budget(two)


def test_two_budgets_and_damage_are_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        Budget.create(folder).close()
    with pytest.raises(ConfigError, match="no budget of its own"):
        share_budget(two, one)
    with pytest.raises(ConfigError, match="GRAPH must be a folder"):
        share_budget(tmp_path / "none", one)
    (two / "budget.jsonl").unlink()
    with pytest.raises(ConfigError, match="must be a folder with"):
        share_budget(one, two)
    too_long, nul = json.dumps({"folder": "9" * 400}), json.dumps({"folder": "\x00"})
    for damaged in ("[]", '{"folder": 3}', "{", "\\ud800", too_long, nul):
        (two / "budget-folder.json").write_text(damaged)
        with pytest.raises(ReldpError, match=r"budget-folder\.json"):
            find_budget(two)
