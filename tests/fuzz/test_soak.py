"""A few killed runs end with the same bits, each step and each run counted once; and a soak notices what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from reldp.cli.main import main
from reldp.runs.budget import Budget
from reldp.runs.ledger_state import LedgerRecord
from reldp.runs.session import Session
from reldp.training.state import TrainingState
from tests.fuzz import soak, soak_child


def test_killed_runs_end_as_if_nothing_had_happened():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.soak", "--kills", "8", "--seed", "5"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["kills"] >= 8
    assert sum(found["kills by phase"].values()) == found["kills"]
    assert found["runs"] > 0


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    torch.set_num_threads(1)
    return soak.Soak(tmp_path_factory.mktemp("soak"), 0)


@pytest.fixture
def stopped(work, request):
    """A soak, and a run of it that was killed in the middle of its training."""
    name = f"stopped-{request.node.name}"
    work._new(name)
    killed = soak_child.start(work.home, name, disturbance=("training", 60, signal.SIGKILL))
    assert work._end(name, *killed, allowed=(-signal.SIGKILL,)) == -signal.SIGKILL
    work.failures.clear()
    return work, name


def flipped(weights):
    """Weights whose first number has another last bit."""
    name, tensor = next(iter(weights.items()))
    changed = tensor.clone()
    changed.view(-1)[:1].view(torch.int32).bitwise_xor_(1)
    return {**weights, name: changed}


def test_a_run_that_was_killed_ends_without_a_failure(stopped):
    work, name = stopped
    work.finish(name)
    assert work.failures == []


def test_a_step_that_is_counted_twice_on_resumption_is_noticed(stopped, monkeypatch):
    counted = LedgerRecord.num_counted
    monkeypatch.setattr(
        LedgerRecord,
        "num_counted",
        property(lambda self: counted.fget(self) + bool(self.num_resumes and self.completion)),
    )
    work, name = stopped
    work.finish(name)
    assert work.failures[-1]["differs"]["counted"] == soak_child.NUM_STEPS + 1


def test_steps_of_a_new_branch_on_resumption_are_noticed(stopped, monkeypatch):
    resume = Session._resume_in_ledger
    monkeypatch.setattr(
        Session, "_resume_in_ledger", lambda self, reason: resume(self, reason or "a mutant")
    )
    work, name = stopped
    work.finish(name)
    assert work.failures[-1]["differs"]["branches"] == 2


def test_a_run_that_is_entered_twice_in_its_budget_is_noticed(stopped, monkeypatch):
    monkeypatch.setattr(Budget, "find", lambda self, token: None)
    work, name = stopped
    work.finish(name)
    assert work.failures[-1]["differs"]["entered"] == 2


def test_a_released_weight_with_another_last_bit_is_noticed(stopped, monkeypatch):
    released = TrainingState.released
    monkeypatch.setattr(
        TrainingState, "released", property(lambda self: flipped(released.fget(self)))
    )
    work, name = stopped
    work.finish(name)
    assert {"weights", "files"} <= set(work.failures[-1]["differs"])


def test_a_lost_step_is_noticed(stopped, monkeypatch):
    next_step = Session.next_step
    monkeypatch.setattr(Session, "next_step", property(lambda self: next_step.fget(self) + 1))
    work, name = stopped
    work.finish(name)
    assert work.failures != []
    assert {"metrics", "error"} & set(work.failures[-1]["differs"])


@pytest.mark.parametrize(
    ("said", "code", "noticed"),
    [
        (b"Traceback (most recent call last):\n", None, ("differs", {"traceback": True})),
        (b"reldp: The run must be another one.\n", 2, ("exit code", 2)),
        (b"", 70, ("exit code", 70)),
    ],
)
def test_what_an_undisturbed_command_must_not_say_is_noticed(
    stopped, monkeypatch, said, code, noticed
):
    def mutant(words):
        os.write(2, said)
        return main(words) if code is None else code

    monkeypatch.setattr(soak_child, "main", mutant)
    work, name = stopped
    work.finish(name)
    key, value = noticed
    assert work.failures[0][key] == value


def test_a_hang_is_noticed_and_ended(stopped, monkeypatch):
    monkeypatch.setattr(soak_child, "main", lambda words: time.sleep(60))
    monkeypatch.setattr(soak, "PATIENCE", 1.5)
    work, name = stopped
    work.finish(name)
    assert "hang" in work.failures[0]
