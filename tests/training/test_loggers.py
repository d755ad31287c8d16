"""Other loggers get sensitive values, and the times of steps, only when they are asked for."""

import json
import sys
from types import SimpleNamespace

import pytest

from reldp.cli.main import main
from reldp.errors import MissingDependency
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from reldp.training.config import TrainingConfig
from reldp.training.loggers import make_loggers
from tests.training.small import small_graph, small_parts
from tests.training.test_metrics import REPORT, weights

LINES = [
    {"step": step, "learning_rate": 0.1 * step, "sensitive": {"loss": 0.5, "num_tuples": 3}}
    for step in range(2)
]


@pytest.fixture
def sent(monkeypatch):
    """Every call that reaches Weights & Biases, in order."""
    calls = []
    started = SimpleNamespace(
        log=lambda values, step: calls.append(("log", step, values)),
        finish=lambda: calls.append(("finish",)),
    )

    def init(**settings):
        calls.append(("init", settings))
        return started

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    return calls


def test_a_project_alone_gets_no_sensitive_value_and_no_time_of_a_step(tmp_path, sent):
    """On 0.3.0 naming a project sent losses and batch sizes to it, each with its time."""
    from reldp.training.metrics import MetricsLog

    with MetricsLog(RunFolder(tmp_path), TrainingConfig.make(wandb_project="p"), 0, 0) as log:
        log.write(0, 0.1, REPORT, weights())
        log.write(1, 0.2, REPORT, weights())
        assert sent == []  # whatever it receives is stamped with the time
    assert sent == [
        ("init", {"project": "p", "name": tmp_path.name}),
        ("log", 0, {"learning_rate": 0.1}),
        ("log", 1, {"learning_rate": 0.2}),
        ("finish",),
    ]


def test_asked_for_they_are_sent_at_once_under_marked_names_after_a_warning(tmp_path, sent, capsys):
    from reldp.training.metrics import MetricsLog

    config = TrainingConfig.make(wandb_project="p", log_sensitive=True)
    with MetricsLog(RunFolder(tmp_path), config, 0, 0) as log:
        assert "'p', off this machine" in capsys.readouterr().err
        log.write(0, 0.1, REPORT, weights())
        assert "log_sensitive is on" in sent[0][1]["notes"]
        assert sent[1][2]["learning_rate"] == 0.1
        assert sent[1][2]["sensitive/loss"] == 0.5
    assert sent[-1] == ("finish",)


@pytest.mark.parametrize("sensitive", [False, True])
def test_tensorboard_events_carry_a_time_only_when_asked_for(tmp_path, monkeypatch, sensitive):
    calls = []

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_text(self, *given):
            calls.append(("text", *given))

        def add_scalar(self, name, value, step, walltime):
            calls.append((name, step, walltime))

        def flush(self):
            pass

        close = flush

    monkeypatch.setitem(
        sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer)
    )
    config = TrainingConfig.make(tensorboard=True, log_sensitive=sensitive)
    (logger,) = make_loggers(RunFolder(tmp_path), config)
    assert (tmp_path / "tensorboard").stat().st_mode & 0o077 == 0  # for its owner only
    for line in LINES:
        kept = line if sensitive else {k: v for k, v in line.items() if k != "sensitive"}
        logger.write(line["step"], kept)
    logger.close()
    if sensitive:
        assert calls[0][:2] == ("text", "sensitive")
        assert ("sensitive/loss", 1, None) in calls
    else:
        assert calls == [("learning_rate", 0, 0.0), ("learning_rate", 1, 1.0)]


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        ("wandb", {"wandb_project": "p"}),
        ("wandb", {"wandb_project": "p", "log_sensitive": True}),
        ("torch.utils.tensorboard", {"tensorboard": True}),
    ],
)
def test_a_logger_that_is_not_installed_is_named_before_training(
    tmp_path, monkeypatch, capsys, module, settings
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match="must be installed"):
        make_loggers(RunFolder(tmp_path), TrainingConfig.make(**settings))
    with pytest.raises(MissingDependency, match="must be installed"):
        Trainer(*small_parts(), **settings)
    small_graph().write(tmp_path / "graph")
    options = [f"--set=logging.{name}={json.dumps(value)}" for name, value in settings.items()]
    command = [
        "train",
        str(tmp_path / "graph"),
        "--target-epsilon",
        "4",
        "-o",
        str(tmp_path / "run"),
    ]
    assert main([*command, *options]) == 2
    said = capsys.readouterr()
    assert "must be installed to log to it, got none. Use pip install" in said.err
    assert "released" not in said.out + said.err
    assert not (tmp_path / "run").exists()
