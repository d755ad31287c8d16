"""A run that is ended early is certified for what it spent, and for no less."""

import pytest
import torch

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import ConfigError, LedgerError, ResumeError
from reldp.reporting import verify
from reldp.runs import session
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import LedgerRecord, read_ledger
from reldp.runs.run_folder import RunFolder, read_plan
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from reldp.training.finishing import encoder_of_run, finish, named_encoder
from reldp.training.state import TrainingState
from tests.encoders.tiny import write_model
from tests.training.interrupted import resumed, stopped
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_the_newest_checkpoint_is_released_and_every_counted_step_certified(folder):
    run = RunFolder(folder)
    (checkpoint,) = run.checkpoints.iterdir()
    state = TrainingState.from_bytes(checkpoint.read_bytes())
    certificate = finish(folder, decided_by="steps")
    steps = certificate.values["steps"]
    assert (steps["planned"], steps["counted"], steps["stopped_at"]) == (12, 8, 4)
    assert certificate.epsilon == read_plan(run).epsilon(num_steps=8)
    assert certificate.epsilon < read_plan(run).epsilon()
    assert not run.key.exists()
    for name, value in FeatureEncoder.load(run.model).trainable().items():
        assert torch.equal(value, state.released[name])
    assert any(
        "fixed without looking at anything" in line for line in certificate.values["assumptions"]
    )
    assert "ended early" in run.certificate_text.read_text()
    verify(folder)
    before = run.ledger.read_bytes()
    assert finish(folder).values == certificate.values  # again: nothing changes
    assert run.ledger.read_bytes() == before
    assert resumed(folder).certificate.values == certificate.values


def test_a_decision_by_results_costs_all_planned_steps(folder):
    certificate = finish(folder, decided_by="result")
    assert certificate.epsilon == read_plan(RunFolder(folder)).epsilon()
    assert certificate.values["steps"]["stop_decided_by"] == "result"
    assert any("that of all planned steps" in line for line in certificate.values["assumptions"])
    verify(folder)


def test_time_is_an_assumption_of_its_own(folder):
    certificate = finish(folder, decided_by="time")
    assert any("Time decided when to end" in line for line in certificate.values["assumptions"])
    verify(folder)


def test_what_decided_must_be_said_and_stays_as_it_was_said(folder):
    with pytest.raises(ConfigError, match="`decided_by` must say what"):
        finish(folder)
    with pytest.raises(ConfigError, match="decided_by"):
        finish(folder, decided_by="schedule")
    assert RunFolder(folder).key.exists()
    finish(folder, decided_by="steps")
    with pytest.raises(ConfigError, match="must be what the ledger says, steps, got result"):
        finish(folder, decided_by="result")


@pytest.mark.parametrize("log_sensitive", [False, True])
def test_a_stop_by_a_callback_is_a_result(tmp_path, log_sensitive):
    class Stop(TrainingCallback):
        def on_step_end(self, progress, requests):
            requests.stop = progress.step == 5

    settings = {"callbacks": [Stop()], "log_sensitive": log_sensitive, "checkpoint_every": 2}
    with pytest.raises(TrainingStopped):
        Trainer(*small_parts(), **settings).fit(tmp_path / "run")
    for decided_by in ("steps", "time", None):
        with pytest.raises(ConfigError, match="callback"):
            finish(tmp_path / "run", decided_by=decided_by)
    if log_sensitive:
        with pytest.raises(ConfigError, match="no epsilon covers the decision"):
            finish(tmp_path / "run", decided_by="result")
    else:
        finish(tmp_path / "run", decided_by="result")
        verify(tmp_path / "run")


def test_an_early_end_that_no_run_writes_is_refused(folder):
    finish(folder, decided_by="steps")
    record, plan = read_ledger(RunFolder(folder).ledger), read_plan(RunFolder(folder))
    for change in ({"stopped_at": 3}, {"stopped_at": None}, {"stop_decided_by": None}):
        entries = [*record.entries[:-1], {**record.entries[-1], **change}]
        kept = {name: value for name, value in entries[-1].items() if value is not None}
        with pytest.raises(LedgerError, match="stopped_at must be the step of the newest"):
            Certificate.from_ledger(plan, LedgerRecord.check([*entries[:-1], kept], "0" * 64))


def test_a_claim_of_fewer_steps_without_an_early_end_is_refused(folder):
    """The entry that finish writes is part of the chain; a ledger that lacks its facts has no certificate."""
    finish(folder, decided_by="time")
    record = read_ledger(RunFolder(folder).ledger)
    bare = [
        {n: v for n, v in entry.items() if n not in ("stopped_at", "stop_decided_by")}
        for entry in record.entries
    ]
    with pytest.raises(
        LedgerError,
        match="stopped_at must be the step of the newest checkpoint, with stop_decided_by, since 4",
    ):
        Certificate.from_ledger(read_plan(RunFolder(folder)), LedgerRecord.check(bare, "0" * 64))


def test_a_stop_before_the_ledger_entry_is_made_good(folder, monkeypatch):
    def stop(path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session, "destroy_key", stop)
        with pytest.raises(KeyboardInterrupt):
            finish(folder, decided_by="time")
    assert read_ledger(RunFolder(folder).ledger).completion is None
    assert finish(folder, decided_by="time").values["steps"]["counted"] == 8


def test_a_run_without_a_saved_step_is_refused(tmp_path, monkeypatch):
    folder = stopped(monkeypatch, tmp_path / "run", *small_parts(), at=2)
    with pytest.raises(ResumeError, match="must have saved a step"):
        finish(folder, decided_by="time")
    assert RunFolder(folder).key.exists()


def test_another_encoder_is_refused_with_the_difference(folder):
    with pytest.raises(ConfigError, match=r"encoder\.dim was 4, is 3"):
        finish(folder, decided_by="steps", encoder=FeatureEncoder(6, hidden=(5,), dim=3))
    assert RunFolder(folder).key.exists()


def test_a_run_that_had_its_last_step_is_simply_completed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(session, "destroy_key", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Trainer(*small_parts()).fit(tmp_path / "run")
    certificate = finish(tmp_path / "run")
    assert "stopped_at" not in certificate.values["steps"]
    assert certificate.values["steps"]["counted"] == 12
    verify(tmp_path / "run")


@pytest.mark.parametrize("train", ["lora", "head", "last:1", "pooling"])
def test_text_encoders_are_made_again_from_the_ledger(tmp_path, train):
    place = write_model("bert", tmp_path / "model")
    extra = {"head_hidden": (7,), "head_dim": 5} if train == "head" else {}
    described = TextEncoder.load(place, train=train, seed=3, **extra).describe()
    again = encoder_of_run(described, str(place))
    assert again.describe() == described
    assert named_encoder(tmp_path, None) is None
