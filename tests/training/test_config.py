"""Settings are checked on construction, are of three classes, and none of them changes epsilon."""

import dataclasses

import pytest

from reldp.errors import ConfigError
from reldp.plan import PrivacyPlan
from reldp.training import Trainer
from reldp.training.config import (
    SETTINGS,
    LearningSettings,
    LoggingSettings,
    PerformanceSettings,
    TrainingConfig,
    refuse_old_names,
)
from tests.training.small import small_parts

OTHER_VALUES = {
    "shard_weights": True,
    "checkpoint_activations": True,
    "noise_generator": "fast",
    "microbatch_units": 3,
    "device": "cuda:1",
    "precision": "bfloat16",
    "cuda_graphs": True,
    "threads": 2,
    "tokenize": "on the fly",
}


def names(kind):
    return {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"loss": "infonec"}, "loss"),
        ({"score": "cos"}, "score"),
        ({"temperature": 0.0}, "temperature"),
        ({"margin": "wide"}, "margin"),
        ({"pairing": "two"}, "pairing"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": 1e38}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"log_every": True}, "log_every"),
        ({"warmup_steps": -1}, "warmup_steps"),
        ({"microbatch_units": 1.5}, "microbatch_units"),
        ({"threads": 0}, "threads"),
        ({"tokenize": "later"}, "tokenize"),
        ({"average": 1.0}, "average"),
        ({"schedule": "linaer"}, "schedule"),
        ({"precision": "float16"}, "precision"),
        ({"noise_generator": "none"}, "noise_generator"),
        ({"device": "mps"}, "device"),
        ({"cuda_graphs": True}, "cuda_graphs"),
        ({"cuda_graphs": 1, "device": "cuda"}, "cuda_graphs"),
        ({"clip": 1}, "clip"),
        ({"optimizer": 3}, "optimizer"),
        ({"optimizer_options": {"lr": 1.0}}, "optimizer_options"),
        ({"optimizer_options": [1]}, "optimizer_options"),
        ({"progress": 1}, "progress"),
        ({"log_sensitive": "yes"}, "log_sensitive"),
        ({"wandb_project": 3}, "wandb_project"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_named(settings, name):
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        TrainingConfig.make(**settings)


def test_settings_are_frozen_and_come_back_from_plain_values():
    config = TrainingConfig.make(learning_rate=0.5, optimizer_options={"momentum": 0.9})
    for part in (config.learning, config.performance, config.logging):
        with pytest.raises(dataclasses.FrozenInstanceError):
            part.learning_rate = 1.0
    assert TrainingConfig.make(**config.to_dict()) == config


def test_flat_names_reach_the_class_that_they_belong_to():
    config = TrainingConfig.make(loss="hinge", threads=3, log_every=7)
    assert config.learning == LearningSettings(loss="hinge")
    assert config.performance == PerformanceSettings(threads=3)
    assert config.logging == LoggingSettings(log_every=7)
    assert TrainingConfig.make() == TrainingConfig()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_device_is_the_default_one_unless_given(monkeypatch, device):
    monkeypatch.setattr("reldp.encoders.device.default_device", lambda: device)
    assert PerformanceSettings().device == device
    assert PerformanceSettings(device="cuda:1").device == "cuda:1"


def test_options_given_are_copied():
    options = {"momentum": 0.9}
    learning = LearningSettings(optimizer_options=options)
    options["momentum"] = 0.1
    assert learning.optimizer_options == {"momentum": 0.9}


def test_no_training_setting_is_a_field_of_the_plan():
    """Privacy settings live in the plan, all others here; a name in both could contradict."""
    for kind in SETTINGS.values():
        assert not names(kind) & names(PrivacyPlan)


def test_a_name_belongs_to_one_class_of_settings():
    every = [name for kind in SETTINGS.values() for name in names(kind)]
    assert len(every) == len(set(every))
    assert list(SETTINGS) == [field.name for field in dataclasses.fields(TrainingConfig)]


@pytest.mark.parametrize("name", sorted(names(PerformanceSettings)))
def test_no_performance_setting_changes_epsilon_or_the_plan(name):
    """A new field needs another value above: then this test looks at it too."""
    settings = {"device": "cuda"} if name == "cuda_graphs" else {}
    changed = TrainingConfig.make(**settings, **{name: OTHER_VALUES[name]})
    assert getattr(changed.performance, name) != getattr(PerformanceSettings(), name)
    assert (changed.learning, changed.logging) == (LearningSettings(), LoggingSettings())
    encoder, capped, plan = small_parts()
    before = (plan.hash, plan.epsilon(), plan.event)
    if changed.performance.device == "cpu":
        plan = Trainer(encoder, capped, plan, **changed.to_dict()).plan
    assert (plan.hash, plan.epsilon(), plan.event) == before


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("learnin_rate", "Did you mean learning_rate"),
        ("micro_batch_units", "Did you mean microbatch_units"),
        ("qqqqqq", "There are: loss, score"),
        ("chunk_units", "must be written microbatch_units"),
        ("noise", "must be written noise_generator"),
        ("replay", "must be written cuda_graphs"),
        ("log_private", "must be written log_sensitive"),
    ],
)
def test_an_unknown_name_is_answered_with_the_right_one(name, fix):
    with pytest.raises(ConfigError, match=f"`{name}` must be .*{fix.removeprefix('must be ')}"):
        TrainingConfig.make(**{name: 1})


def test_names_that_are_in_use_are_not_refused_as_old():
    refuse_old_names(TrainingConfig().to_dict())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_options_that_cannot_be_written_down_are_refused(value):
    with pytest.raises(ConfigError, match="`optimizer_options` must be finite numbers and texts"):
        LearningSettings(optimizer_options={"weight_decay": value})
    assert LearningSettings(optimizer_options={"betas": (0.9, 0.99), "foreach": None})


@pytest.mark.parametrize(
    "other", [{"precision": "bfloat16"}, {"device": "cuda", "cuda_graphs": True}]
)
def test_sharded_weights_are_not_cast_or_captured(other):
    with pytest.raises(ConfigError, match="`shard_weights` must be used with precision float32"):
        PerformanceSettings(shard_weights=True, **other)
