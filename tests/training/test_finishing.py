"""A run that is ended early is certified for what it spent, and for no less."""

import signal

import pytest
import torch

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import ConfigError, LedgerError, ResumeError, RunError
from reldp.reporting import verify
from reldp.runs import session
from reldp.runs.certificate import Certificate
from reldp.runs.ending import abandon
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


class StopAt(TrainingCallback):
    """Stops after a step; may say that it has seen sensitive values."""

    def __init__(self, step, *, sees_sensitive=False):
        self.step, self.sees_sensitive = step, sees_sensitive

    def on_step_end(self, progress, requests):
        requests.stop = progress.step == self.step


def stopped_by(callback, folder, parts, **settings):
    with pytest.raises(TrainingStopped):
        Trainer(*parts, callbacks=[callback], **settings).fit(folder)
    return folder


@pytest.mark.parametrize("log_sensitive", [False, True])
def test_an_early_end_is_one_also_if_all_steps_are_counted(tmp_path, log_sensitive):
    """Steps are counted in blocks of 100 before they run, so all 12 are at once."""
    sees = {"log_sensitive": log_sensitive}
    folder = stopped_by(StopAt(5), tmp_path / "run", small_parts(), **sees)
    with pytest.raises(ConfigError, match="no epsilon covers" if log_sensitive else "be result"):
        finish(folder, decided_by="steps")
    if log_sensitive:
        with pytest.raises(ConfigError, match="no epsilon covers the decision to end early"):
            finish(folder, decided_by="result")
        certificate = Trainer(*small_parts(), **sees).fit(folder).certificate  # to its last step
        assert "stopped_at" not in certificate.values["steps"]
        assert any(
            "resumed, after steps that the ledger names (5)" in line
            for line in certificate.values["not_guaranteed"]
        )
    else:
        certificate = finish(folder, decided_by="result")
        steps = certificate.values["steps"]
        assert (steps["planned"], steps["counted"], steps["stopped_at"]) == (12, 12, 5)
        assert certificate.epsilon == read_plan(RunFolder(folder)).epsilon()
        said = " ".join(certificate.values["assumptions"])
        assert "ended after step 5, when all 12 planned steps were counted already" in said
        assert "Sensitive values, such as losses" in said
    verify(folder)


def test_a_machine_that_stops_when_all_steps_are_counted_ends_a_run_early_too(
    tmp_path, monkeypatch
):
    folder = stopped(monkeypatch, tmp_path / "run", *small_parts(), at=10)
    assert read_ledger(RunFolder(folder).ledger).num_left == 0
    with pytest.raises(ConfigError, match="`decided_by` must say what"):
        finish(folder)
    certificate = finish(folder, decided_by="time")
    assert certificate.values["steps"]["stopped_at"] == 8
    assert certificate.epsilon == read_plan(RunFolder(folder)).epsilon()
    assert any("Time decided when to end" in line for line in certificate.values["assumptions"])
    verify(folder)


@pytest.mark.parametrize("sees_sensitive", [False, True])
def test_a_stop_by_a_callback_is_not_forgotten_after_more_steps(tmp_path, sees_sensitive):
    settings = {"checkpoint_every": 2}
    first = StopAt(3, sees_sensitive=sees_sensitive)
    folder = stopped_by(first, tmp_path / "run", small_parts(), **settings)
    stopped_by(StopAt(4), folder, small_parts(), **settings)
    expected = "no epsilon covers" if sees_sensitive else "must be result"
    for decided_by in ("steps", "time") + ("result",) * sees_sensitive:
        with pytest.raises(ConfigError, match=expected):
            finish(folder, decided_by=decided_by)
    if not sees_sensitive:
        finish(folder, decided_by="result")
        verify(folder)


def test_a_new_branch_does_not_end_where_sensitive_values_decided_to_stop(tmp_path):
    """All 12 steps are counted at once: a new branch after step 5 would have none left, and be complete."""
    folder = stopped_by(StopAt(5, sees_sensitive=True), tmp_path / "run", small_parts())
    before = RunFolder(folder).ledger.read_bytes()
    with pytest.raises(ResumeError, match="end where no epsilon covers the end"):
        Trainer(*small_parts(), threads=2).fit(folder)  # other bits: a new branch
    assert RunFolder(folder).ledger.read_bytes() == before
    result = Trainer(*small_parts()).fit(folder)
    assert result.certificate.values["steps"]["counted"] == 12
    verify(folder)


def test_other_stops_may_be_followed_by_a_new_branch(tmp_path):
    """Control: epsilon of all counted steps covers an end that follows from noisy weights."""
    folder = stopped_by(StopAt(5), tmp_path / "run", small_parts())
    Trainer(*small_parts(), threads=2).fit(folder)
    verify(folder)


class RaiseAt(TrainingCallback):
    """Ends the run with an exception, from one of its methods."""

    def __init__(self, error, step, method):
        self.error, self.step = error, step
        setattr(self, method, self.run)

    def run(self, progress, requests=None):
        if progress.step == self.step:
            raise self.error


METHODS = ("on_step_begin", "on_step_end", "on_checkpoint")
DECISIONS = (TrainingStopped("x"), KeyboardInterrupt(), SystemExit(1), StopIteration())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "error", [*DECISIONS, ValueError("x")], ids=lambda error: type(error).__name__
)
def test_an_exception_of_a_callback_is_a_stop_by_it(tmp_path, method, error):
    callback = RaiseAt(error, 6, method)
    with pytest.raises(type(error)):
        Trainer(*small_parts(), callbacks=[callback], checkpoint_every=3, log_sensitive=True).fit(
            tmp_path / "run"
        )
    record = read_ledger(RunFolder(tmp_path / "run").ledger)
    assert record.checkpoint["step"] == 6
    if isinstance(error, ValueError):  # a mistake, not a decision
        assert record.stoppers == ("callback",)
        with pytest.raises(ConfigError, match="must be result, since a callback stopped"):
            finish(tmp_path / "run", decided_by="steps")
    else:
        assert record.sensitive_stops == (6,)
        with pytest.raises(ConfigError, match="no epsilon covers the decision"):
            finish(tmp_path / "run", decided_by="result")
    Trainer(*small_parts(), checkpoint_every=3, log_sensitive=True).fit(tmp_path / "run")
    verify(tmp_path / "run")


def test_weights_that_a_callback_changed_before_its_exception_are_not_saved(tmp_path):
    parts = small_parts()

    class Change(TrainingCallback):
        def on_step_end(self, progress, requests):
            if progress.step == 5:
                with torch.no_grad():
                    next(iter(parts[0].trainable().values())).zero_()
                raise TrainingStopped("x")

    with pytest.raises(RunError, match="leave the weights as they are"):
        Trainer(*parts, callbacks=[Change()], checkpoint_every=3).fit(tmp_path / "run")
    assert read_ledger(RunFolder(tmp_path / "run").ledger).checkpoint["step"] == 3


def test_a_signal_that_ends_a_callback_is_no_stop_by_it(tmp_path):
    class Twice(TrainingCallback):
        def on_step_end(self, progress, requests):
            if progress.step == 6:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Trainer(*small_parts(), callbacks=[Twice()], checkpoint_every=3).fit(tmp_path / "run")
    record = read_ledger(RunFolder(tmp_path / "run").ledger)
    assert record.stoppers == ()
    assert record.checkpoint["step"] == 3


def test_links_in_the_run_folder_are_not_followed(folder, tmp_path):
    run = RunFolder(folder)
    before, key = run.ledger.read_bytes(), run.key.read_bytes()
    for name, words in (("key", "would survive the run"), ("checkpoints", "must be a folder")):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
        with pytest.raises(RunError, match=words):
            finish(folder, decided_by="steps")
        if name == "key":
            with pytest.raises(RunError, match=words):
                abandon(folder)
        (folder / name).unlink()
        (tmp_path / name).rename(folder / name)
    assert (run.ledger.read_bytes(), run.key.read_bytes()) == (before, key)
    finish(folder, decided_by="steps")


def test_a_ledger_that_leaves_out_steps_after_a_sensitive_stop_is_refused(tmp_path):
    folder = stopped_by(StopAt(5), tmp_path / "run", small_parts())
    Trainer(*small_parts(), threads=2).fit(folder)
    record, plan = read_ledger(RunFolder(folder).ledger), read_plan(RunFolder(folder))
    assert len(record.branches) == 2
    entries = [
        {**entry, "stopped_by": "callback that sees sensitive values"}
        if "stopped_by" in entry
        else entry
        for entry in record.entries
    ]
    changed = LedgerRecord.check(entries, head="0" * 64)
    assert changed.sensitive_stops == (5,)
    assert not changed.is_early
    with pytest.raises(LedgerError, match="left out steps after it"):
        Certificate.from_ledger(plan, changed)
    Certificate.from_ledger(plan, record)


def test_a_stop_after_the_last_step_is_the_end(tmp_path):
    result = Trainer(*small_parts(), callbacks=[StopAt(12, sees_sensitive=True)]).fit(
        tmp_path / "run"
    )
    assert read_ledger(RunFolder(tmp_path / "run").ledger).stoppers == ()
    assert not any("Stops by" in line for line in result.certificate.values["not_guaranteed"])


def test_a_completion_that_contradicts_the_stops_in_the_ledger_is_refused(tmp_path):
    folder = stopped_by(StopAt(5), tmp_path / "run", small_parts())
    finish(folder, decided_by="result")
    record, plan = read_ledger(RunFolder(folder).ledger), read_plan(RunFolder(folder))

    def certified(*, version="0.10.0", stopped_by="callback", **change):
        start = {**record.start, "versions": {"reldp": version}}
        end = {n: v for n, v in {**record.entries[-1], **change}.items() if v is not None}
        entries = [
            {**entry, "stopped_by": stopped_by} if "stopped_by" in entry else entry
            for entry in record.entries[1:-1]
        ]
        return Certificate.from_ledger(
            plan, LedgerRecord.check([start, *entries, end], head="0" * 64)
        )

    silent = {"stopped_at": None, "stop_decided_by": None}
    certified()
    with pytest.raises(LedgerError, match="with stop_decided_by, since the run ended before"):
        certified(**silent)
    certified(version="0.9.0", **silent)  # its epsilon is that of all planned steps
    with pytest.raises(LedgerError, match="must be result, since a callback stopped the run"):
        certified(stop_decided_by="time")
    for version in ("0.9.0", "0.10.0"):
        for change in ({}, silent):
            with pytest.raises(LedgerError, match="no epsilon covers a decision"):
                certified(
                    version=version, stopped_by="callback that sees sensitive values", **change
                )


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
        match="stopped_at must be the step of the newest checkpoint, with stop_decided_by, since the run",
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
