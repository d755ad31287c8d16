"""An abandoned run has no key and no future, and its steps stay counted."""

import shutil

import pytest
import torch

from reldp.errors import LedgerError, ResumeError, RunError, VerificationError
from reldp.reporting import verify
from reldp.runs import ending
from reldp.runs.budget import Budget
from reldp.runs.ending import abandon, open_unfinished
from reldp.runs.ledger import Ledger, read_ledger
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from reldp.training.finishing import finish
from tests.training.interrupted import resumed
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_the_key_is_gone_and_the_steps_stay_counted(folder):
    run = RunFolder(folder)
    counted = read_ledger(run.ledger).num_counted
    assert counted == 8
    assert run.key.exists()
    assert abandon(folder).num_counted == counted
    assert not run.key.exists()
    assert not run.model.exists()
    before = run.ledger.read_bytes()
    assert abandon(folder).is_abandoned  # again: the same
    assert run.ledger.read_bytes() == before


def test_it_cannot_be_resumed_verified_or_continued(folder):
    abandon(folder)
    with pytest.raises(ResumeError, match="got one that was abandoned"):
        resumed(folder)
    with pytest.raises(VerificationError, match="The run was abandoned"):
        verify(folder)
    with (
        pytest.raises(RunError, match="got one that was abandoned"),
        open_unfinished(RunFolder(folder)),
    ):
        pass
    with Ledger.open(RunFolder(folder).ledger) as ledger:
        for add in (lambda: ledger.reserve(8, 9), ledger.abandon, lambda: ledger.append_audit({})):
            with pytest.raises(LedgerError, match="end with the entry that abandons"):
                add()


def test_a_stop_between_key_and_ledger_is_made_good(folder, monkeypatch):
    def stop(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ending.Ledger, "abandon", stop)
        with pytest.raises(KeyboardInterrupt):
            abandon(folder)
    assert not RunFolder(folder).key.exists()
    assert abandon(folder).is_abandoned


def test_a_complete_run_and_an_open_one_are_refused(tmp_path, folder):
    Trainer(*small_parts()).fit(tmp_path / "complete")
    with pytest.raises(RunError, match="must be unfinished, got a complete one"):
        abandon(tmp_path / "complete")
    with Ledger.open(RunFolder(folder).ledger), pytest.raises(RunError, match="one writer"):
        abandon(folder)


class _Stop(TrainingCallback):
    def on_step_end(self, progress, requests):
        requests.stop = progress.step == 5


@pytest.mark.parametrize("end", [abandon, lambda folder: finish(folder, decided_by="result")])
def test_a_copy_from_before_the_end_cannot_go_on(tmp_path, monkeypatch, end):
    """Its budget knows how the run ended: the key is destroyed for copies, too."""
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "state"))
    Budget.create(tmp_path / "budget").close()

    def trainer(*callbacks):
        return Trainer(*small_parts(), budget=tmp_path / "budget", callbacks=callbacks)

    with pytest.raises(TrainingStopped):
        trainer(_Stop()).fit(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    end(tmp_path / "run")
    with pytest.raises(ResumeError, match="copied before, or put back"):
        trainer().fit(tmp_path / "copy")
    abandon(tmp_path / "copy")  # the end of the other one stands
    assert not RunFolder(tmp_path / "copy").key.exists()
