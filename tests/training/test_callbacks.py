"""Callbacks run between steps, see nothing sensitive unless asked, and leave every bit in place."""

import numpy as np
import pytest
import torch

from reldp.errors import ConfigError, RunError
from reldp.reporting import verify
from reldp.runs.ledger import read_ledger
from reldp.runs.run_folder import RunFolder
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from reldp.training.trainer import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


class Recorder(TrainingCallback):
    """Writes down every event; stops or saves where it is told to, and draws random numbers."""

    def __init__(self, stop_after=None, save_after=None):
        self.events, self.stop_after, self.save_after = [], stop_after, save_after

    def on_step_begin(self, progress):
        self.events.append(("begin", progress.step))
        torch.rand(3), np.random.rand(3)

    def on_step_end(self, progress, requests):
        self.events.append(("end", progress.step, progress.learning_rate, progress.report))
        requests.stop = progress.step == self.stop_after
        requests.checkpoint = progress.step == self.save_after

    def on_checkpoint(self, progress):
        self.events.append(("saved", progress.step))


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer.encoder.trainable().items()}


def run(folder, callbacks=(), **settings):
    trainer = Trainer(*small_parts(), callbacks=callbacks, threads=1, device="cpu", **settings)
    trainer.fit(folder)
    return trainer


def test_events_come_in_order_and_hold_nothing_sensitive(tmp_path):
    recorder = Recorder()
    run(tmp_path / "run", [recorder], checkpoint_every=5)
    names = [event[:2] for event in recorder.events]
    expected = []
    for step in range(12):
        expected += [("begin", step), ("end", step + 1)]
        expected += [("saved", step + 1)] if step + 1 in (5, 10, 12) else []
    assert names == expected
    assert all(event[3] is None for event in recorder.events if event[0] == "end")
    assert all(event[2] == 1e-3 for event in recorder.events if event[0] == "end")


def test_sensitive_statistics_come_on_request(tmp_path):
    recorder = Recorder()
    run(tmp_path / "run", [recorder], log_sensitive=True)
    reports = [event[3] for event in recorder.events if event[0] == "end"]
    assert all(np.isfinite(report.loss) for report in reports)


def test_epsilon_grows_to_that_of_the_certificate(tmp_path):
    class Spent(TrainingCallback):
        values = []  # noqa: RUF012

        def on_step_end(self, progress, requests):
            self.values.append(progress.epsilon)

    folder = tmp_path / "run"
    run(folder, [Spent()])
    assert sorted(Spent.values) == Spent.values
    assert Spent.values[-1] == verify(folder).certificate.epsilon


def test_a_stopped_run_resumes_to_the_bits_of_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(range(32)))
    with pytest.raises(TrainingStopped, match="after step 4 of 12"):
        run(tmp_path / "one", [Recorder(stop_after=4, save_after=3)])
    assert not (tmp_path / "one" / "certificate.json").exists()
    stopped = run(tmp_path / "one", [Recorder()])
    straight = run(tmp_path / "two")
    for name, value in weights(straight).items():
        assert torch.equal(value, weights(stopped)[name])
    assert verify(tmp_path / "one").certificate.values["steps"]["counted"] == 12


def test_a_checkpoint_that_is_asked_for_is_in_the_ledger(tmp_path):
    run(tmp_path / "run", [Recorder(save_after=7)])
    entries = read_ledger(RunFolder(tmp_path / "run").ledger).entries
    assert [e["step"] for e in entries if e["kind"] == "checkpoint"] == [7, 12]


def test_a_stop_after_the_last_step_is_the_end(tmp_path):
    run(tmp_path / "run", [Recorder(stop_after=12)])
    assert (tmp_path / "run" / "certificate.json").exists()


@pytest.mark.parametrize("callback", [print, Recorder], ids=["function", "class"])
def test_other_objects_are_refused(callback):
    with pytest.raises(
        ConfigError, match=r"`callbacks` must be instances of .*TrainingCallback, got"
    ):
        Trainer(*small_parts(), callbacks=[callback])


class Meddling(TrainingCallback):
    """Changes a weight at one of the events."""

    def __init__(self, event):
        self.event, self.encoder = event, None
        setattr(self, event, self.change)

    def change(self, progress, requests=None):
        with torch.no_grad():
            next(iter(self.encoder.trainable().values())).mul_(0.5)


@pytest.mark.parametrize("event", ["on_step_begin", "on_step_end", "on_checkpoint"])
def test_a_callback_that_changes_weights_stops_the_run(tmp_path, event):
    """The certificate says nothing about callbacks, since they cannot change what is learned."""
    callback = Meddling(event)
    trainer = Trainer(*small_parts(), callbacks=[callback], device="cpu", checkpoint_every=5)
    callback.encoder = trainer.encoder
    with pytest.raises(RunError, match="Callbacks must leave the weights as they are"):
        trainer.fit(tmp_path / "run")
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").completion is None
