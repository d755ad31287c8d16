"""Callbacks run between steps, see nothing sensitive unless asked, and leave every bit in place."""

import numpy as np
import pytest
import torch
from torch import nn

from reldp.encoders import Column, ModuleEncoder
from reldp.errors import ConfigError, RunError
from reldp.graph import EntityGraph
from reldp.reporting import verify
from reldp.runs.ledger import read_ledger
from reldp.runs.run_folder import RunFolder
from reldp.training.callbacks import TrainingCallback, TrainingStopped
from reldp.training.selection import Selection
from reldp.training.state import TrainingState
from reldp.training.trainer import Trainer
from tests.training.small import DIM, small_parts

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
    with pytest.raises(ConfigError, match="`callbacks` must be"):
        Trainer(*small_parts(), callbacks=callback)


def test_one_callback_is_no_list():
    with pytest.raises(ConfigError, match=r"must be a list, got one callback\. Use \[callback\]"):
        Trainer(*small_parts(), callbacks=Recorder())


class Meddling(TrainingCallback):
    """Changes something at one of the events."""

    def __init__(self, event, change=lambda encoder, progress: None):
        self.encoder, self.change = None, change
        setattr(self, event, self.meddle)

    def meddle(self, progress, requests=None):
        with torch.no_grad():
            self.change(self.encoder, progress)


def test_a_method_of_one_object_is_code_from_outside(tmp_path):
    encoder, capped, plan = small_parts()
    callback = TrainingCallback()
    trainer = Trainer(encoder, capped, plan, callbacks=[callback], device="cpu", threads=1)

    def change(progress, requests):
        with torch.no_grad():
            next(iter(trainer.encoder.trainable().values())).data.fill_(7.0)

    callback.on_step_end = change
    with pytest.raises(RunError, match="one that changed trained weights"):
        trainer.fit(tmp_path / "run")
    assert not (tmp_path / "run" / "certificate.json").exists()


def frozen_encoder():
    """A frozen layer, a trained one, and running statistics."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(DIM, 5), nn.Linear(5, 4), nn.BatchNorm1d(4)).eval()
    module[0].requires_grad_(False)
    module[2].requires_grad_(False)
    return ModuleEncoder(module, Column("features", shape=(DIM,)))


def undone(encoder, progress):
    """A change of a frozen weight that is undone after the next step."""
    encoder.module[0].weight.data[0, 0] += -1.0 if progress.step % 2 else 1.0


def with_batch_statistics(encoder, progress):
    """Running statistics, which torch changes without counting versions."""
    encoder.module.train()(torch.ones(3, DIM))
    encoder.module.eval()


CHANGES = {
    "in place": lambda encoder, progress: encoder.module[1].weight.mul_(0.5),
    "data": lambda encoder, progress: encoder.module[1].weight.data[0].fill_(7.0),
    "numpy": lambda encoder, progress: np.copyto(encoder.module[1].bias.detach().numpy(), 7.0),
    "other memory": lambda encoder, progress: setattr(
        encoder.module[1].weight, "data", torch.ones(4, 5)
    ),
    "signs": lambda encoder, progress: encoder.module[1].weight.data.neg_(),
    "order": lambda encoder, progress: encoder.module[1].weight.copy_(
        encoder.module[1].weight.flip(0)
    ),
    "frozen": lambda encoder, progress: encoder.module[0].weight.data[0].fill_(7.0),
    "frozen and undone": undone,
    "buffer": lambda encoder, progress: encoder.module[2].running_mean.fill_(7.0),
    "other buffer": lambda encoder, progress: setattr(
        encoder.module[2], "running_mean", torch.ones(4)
    ),
    "batch statistics": with_batch_statistics,
    "new layer": lambda encoder, progress: encoder.module.append(nn.Linear(4, 4)),
}


def meddle(folder, event, change, **settings):
    """A run in which a callback changes something; it is refused, and what it leaves is returned."""
    callback, (_, capped, plan) = Meddling(event, change), small_parts()
    settings = {"checkpoint_every": 5, "device": "cpu", "threads": 1, **settings}
    trainer = Trainer(frozen_encoder(), capped, plan, callbacks=[callback], **settings)
    callback.encoder = trainer.encoder
    with pytest.raises(RunError, match="`callbacks` must leave the weights as they are") as caught:
        trainer.fit(folder)
    assert "\n" not in str(caught.value)
    assert read_ledger(folder / "ledger.jsonl").completion is None
    assert not (folder / "certificate.json").exists()
    assert not (folder / "model").exists()
    return trainer


@pytest.mark.parametrize("event", ["on_step_begin", "on_step_end", "on_checkpoint"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_callback_that_changes_weights_stops_the_run(tmp_path, event, change):
    """The certificate says nothing about callbacks, since they cannot change what is learned."""
    meddle(tmp_path / "run", event, change)


@pytest.mark.parametrize("name", ["data", "buffer"])
def test_the_run_resumes_from_the_checkpoint_before_the_change(tmp_path, monkeypatch, name):
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(range(32)))

    def change(encoder, progress):
        if progress.step == 8:
            CHANGES[name](encoder, progress)

    meddle(tmp_path / "run", "on_step_end", change)
    ends = []
    for folder in ("run", "straight"):
        _, capped, plan = small_parts()
        trainer = Trainer(frozen_encoder(), capped, plan, device="cpu", threads=1)
        trainer.fit(tmp_path / folder)
        ends.append(trainer.encoder.module.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert verify(tmp_path / "run").certificate.values["steps"]["counted"] == 12


def test_a_change_beside_an_exception_leaves_no_checkpoint(tmp_path):
    def change(encoder, progress):
        CHANGES["data"](encoder, progress)
        raise TrainingStopped("enough")

    meddle(tmp_path / "run", "on_step_end", change)
    entries = read_ledger(tmp_path / "run" / "ledger.jsonl").entries
    assert not [e for e in entries if e["kind"] == "checkpoint"]


def test_weights_may_be_exchanged_and_put_back_in_a_call(tmp_path):
    """As an evaluation of other weights does."""

    def exchange(encoder, progress):
        weight = encoder.module[1].weight
        before = weight.clone()
        weight.zero_()
        weight.copy_(before)

    callback, (_, capped, plan) = Meddling("on_step_end", exchange), small_parts()
    trainer = Trainer(frozen_encoder(), capped, plan, callbacks=[callback], device="cpu")
    callback.encoder = trainer.encoder
    trainer.fit(tmp_path / "run")


def test_chosen_and_averaged_weights_are_not_those_that_callbacks_see(tmp_path, monkeypatch):
    """What a callback reaches is the encoder: average and best weights are copies."""
    seen = []
    state = TrainingState.to_bytes

    def noted(self):
        seen.append({v.data_ptr() for part in (self.average, self.best) for v in part.values()})
        return state(self)

    monkeypatch.setattr(TrainingState, "to_bytes", noted)
    graph = EntityGraph.from_lists(
        [f"p{i}" for i in range(40)],
        [(f"p{i}", f"p{(i + 1) % 40}") for i in range(40)],
        features=np.random.default_rng(5).normal(size=(40, DIM)).astype(np.float32),
    )
    _, capped, plan = small_parts()
    encoder = frozen_encoder()
    trainer = Trainer(
        encoder,
        capped,
        plan,
        callbacks=[Recorder()],
        selection=Selection(graph, 4, capped),
        average=0.9,
        device="cpu",
    )
    trainer.fit(tmp_path / "run")
    assert seen[-1]
    live = {value.data_ptr() for value in encoder.module.state_dict().values()}
    assert not any(live & places for places in seen)


def test_nothing_is_compared_where_no_code_from_outside_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.training.weight_watch.bits_of", None)
    run(tmp_path / "run")
