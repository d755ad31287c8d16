"""A run is entered once, also when it is killed before it starts; a copy of its folder or token is a run of its own."""

import shutil
import stat

import pytest

from reldp.errors import ConfigError, LedgerError, ReldpError, RunError
from reldp.reporting import verify
from reldp.reporting.bundle import publish
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import (
    BudgetUse,
    enter,
    enter_past_run,
    release_id,
    run_token,
)
from reldp.runs.new_budget import new_budget
from reldp.runs.noted_states import note_session
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from tests.runs.budgets import entries
from tests.runs.test_budget_cost import OTHER, PLAN
from tests.training.small import small_parts

ONE = "1" * 64


def started(run, use, *hashes):
    """Leave what a start leaves: a ledger, noted in the budget."""
    run.ledger.write_text("")
    with Budget.open(use.folder) as budget:
        budget.note_session(run_token(run, budget.id), hashes, hashes[-1])


def test_a_run_that_is_killed_before_it_starts_is_entered_once(use, tmp_path):
    run = RunFolder(tmp_path / "run")
    for _ in range(3):
        enter(run, PLAN, use)
    assert len(entries(use)) == 1
    started(run, use, ONE)
    enter(run, PLAN, use)  # resumed
    assert len(entries(use)) == 1
    with pytest.raises(ConfigError, match="the plan that its budget knows"):
        enter(run, OTHER, use)


def test_a_token_without_its_ledger_is_a_new_run(use, tmp_path):
    run, copy = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "copy")
    enter(run, PLAN, use)
    started(run, use, ONE)
    copy.path.mkdir()
    shutil.copy(run.path / "budget.json", copy.path / "budget.json")
    enter(copy, PLAN, use)
    assert len(entries(use)) == 2
    run.ledger.unlink()  # an interrupted run whose checkpoints may have been seen
    enter(run, PLAN, use)
    assert len(entries(use)) == 3


def test_a_run_stays_in_its_budget(use, tmp_path):
    run = RunFolder(tmp_path / "run")
    enter(run, PLAN, None)  # no budget, no entry
    assert not run.path.exists()
    enter(run, PLAN, use)
    with pytest.raises(ConfigError, match="must be resumed with its budget, got none"):
        enter(run, PLAN, None)
    Budget.create(tmp_path / "other").close()
    other = BudgetUse(folder=tmp_path / "other", fingerprint="f")
    with pytest.raises(ConfigError, match="must stay in the budget"):
        enter(run, PLAN, other)
    assert entries(other) == []


def test_a_run_of_a_search_is_not_entered_again(use, tmp_path):
    from reldp.accounting.search import SearchSize

    token = "5" * 32
    inside = BudgetUse(folder=use.folder, fingerprint="f", search=token)
    run = RunFolder(tmp_path / "run")
    with pytest.raises(ConfigError, match="A run of a search must have the plan"):
        enter(run, PLAN, inside)
    with Budget.open(use.folder) as budget:
        budget.enter_search(token, PLAN, SearchSize(mean=4.0))
    enter(run, PLAN, inside)
    assert note_session(run, None, inside) is None
    with pytest.raises(ConfigError, match="A run of a search must have the plan"):
        enter(run, OTHER, inside)
    assert entries(use) == entries(use, "session") == []


def test_past_runs_need_a_ledger_that_is_whole(use, tmp_path):
    with Budget.open(use.folder) as budget:
        with pytest.raises(RunError, match="must exist"):
            enter_past_run(tmp_path / "none", budget)
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "ledger.jsonl").write_text("damage\n")
        with pytest.raises(LedgerError):
            enter_past_run(tmp_path / "run", budget)
    assert entries(use) == []


def test_tokens_stay_with_their_folder_and_damage_is_seen(tmp_path):
    run, name = RunFolder(tmp_path / "run"), "0" * 32
    token = run_token(run, name)
    assert run_token(run, name) == token
    assert run_token(run, name, renew=True) != token
    assert run_token(RunFolder(tmp_path / "other"), name) != token
    assert stat.S_IMODE((run.path / "budget.json").stat().st_mode) == 0o600
    for damaged in (b"", b"{}", b'{"token": 1}', b"\xff", b"[" * 99999):
        (run.path / "budget.json").write_bytes(damaged)
        with pytest.raises(ReldpError, match=r"budget\.json"):
            run_token(run, name)


def test_the_name_of_a_release_depends_on_the_budget():
    one, other = "0" * 32, "1" * 32
    names = [
        release_id(*given)
        for given in ((one, "f", 1, 2), (one, "g", 1, 2), (other, "f", 1, 2), (one, "f", 1, 3))
    ]
    assert len(set(names)) == 4
    assert release_id(one, "f", 1, 2) == names[0]


def test_a_complete_run_and_its_bundles_are_one_run(tmp_path):
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    Trainer(*small_parts(num_steps=2)).fit(run)
    publish(run, bundle)
    copies = [bundle, shutil.copytree(bundle, tmp_path / "again")]
    for number, order in enumerate(([run, *copies], [*copies, run])):
        (home := tmp_path / f"budget-{number}").mkdir()
        (run / "budget.json").unlink(missing_ok=True)
        with Budget.create(home) as budget:
            assert [enter_past_run(folder, budget) for folder in order] == [True, False, False]
            assert len(budget.charges) == 1
        assert not (bundle / "budget.json").exists(), "what was published stays as it is"
        verify(bundle)


@pytest.mark.parametrize("names", [["run", "bundle", "run"], ["bundle", "run", "bundle"]])
def test_a_run_of_a_lost_budget_and_its_bundle_are_one_run(tmp_path, monkeypatch, names):
    """The run has its token still, by which it is entered; a bundle has none."""
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    home, other = tmp_path / "home", tmp_path / "other"
    for folder in (home, other):
        folder.mkdir()
    with new_budget(home) as budget:
        lost = budget.id
    Trainer(*small_parts(num_steps=2), budget=home).fit(tmp_path / "run")
    publish(tmp_path / "run", tmp_path / "bundle")
    shutil.rmtree(home)
    with new_budget(other, lost=[lost]) as budget:
        assert [enter_past_run(tmp_path / n, budget) for n in names] == [True, False, False]
        assert len(budget.charges) == 1


def test_a_bundle_of_a_run_that_was_entered_when_it_ran_is_not_entered_again(tmp_path):
    (home := tmp_path / "home").mkdir()
    Budget.create(home).close()
    Trainer(*small_parts(num_steps=2), budget=home).fit(tmp_path / "run")
    publish(tmp_path / "run", tmp_path / "bundle")
    with Budget.open(home) as budget:
        assert not enter_past_run(tmp_path / "bundle", budget)
        assert len(budget.charges) == 1


class StopAfter(TrainingCallback):
    def on_step_end(self, progress, requests):
        requests.stop = progress.step == 2


def test_an_interrupted_run_with_half_a_line_is_entered(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(TrainingStopped):
        Trainer(*small_parts(num_steps=4), callbacks=[StopAfter()]).fit(run)
    with (run / "ledger.jsonl").open("ab") as ledger:
        ledger.write(bytes(512))
    (home := tmp_path / "home").mkdir()
    with Budget.create(home) as budget:
        assert enter_past_run(run, budget)
        assert len(budget.charges) == 1


def test_copies_that_went_on_apart_are_different_runs(tmp_path):
    """Both continuations have released steps of their own, though their ledgers begin with the same lines."""
    run, parts = tmp_path / "run", small_parts(num_steps=4)
    with pytest.raises(TrainingStopped):
        Trainer(*parts, threads=1, callbacks=[StopAfter()]).fit(run)
    copy = shutil.copytree(run, tmp_path / "copy")
    for folder, threads in ((run, 1), (copy, 2)):
        Trainer(*small_parts(num_steps=4), threads=threads).fit(folder)
    lines = [(folder / "ledger.jsonl").read_text().splitlines() for folder in (run, copy)]
    assert lines[0][0] == lines[1][0]
    (home := tmp_path / "home").mkdir()
    with Budget.create(home) as budget:
        assert [enter_past_run(folder, budget) for folder in (run, copy)] == [True, True]
