"""Releases of sizes that are older than the budget of their graph are entered with it, and count once."""

import shutil
from types import SimpleNamespace

import pytest

from reldp.cli.main import main
from reldp.errors import ConfigError, PlanError
from reldp.graph.size_release import Release
from reldp.graph.size_store import remembered
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import release_of
from reldp.runs.budget_place import share_budget
from reldp.runs.new_budget import new_budget
from reldp.runs.past_releases import enter_past_releases, past_releases

RATES = {"coarse_rate": 10**6, "entity_rate": 2 * 10**7, "relation_rate": 2 * 10**7}
RELEASE = Release(
    entities=50_000, relations=90_000, unprotected=0, failure=1e-9, max_degree=5, **RATES
)


def released(folder, fingerprint):
    return remembered(fingerprint, [folder], Release.parsed, RELEASE.values)


def plan(bounds):
    return SimpleNamespace(sizes="private", num_entities=bounds[0], num_relations=bounds[1])


def test_a_new_budget_enters_them_and_a_run_that_uses_one_shares_it(tmp_path, capsys):
    for fingerprint in ("a" * 64, "b" * 64):
        released(tmp_path, fingerprint)
    with pytest.raises(PlanError, match="must cover the releases of private sizes"):
        new_budget(tmp_path, limit=0.08, delta=1e-6)
    with pytest.raises(ConfigError, match="`unit`"):
        new_budget(tmp_path, unit="village")
    assert not (tmp_path / "budget.jsonl").exists()
    assert main(["budget", "init", str(tmp_path), "--limit", "3", "--delta", "1e-6"]) == 0
    assert capsys.readouterr().out.count("private sizes") == 2
    bounds = RELEASE.bounds(0)[:2]
    with Budget.open(tmp_path) as budget:
        assert budget.epsilon(1e-6) == pytest.approx(0.084)
        enter_past_releases(budget, past_releases(tmp_path, "entity"))  # once
        names = [charge.release for charge in budget.charges]
        assert len(set(names)) == len(names) == 2
        used = [release_of(budget, plan(bounds), letter * 64) for letter in "ab"]
        assert set(used) == set(names)
        # Another graph, and another release of the same one, are further releases.
        assert release_of(budget, plan(bounds), "c" * 64) not in names
        assert release_of(budget, plan((1, 2)), "a" * 64) not in names
    # A graph that is declared to share the budget brings its releases; a copy brings none.
    for name in ("copy", "other"):
        (tmp_path / name).mkdir()
    shutil.copy(tmp_path / "sizes.private.json", tmp_path / "copy")
    released(tmp_path / "other", "c" * 64)
    for name, count in (("copy", 2), ("other", 3)):
        share_budget(tmp_path / name, tmp_path)
        with Budget.open(tmp_path) as budget:
            assert len(budget.charges) == count
