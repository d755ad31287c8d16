"""Runs that are open at the same time, in one process or in copies of it, and interruptions at any point."""

import os
import traceback
from collections import OrderedDict

import pytest
import torch

from reldp.errors import ConfigError, RunError
from reldp.losses import MatryoshkaLoss
from reldp.noise import Streams
from reldp.runs.ledger import read_ledger
from reldp.runs.session import Session
from reldp.training.step import PrivateStep
from reldp.training.trainer import Trainer
from tests.training.small import small_parts
from tests.training.test_objective import Bilinear
from tests.training.test_recording import stepped, take, weights

torch.set_num_threads(1)


def begun(folder):
    """A run of four steps in the folder."""
    step, optimizer = stepped()
    with step.record(folder) as run:
        take(run, optimizer, stop=4)


def _entered(step):
    return lambda folder: step.record(folder).__enter__()


@pytest.mark.parametrize("way", ["same step", "another step", "trainer"])
def test_an_encoder_is_trained_by_one_open_run_at_a_time(tmp_path, way):
    begun(tmp_path / "one")
    begun(tmp_path / "two")
    step, optimizer = stepped()
    parts = step._encoder, step._capped, step._plan
    with step.record(tmp_path / "one") as run:
        before = weights(step)
        other = step if way == "same step" else PrivateStep(*parts)
        open_two = Trainer(*parts).fit if way == "trainer" else _entered(other)
        with pytest.raises(RunError, match="trained by one run at a time"):
            open_two(tmp_path / "two")
        assert torch.equal(weights(step), before)
        with pytest.raises(RunError, match="while the step is recorded"):
            PrivateStep(*parts).open(Streams(bytes(32)))
        take(run, optimizer)
    assert run.certificate.values["steps"]["counted"] == 12
    PrivateStep(*parts).open(Streams(bytes(32)))


def test_a_run_that_is_forgotten_holds_nothing(tmp_path):
    begun(tmp_path / "run")
    step, _ = stepped()
    step.record(tmp_path / "run").__enter__()
    assert not step._objective.is_held


def test_trained_layers_start_no_other_run_in_another_encoder_or_loss(tmp_path):
    step, optimizer = stepped(MatryoshkaLoss(Bilinear(), [4]))
    inner = step._objective.loss.loss
    with step.record(tmp_path / "run") as run:
        take(run, optimizer)
    encoder, capped, plan = small_parts()
    encoder.module = step._encoder.module
    fresh = small_parts()[0]
    for name, parts, loss in (
        ("encoder", (encoder, capped, plan), Bilinear()),
        ("loss", (fresh, capped, plan), MatryoshkaLoss(inner, [4], weights=[2.0])),
    ):
        other = PrivateStep(*parts, loss=loss)
        with pytest.raises(ConfigError, match=f"`{name}` must be as it was loaded"):
            other.record(tmp_path / "other").__enter__()
    PrivateStep(fresh, capped, plan, loss=Bilinear()).record(tmp_path / "new").__enter__()


def test_layers_that_a_run_has_trained_start_no_other_run_frozen_either(tmp_path):
    step, optimizer = stepped()
    with step.record(tmp_path / "run") as run:
        take(run, optimizer)
    encoder, capped, plan = small_parts()
    trained = step._encoder.module.requires_grad_(False)
    encoder.module = torch.nn.Sequential(OrderedDict(features=trained, head=torch.nn.Linear(4, 4)))
    encoder.embed = lambda rows: encoder.module.head(trained(**rows))
    with pytest.raises(ConfigError, match="`encoder` must be as it was loaded"):
        PrivateStep(encoder, capped, plan).record(tmp_path / "other").__enter__()


def in_a_copy(work):
    """Exit status of a copy of this process that works: 0 after a RunError about copies, 1 after anything else."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)[1]
    try:
        work()
    except RunError as error:
        os._exit(0 if "got a copy of that process" in str(error) else 1)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_copy_of_the_process_takes_no_step_and_writes_nothing(tmp_path):
    step, optimizer = stepped()

    def leave():
        run.__exit__(None)
        next(run)

    with step.record(tmp_path / "run") as run:
        next(run)
        before = (tmp_path / "run" / "ledger.jsonl").read_bytes()
        assert [in_a_copy(work) for work in (run.backward, leave)] == [0, 0]
        assert (tmp_path / "run" / "ledger.jsonl").read_bytes() == before
        run.backward()
        take(run, optimizer)
    assert run.certificate.values["steps"]["counted"] == 12


def test_an_interruption_in_a_write_to_the_ledger_loses_nothing(tmp_path, monkeypatch):
    step, optimizer = stepped()
    sync = os.fsync

    def interrupted(descriptor):
        sync(descriptor)
        monkeypatch.undo()
        raise KeyboardInterrupt

    def loop():
        with step.record(tmp_path / "run") as run:
            for number in run:
                run.backward()
                optimizer.step()
                if number == 7:  # the next step is counted before it runs
                    monkeypatch.setattr(os, "fsync", interrupted)

    with pytest.raises(KeyboardInterrupt):
        loop()
    left = weights(step)
    assert read_ledger(tmp_path / "run" / "ledger.jsonl").num_counted == 8
    again, optimizer = stepped()
    with again.record(tmp_path / "run") as run:
        assert torch.equal(weights(again), left)
        assert take(run, optimizer) == [8, 9, 10, 11]


def test_an_interruption_after_a_checkpoint_saves_it_once(tmp_path, monkeypatch):
    step, optimizer = stepped()

    def interrupted(folder, number):
        raise KeyboardInterrupt

    def loop():
        with step.record(tmp_path / "run", checkpoint_every=4) as run:
            take(run, optimizer)

    monkeypatch.setattr("reldp.runs.session.remove_other_checkpoints", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop()
    monkeypatch.undo()
    again, optimizer = stepped()
    with again.record(tmp_path / "run") as run:
        assert torch.equal(weights(again), weights(step))
        assert Session.next_step.fget(run._session) == 4
        take(run, optimizer)
