"""A budget enters a run once, before it starts, and keeps its limit whatever happens."""

import stat
from dataclasses import replace

import pytest

from reldp.accounting.search import SearchSize
from reldp.errors import ConfigError, LedgerError, PlanError, RunError
from reldp.runs import budget as budget_module
from reldp.runs.budget import NAME, Budget, run_token
from reldp.runs.run_folder import RunFolder
from tests.runs.test_budget_cost import OTHER, PLAN


@pytest.fixture
def folder(tmp_path):
    Budget.create(tmp_path).close()
    return tmp_path


def tokens(*names):
    return [name.encode().hex().ljust(32, "0") for name in names]


def test_a_run_is_entered_once_for_each_token(folder):
    one, two = tokens("a", "b")
    with Budget.open(folder) as budget:
        assert budget.enter_run(one, PLAN)
        assert not budget.enter_run(one, PLAN)
        assert budget.epsilon(1e-6) == PLAN.epsilon()
        assert budget.enter_run(two, OTHER)
    with Budget.open(folder) as budget:
        assert [charge.plan for charge in budget.charges] == [PLAN, OTHER]
        with pytest.raises(ConfigError, match="the plan that its budget knows"):
            budget.enter_run(one, OTHER)
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600


def test_a_limit_refuses_what_would_exceed_it_and_enters_nothing(folder):
    both = replace(PLAN, num_steps=120).epsilon()
    with Budget.open(folder) as budget:
        budget.set_limit(both * 1.001, 1e-6)
        for token in tokens("a", "b"):
            budget.enter_run(token, PLAN)
        before = (folder / NAME).read_bytes()
        with pytest.raises(PlanError, match="`budget` must stay within epsilon"):
            budget.enter_run(tokens("c")[0], replace(PLAN, num_steps=1))
        with pytest.raises(PlanError, match="`budget` must stay within epsilon"):
            budget.enter_search(PLAN, SearchSize(mean=3.0))
        assert not budget.enter_run(tokens("a")[0], PLAN)  # it is in there
        with pytest.raises(PlanError, match="`limit` must be at least"):
            budget.set_limit(both / 2, 1e-6)
        with pytest.raises(PlanError, match="`limit` must be at least"):
            budget.set_limit(both * 1.001, 1e-6, adaptive=True)  # a sum is more
        assert (folder / NAME).read_bytes() == before
        budget.set_limit(50.0, 1e-6, adaptive=True)
        assert budget.is_adaptive
        assert budget.epsilon(1e-6) > both


def test_units_and_claims_do_not_mix(folder):
    relation = replace(PLAN, unit="relation", max_degree=1)
    claimed = replace(PLAN, clipping="frequency")
    with Budget.open(folder) as budget:
        with pytest.raises(ConfigError, match="`unit` must be entity in this budget, got relation"):
            budget.enter_run(tokens("a")[0], relation)
        budget.set_limit(99.0, 1e-6)
        with pytest.raises(PlanError, match="plans with a proof, got one whose status is claimed"):
            budget.enter_run(tokens("a")[0], claimed)
        with pytest.raises(PlanError, match="plans with a proof, got one whose status is none"):
            budget.enter_run(tokens("a")[0], replace(PLAN, noise_multiplier=0.0))


def test_two_processes_and_two_budgets_are_refused(folder):
    with Budget.open(folder), pytest.raises(RunError, match="one writer"):
        Budget.open(folder)
    with pytest.raises(ConfigError, match="must be new"):
        Budget.create(folder)
    with pytest.raises(ConfigError, match="reldp budget init"):
        Budget.open(folder / "nowhere")


def test_a_changed_line_is_seen_and_a_half_line_cut_off(folder):
    with Budget.open(folder) as budget:
        budget.set_limit(9.0, 1e-6)
        budget.enter_run(tokens("a")[0], PLAN)
    place = folder / NAME
    whole = place.read_bytes()
    for damaged in (
        whole.replace(b'"epsilon":9.0', b'"epsilon":99.0'),
        b"".join(whole.splitlines(keepends=True)[1:]),
        b"\xff\n" + whole,
        whole + b"[]\n",
        b"",
    ):
        place.write_bytes(damaged)
        with pytest.raises(LedgerError, match=rf"{NAME}|ledger"):
            Budget.open(folder)
    place.write_bytes(whole + b'{"kind":"run"')
    with Budget.open(folder) as budget:
        assert len(budget.charges) == 1
    assert place.read_bytes() == whole


def test_an_entry_that_is_impossible_is_named(folder):
    entry = {"kind": "run", "token": "x", "purpose": "train", "plan": {}, "date": "2026-01-01"}
    with Budget.open(folder) as budget:
        budget._append(entry)
    with pytest.raises(LedgerError, match=rf"{NAME} line 2 must be an entry of a budget"):
        Budget.open(folder)


def test_a_full_disk_enters_nothing(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with Budget.open(folder) as budget:
        before = (folder / NAME).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(budget_module.os, "fsync", full)
            with pytest.raises(RunError, match="the disk is full"):
                budget.enter_run(tokens("a")[0], PLAN)
        assert (folder / NAME).read_bytes() == before
        assert budget.charges == []
        budget.enter_run(tokens("a")[0], PLAN)
    with Budget.open(folder) as budget:
        assert len(budget.charges) == 1


def test_a_token_stays_with_its_folder(tmp_path):
    run = RunFolder(tmp_path / "run")
    token = run_token(run)
    assert run_token(run) == token
    assert run_token(RunFolder(tmp_path / "other")) != token
    assert stat.S_IMODE((run.path / "budget.json").stat().st_mode) == 0o600
    for damaged in (b"", b"{}", b'{"token": 1}', b"\xff", b"[" * 99999):
        (run.path / "budget.json").write_bytes(damaged)
        with pytest.raises(LedgerError, match=r"budget\.json must hold the token"):
            run_token(run)
