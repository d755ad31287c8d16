"""The budget knows the newest state of a run: copies that go on, and older states that are put back, are refused."""

import os
import shutil

import pytest
import torch

from reldp.errors import ResumeError, RunError
from reldp.reporting import verify
from reldp.runs import budget_file, ending, noted_states
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import enter
from reldp.runs.ending import abandon
from reldp.runs.ledger import Ledger, read_ledger
from reldp.runs.noted_states import RunNotes, note_end, note_session
from reldp.runs.run_folder import RunFolder, plan_bytes
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback
from tests.runs.budgets import entries
from tests.runs.test_budget_cost import PLAN
from tests.training.interrupted import stopped
from tests.training.small import small_parts

torch.set_num_threads(1)
REFUSED = pytest.raises(ResumeError, match="copied before, or put back")
HASH = "ab" * 32


def started(place, use, num_steps=PLAN.num_steps):
    """A run that has started: its ledger, open, and its notes."""
    run = RunFolder(place)
    enter(run, PLAN, use)
    run.plan.write_bytes(plan_bytes(PLAN))
    ledger = Ledger.create(run.ledger, {"num_steps": num_steps})
    return run, ledger, note_session(run, ledger, use)


def resumed(place, use):
    run = RunFolder(place)
    ledger = Ledger.open(run.ledger)
    return run, ledger, note_session(run, ledger, use)


def step(ledger, to):
    ledger.reserve(ledger.next_uncounted_step, to)
    ledger.checkpoint(to, HASH)


def copies(use):
    return [entry for entry in entries(use) if entry["purpose"] == "copy of a run"]


def test_a_checkpoint_is_noted_and_an_older_state_refused(use, tmp_path):
    run, ledger, notes = started(tmp_path / "run", use)
    ledger.reserve(0, 4)
    older = shutil.copytree(run.path, tmp_path / "older")
    step(ledger, 8)
    notes.note_checkpoint()
    assert entries(use, "session")[-1]["head"] == ledger.head
    ledger.close()
    with REFUSED:
        resumed(older, use)
    resumed(run.path, use)[1].close()


def test_a_stop_is_noted_however_few_steps_are_new(use, tmp_path):
    run, ledger, notes = started(tmp_path / "run", use, num_steps=10_000)
    older = shutil.copytree(run.path, tmp_path / "older")
    ledger.reserve(0, 1)
    notes.note_checkpoint()
    assert len(entries(use, "session")) == 1  # less than a hundredth
    notes.note_stop()
    notes.note_stop()
    assert len(entries(use, "session")) == 2
    ledger.close()
    with REFUSED:
        resumed(older, use)


def test_a_ledger_that_is_ahead_of_its_note_goes_on(use, tmp_path):
    """A process that is killed between the two leaves one."""
    run, ledger, _ = started(tmp_path / "run", use)
    step(ledger, 4)
    ledger.close()
    resumed(run.path, use)[1].close()


def test_a_run_with_many_checkpoints_has_a_hundred_notes_at_most(use, tmp_path):
    _, ledger, notes = started(tmp_path / "run", use, num_steps=400)
    opened = []
    for number in range(1, 401):
        step(ledger, number)
        before = len(opened)
        notes.note_checkpoint()
        opened += [number] * (notes._counted == number)
        assert len(opened) - before <= 1
    assert opened == list(range(4, 401, 4))
    assert len(entries(use, "session")) == 101
    ledger.close()


@pytest.mark.parametrize("trouble", ["full disk", "gone", "busy", "damage"])
def test_a_note_on_the_way_is_not_worth_the_run(use, tmp_path, monkeypatch, trouble):
    run, ledger, notes = started(tmp_path / "run", use)
    place = use.folder / "budget.jsonl"
    before = place.read_bytes()
    step(ledger, 4)
    other = None
    with monkeypatch.context() as patch:
        patch.setattr(noted_states, "_PATIENCE", 0.1)
        if trouble == "full disk":
            patch.setattr(budget_file.os, "fsync", full)
        elif trouble == "busy":
            other = Budget.open(use.folder)
        elif trouble == "gone":
            place.rename(tmp_path / "away")
        else:
            place.write_bytes(b"x" + before)
        notes.note_checkpoint()
        notes.note_stop()
    if other is not None:
        other.close()
    place.write_bytes(before)  # nothing was noted, or half of it
    notes.note_checkpoint()
    assert entries(use, "session")[-1]["head"] == ledger.head
    ledger.close()
    resumed(run.path, use)[1].close()


def full(descriptor):
    raise OSError(28, "No space left on device")


def test_of_two_copies_that_work_at_once_the_second_stops_and_is_entered_once(use, tmp_path):
    run, ledger, notes = started(tmp_path / "run", use)
    step(ledger, 4)
    shutil.copytree(run.path, tmp_path / "copy")
    copied, other, its_notes = resumed(tmp_path / "copy", use)
    other.resume(4)
    step(ledger, 8)
    notes.note_checkpoint()
    step(other, 8)
    for _ in range(2):
        with REFUSED:
            its_notes.note_checkpoint()
    its_notes.note_stop()  # says nothing: what stopped the run is said
    assert len(copies(use)) == 1
    with REFUSED:
        note_end(copied, other)
    other.abandon()
    note_end(copied, other, is_released=False)
    assert len(copies(use)) == 1
    assert copies(use)[0]["plan"] == PLAN.to_dict()
    ledger.close()
    other.close()


def test_an_older_state_that_is_abandoned_has_spent_nothing_of_its_own(use, tmp_path):
    run, ledger, notes = started(tmp_path / "run", use)
    step(ledger, 4)
    notes.note_checkpoint()
    older = shutil.copytree(run.path, tmp_path / "older")
    step(ledger, 8)
    between = shutil.copytree(run.path, tmp_path / "between")
    ledger.reserve(8, 9)
    notes.note_stop()
    ledger.close()
    abandon(older)
    assert copies(use) == []
    for _ in range(2):
        abandon(between)  # nobody knows whether it went on by itself
    assert len(copies(use)) == 1
    resumed(run.path, use)[1].close()


def test_an_abandoned_copy_that_a_kill_left_unnoted_is_entered_by_the_next_call(
    use, tmp_path, monkeypatch
):
    run, ledger, notes = started(tmp_path / "run", use)
    ledger.reserve(0, 4)
    copy = shutil.copytree(run.path, tmp_path / "copy")
    ledger.reserve(4, 8)
    notes.note_stop()
    ledger.close()
    with monkeypatch.context() as patch:
        patch.setattr(ending, "note_end", lambda *given, **settings: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            abandon(copy)
    assert copies(use) == []
    abandon(copy)
    assert len(copies(use)) == 1


def test_the_release_of_a_copy_is_that_of_the_run(use, tmp_path):
    from reldp.runs.budget_cost import Charge

    _, ledger, notes = started(tmp_path / "run", use)
    with Budget.open(use.folder) as budget:
        budget._file.entries[1] = {**budget._file.entries[1], "release": "5" * 32}
        noted_states._enter_copy(budget, budget.entries[1]["token"], ledger.head)
        assert len(budget.charges) == 1  # the head was noted
        ledger.reserve(0, 1)
        noted_states._enter_copy(budget, budget.entries[1]["token"], ledger.head)
        assert budget.charges[-1] == Charge(plan=PLAN, release="5" * 32)
    assert isinstance(notes, RunNotes)
    ledger.close()


class CopyAt(TrainingCallback):
    """Copies the folder of a run while it goes on."""

    def __init__(self, folder, target, step):
        self.folder, self.target, self.step = folder, target, step

    def on_step_end(self, progress, requests):
        if progress.step == self.step:
            shutil.copytree(self.folder, self.target)


def trained(folder, home, **settings):
    return Trainer(*small_parts(), budget=home, checkpoint_every=4, **settings).fit(folder)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    Budget.create(tmp_path / "home").close()
    return tmp_path / "home"


def purposes(home):
    with Budget.open(home, read_only=True) as budget:
        return [e["purpose"] for e in budget.entries if e["kind"] == "run"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_run_goes_on_from_its_newest_state_and_from_no_older_one(
    home, tmp_path, monkeypatch, is_killed
):
    """Its steps after the older state would be taken again, with other noise, and be counted once."""
    run = tmp_path / "run"
    copy = CopyAt(run, tmp_path / "older", 2)
    with monkeypatch.context() as patch:
        if is_killed:
            patch.setattr(RunNotes, "note_stop", lambda self: None)
        stopped(monkeypatch, run, *small_parts(), at=6, budget=home, callbacks=[copy])
    counted = read_ledger(run / "ledger.jsonl").num_counted
    os.rename(run, tmp_path / "newer")
    shutil.copytree(tmp_path / "older", run)
    for threads in (1, 2):
        with REFUSED:
            trained(run, home, threads=threads)
    assert counted > read_ledger(run / "ledger.jsonl").num_counted
    assert purposes(home) == ["train"]
    shutil.rmtree(run)
    os.rename(tmp_path / "newer", run)
    trained(run, home, threads=1)
    verify(run)
    abandon(tmp_path / "older")
    assert purposes(home) == ["train", "copy of a run"]


def test_what_was_counted_since_the_last_checkpoint_is_noted_when_a_run_stops(
    home, tmp_path, monkeypatch
):
    run = tmp_path / "run"

    class CopyCheckpoint(TrainingCallback):
        def on_checkpoint(self, progress):
            shutil.copytree(run, tmp_path / "older")

    stopped(monkeypatch, run, *small_parts(), at=6, budget=home, callbacks=[CopyCheckpoint()])
    counted = [read_ledger(p / "ledger.jsonl").num_counted for p in (tmp_path / "older", run)]
    assert counted == [4, 8]
    for threads in (1, 2):
        with REFUSED:
            trained(tmp_path / "older", home, threads=threads)
    abandon(tmp_path / "older")
    assert purposes(home) == ["train"]  # it has no steps of its own
    trained(run, home, threads=1)
    verify(run)


def test_notes_do_not_change_what_a_run_computes(home, tmp_path, monkeypatch):
    """A run whose budget is open elsewhere on the way ends as if nothing had happened."""

    class Hold(TrainingCallback):
        def on_step_begin(self, progress):
            if progress.step == 2:
                self.held = Budget.open(home)
            if progress.step == 10:
                self.held.close()

    monkeypatch.setattr(noted_states, "_PATIENCE", 0.05)
    trained(tmp_path / "run", home, callbacks=[Hold()])
    verify(tmp_path / "run")
    assert purposes(home) == ["train"]


def test_a_disk_that_is_full_at_the_last_note_does_not_hide_what_stopped_the_run(
    home, tmp_path, monkeypatch
):
    opened = Budget.open

    def refused(folder, **settings):
        if "patience" in settings:
            raise RunError("budget.jsonl could not be written: the disk is full.")
        return opened(folder, **settings)

    monkeypatch.setattr(Budget, "open", refused)
    stopped(monkeypatch, tmp_path / "run", *small_parts(), at=6, budget=home)
    monkeypatch.undo()
    trained(tmp_path / "run", home)
    verify(tmp_path / "run")


def ended(place, use):
    """A run before its end."""
    run, ledger, notes = started(place, use)
    step(ledger, 8)
    return run, ledger, notes


@pytest.mark.parametrize("trouble", ["moved", "other data", "pipe"])
def test_a_run_does_not_end_without_its_budget(use, tmp_path, trouble):
    run, ledger, _ = ended(tmp_path / "run", use)
    away = tmp_path / "away"
    (use.folder).rename(away)
    if trouble == "other data":
        Budget.open(away, read_only=True).close()
        Budget.create(use.folder).close()
        note_end(run, ledger, is_required=True)  # its own budget, and not the one in its place
        with Budget.open(away, read_only=True) as budget:
            assert budget.entries[-1]["head"] == ledger.head
        ledger.close()
        return
    if trouble == "pipe":
        use.folder.mkdir()
        os.mkfifo(use.folder / "budget.jsonl")
    with pytest.raises(RunError, match="budget of the run must be there when the run ends"):
        note_end(run, ledger, is_required=True)
    note_end(run, ledger)  # what needs no budget goes on
    Budget.open(away, read_only=True).close()  # its place is known now
    note_end(run, ledger, is_required=True)
    with Budget.open(away, read_only=True) as budget:
        assert budget.entries[-1]["head"] == ledger.head
    ledger.close()


def test_a_run_ends_whose_budget_was_declared_lost(use, tmp_path):
    run, ledger, _ = ended(tmp_path / "run", use)
    with Budget.open(use.folder, read_only=True) as budget:
        lost = budget.id
    (use.folder / "budget.jsonl").unlink()
    Budget.create(use.folder, lost=[lost]).close()
    note_end(run, ledger, is_required=True)
    ledger.close()
