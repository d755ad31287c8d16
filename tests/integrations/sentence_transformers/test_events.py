"""Callbacks of transformers see a private run as they see any other, without its sensitive values."""

from dataclasses import dataclass

import pytest
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback

from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers.events import (
    Events,
    callback_arguments,
    check_callbacks,
)
from reldp.training.callbacks import CallbackList, Progress, StepRequests, TrainingStopped
from tests.integrations.sentence_transformers.small import arguments, tiny


@dataclass
class Report:
    loss: float = 0.5
    num_tuples: int = 7
    median_norm: float = float("nan")


class Recorder(TrainerCallback):
    """Writes down every event with the step and what came with it."""

    def __init__(self, stop_at=None, save_at=None, evaluate_at=None, log_at=None):
        self.events = []
        self.asked = {
            "should_training_stop": stop_at,
            "should_save": save_at,
            "should_evaluate": evaluate_at,
            "should_log": log_at,
        }

    def on_step_end(self, args, state, control, **given):
        assert given["model"] is not None
        for name, step in self.asked.items():
            if state.global_step == step:
                setattr(control, name, True)
        return control

    def on_log(self, args, state, control, logs=None, **given):
        self.events.append(("log", state.global_step, logs))

    def on_evaluate(self, args, state, control, metrics=None, **given):
        self.events.append(("evaluate", state.global_step, metrics))

    def on_save(self, args, state, control, **given):
        self.events.append(("save", state.global_step, round(state.epoch, 3)))

    def on_train_begin(self, args, state, control, **given):
        self.events.append(("begin", state.global_step, state.max_steps))

    def on_train_end(self, args, state, control, **given):
        self.events.append(("end", state.global_step, state.max_steps))


def events(
    home, *callbacks, evaluate=lambda: {"sensitive/eval_x": 1.0}, on_private=False, **settings
):
    return Events(
        args=arguments(home, **{"logging_steps": 2, "save_steps": 100, **settings}),
        num_steps=6,
        epochs_per_step=0.25,
        callbacks=callbacks,
        reporters=[],
        model=tiny(home),
        folder=home / "tensorboard",
        evaluate=evaluate,
        has_evaluator=False,
        evaluates_sensitive=on_private,
    )


def step(made, number, report=None):
    """One step, as `reldp.Trainer` calls it; return what was asked for."""
    spent = lambda count: 0.5 * count  # noqa: E731
    made.on_step_begin(Progress(step=number - 1, num_steps=6, spent=spent))
    progress = Progress(step=number, num_steps=6, learning_rate=0.1, report=report, spent=spent)
    requests = StepRequests()
    made.on_step_end(progress, requests)
    if requests.checkpoint or requests.stop:
        made.on_checkpoint(progress)
    return requests


def test_a_run_is_a_run_for_its_callbacks(tmp_path):
    recorder = Recorder()
    made = events(tmp_path, recorder, save_steps=4)
    made.begin()
    asked = [step(made, number) for number in range(1, 7)]
    made.end()
    log = lambda n: ("log", n, {"epoch": n / 4, "learning_rate": 0.1, "epsilon": n / 2})  # noqa: E731
    assert recorder.events == [
        ("begin", 0, 6),
        log(2),
        log(4),
        ("save", 4, 1.0),
        log(6),
        ("save", 6, 1.5),
        ("end", 6, 6),
    ]
    assert [request.stop for request in asked] == [False] * 5 + [True]
    assert [line["step"] for line in made.state.log_history] == [2, 4, 6]


def test_what_callbacks_ask_for_is_done(tmp_path):
    recorder = Recorder(stop_at=5, save_at=1, evaluate_at=3, log_at=3)
    made = events(tmp_path, recorder, logging_strategy="no", save_strategy="no")
    asked = [step(made, number) for number in range(1, 6)]
    assert [request.checkpoint for request in asked] == [True, False, False, False, False]
    assert [request.stop for request in asked] == [False] * 4 + [True]
    assert [event[:2] for event in recorder.events] == [
        ("save", 1),
        ("log", 3),
        ("evaluate", 3),
        ("save", 5),
    ]


@pytest.mark.parametrize(
    ("values", "sees"), [({"sensitive/eval_x": 1.0}, True), ({"eval_x": 1.0}, False)]
)
def test_a_stop_after_a_sensitive_evaluation_is_recorded_as_one(tmp_path, values, sees):
    made = events(tmp_path, Recorder(evaluate_at=3), evaluate=lambda: values)
    step(made, 1)
    assert not made.sees_sensitive
    for number in (2, 3):
        step(made, number)
    assert made.sees_sensitive is sees
    stopper = CallbackList([made], log_sensitive=False).stopper
    assert stopper == ("callback that sees sensitive values" if sees else "callback")


@pytest.mark.parametrize("on_private", [True, False])
def test_an_evaluator_that_stops_the_run_has_seen_what_it_evaluates(tmp_path, on_private):
    def stopping():
        raise TrainingStopped("seen enough")

    made = events(tmp_path, Recorder(evaluate_at=1), evaluate=stopping, on_private=on_private)
    with pytest.raises(TrainingStopped):
        step(made, 1)
    stopper = CallbackList([made], log_sensitive=False).stopper
    assert stopper == ("callback that sees sensitive values" if on_private else "callback")


def test_a_callback_of_transformers_says_itself_what_it_has_seen(tmp_path):
    recorder = Recorder()
    made = events(tmp_path, recorder)
    assert CallbackList([made], log_sensitive=False).stopper == "callback"
    recorder.sees_sensitive = True
    stopper = CallbackList([made], log_sensitive=False).stopper
    assert stopper == "callback that sees sensitive values"


def test_sensitive_values_reach_logs_on_request_alone(tmp_path):
    for asked in (False, True):
        recorder = Recorder()
        made = events(tmp_path, recorder, log_sensitive=asked, eval_steps=2)
        step(made, 1, Report())
        step(made, 2, Report() if asked else None)
        logs = [values for kind, _, values in recorder.events if kind == "log"]
        sensitive = {k for values in logs for k in values if k.startswith("sensitive/")}
        expected = {"sensitive/loss", "sensitive/num_tuples", "sensitive/eval_x"}
        assert sensitive == (expected if asked else set())
        in_history = {k for line in made.state.log_history for k in line if "sensitive" in k}
        assert in_history == sensitive
        # A callback that asks for the evaluation itself gets its values, marked.
        (evaluated,) = [values for kind, _, values in recorder.events if kind == "evaluate"]
        assert evaluated == {"sensitive/eval_x": 1.0}


def test_public_evaluations_are_logged(tmp_path):
    recorder = Recorder()
    made = events(tmp_path, recorder, evaluate=lambda: {"eval_x": 2.0}, eval_steps=2)
    step(made, 1)
    step(made, 2)
    assert ("log", 2, {"epoch": 0.5, "eval_x": 2.0}) in recorder.events


def test_evaluations_come_every_so_many_steps_and_at_the_end(tmp_path):
    recorder = Recorder()
    made = events(tmp_path, recorder, eval_steps=4)
    for number in range(1, 7):
        step(made, number)
    assert [e[1] for e in recorder.events if e[0] == "evaluate"] == [4, 6]


def test_callbacks_of_the_library_work(tmp_path, capsys):
    made = events(tmp_path, PrinterCallback)
    step(made, 1)
    step(made, 2)
    assert "'epsilon': '1'" in capsys.readouterr().out


def test_what_callbacks_send_away_is_the_runs_own_settings(tmp_path):
    args = callback_arguments(arguments(tmp_path, run_name="mine"), 6)
    values = args.to_dict()
    assert values["noise_multiplier"] == 2.0
    assert "max_grad_norm" not in values
    assert '"noise_multiplier": 2.0' in args.to_json_string()
    assert args.run_name == "mine"
    assert args.max_steps == 6


@pytest.mark.parametrize("callback", [EarlyStoppingCallback, EarlyStoppingCallback(2)])
def test_choosing_the_last_step_by_an_evaluation_is_refused(callback):
    with pytest.raises(ConfigError, match="must not stop a run by its evaluation"):
        check_callbacks([callback])


def test_other_objects_are_refused():
    with pytest.raises(
        ConfigError, match=r"`callbacks` must be TrainerCallback of .* got function"
    ):
        check_callbacks([lambda: None])
