"""Tools get public values when training stops; sensitive ones, and times of steps, only if asked for."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.integrations import TensorBoardCallback, WandbCallback

from reldp.errors import MissingDependency
from reldp.integrations.sentence_transformers import reporters as module
from reldp.integrations.sentence_transformers.reporters import (
    Reporters,
    is_reporter,
    make_reporters,
)

LOGS = {"epsilon": 1.0, "sensitive/loss": 0.5}


class Tool(TrainerCallback):
    def __init__(self):
        self.events = []

    def on_train_begin(self, args, state, control, **given):
        self.events.append(("begin", state.global_step))

    def on_log(self, args, state, control, logs=None, **given):
        self.events.append((state.global_step, len(state.log_history), logs))

    def on_train_end(self, args, state, control, **given):
        self.events.append(("end", state.global_step))


def send(tool, *, at_once, folder=Path("nowhere")):
    """Two logs at two steps; return what had arrived before training stopped, and after."""
    made = Reporters([tool], at_once=at_once, folder=folder)
    state, control = TrainerState(), TrainerControl()
    for step in (3, 6):
        state.global_step = step
        state.log_history.append(LOGS)
        made.log(None, state, control, LOGS, model=None)
    before = list(tool.events)
    made.close(None, state, control, model=None)
    made.close(None, state, control, model=None)
    return before, tool.events


def test_without_a_request_everything_public_comes_at_the_end():
    before, after = send(Tool(), at_once=False)
    assert before == []
    public = {"epsilon": 1.0}
    assert after == [("begin", 6), (3, 1, public), (6, 2, public), ("end", 6)]


def test_on_request_everything_comes_at_once():
    before, after = send(Tool(), at_once=True)
    assert before == [("begin", 3), (3, 1, LOGS), (6, 2, LOGS)]
    assert after == [*before, ("end", 6)]


def test_without_logs_a_tool_hears_nothing():
    tool = Tool()
    Reporters([tool], at_once=False, folder=Path("x")).close(None, TrainerState(), None)
    assert tool.events == []


class Writer:
    """Stands in for TensorBoard's writer, which is not installed here."""

    def __init__(self, log_dir):
        self.calls = [log_dir]

    def add_text(self, name, text, *given):
        pass

    def add_scalar(self, name, value, step):
        self.calls.append((name, value, step))

    def flush(self):
        pass

    def close(self):
        self.calls.append("closed")


@pytest.fixture
def tensorboard(monkeypatch):
    made = []

    def writer(log_dir):
        made.append(Writer(log_dir))
        return made[-1]

    stub = ModuleType("torch.utils.tensorboard")
    stub.SummaryWriter = writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stub)
    utils = sys.modules["transformers.integrations.integration_utils"]
    monkeypatch.setattr(utils, "is_tensorboard_available", lambda: True)
    monkeypatch.setattr(module, "find_spec", lambda name: True)
    monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
    return made


def test_tensorboard_writes_into_the_run_folder(tmp_path, tensorboard):
    (callback,) = make_reporters(["tensorboard"])
    assert isinstance(callback, TensorBoardCallback)
    made = Reporters([callback], at_once=False, folder=tmp_path / "run" / "tensorboard")
    state, args = TrainerState(global_step=4), SimpleNamespace(to_json_string=lambda: "{}")
    made.log(args, state, None, LOGS)
    assert tensorboard == []
    made.close(args, state, None)
    (writer,) = tensorboard
    folder = tmp_path / "run" / "tensorboard"
    assert writer.calls == [str(folder), ("train/epsilon", 1.0, 4), "closed"]
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("was_open", [False, True])
def test_a_run_of_wandb_that_was_started_here_is_finished_here(was_open):
    """An open one would go on sending what the program prints, such as sensitive evaluations."""
    tool = Tool()
    finished = []
    tool._wandb = SimpleNamespace(
        run=object() if was_open else None, finish=lambda: finished.append(len(tool.events))
    )
    _, events = send(tool, at_once=False)
    assert finished == ([] if was_open else [len(events)])


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_tool_that_is_not_installed_is_named(monkeypatch, name):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=f"`{name}` must be installed to report to it"):
        make_reporters([name])


def test_callbacks_of_the_library_are_known_as_reporters():
    class Own(WandbCallback):
        pass

    assert is_reporter(TensorBoardCallback)
    assert is_reporter(Own)
    assert not is_reporter(Tool())
    assert module.make_reporters(()) == []
