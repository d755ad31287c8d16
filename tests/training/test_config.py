"""Settings of the loop are checked on construction, and none of them is a privacy setting."""

import dataclasses

import pytest

from reldp.errors import ConfigError
from reldp.plan import PrivacyPlan
from reldp.training.config import LEARNING, PERFORMANCE, TrainingConfig


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"log_every": True}, "log_every"),
        ({"warmup_steps": -1}, "warmup_steps"),
        ({"chunk_units": 1.5}, "chunk_units"),
        ({"threads": 0}, "threads"),
        ({"average": 1.0}, "average"),
        ({"schedule": "linaer"}, "schedule"),
        ({"precision": "float16"}, "precision"),
        ({"noise": "none"}, "noise"),
        ({"device": "mps"}, "device"),
        ({"clip": 1}, "clip"),
        ({"optimizer": 3}, "optimizer"),
        ({"optimizer_options": {"lr": 1.0}}, "optimizer_options"),
        ({"optimizer_options": [1]}, "optimizer_options"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_named(settings, name):
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        TrainingConfig(**settings)


def test_settings_are_frozen_and_come_back_from_plain_values():
    config = TrainingConfig(learning_rate=0.5, optimizer_options={"momentum": 0.9})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.learning_rate = 1.0
    assert TrainingConfig.make(config.to_dict()) == config


def test_options_given_are_copied():
    options = {"momentum": 0.9}
    config = TrainingConfig(optimizer_options=options)
    options["momentum"] = 0.1
    assert config.optimizer_options == {"momentum": 0.9}


def test_no_training_setting_is_a_field_of_the_plan():
    """Privacy settings live in the plan, all others here; a name in both could contradict."""
    here = {field.name for field in dataclasses.fields(TrainingConfig)}
    there = {field.name for field in dataclasses.fields(PrivacyPlan)}
    assert not here & there


def test_groups_name_settings_and_do_not_overlap():
    known = {field.name for field in dataclasses.fields(TrainingConfig)}
    assert set(LEARNING) | set(PERFORMANCE) <= known
    assert not set(LEARNING) & set(PERFORMANCE)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_options_that_cannot_be_written_down_are_refused(value):
    """Before, they were a traceback after the run folder had been begun."""
    with pytest.raises(ConfigError, match="`optimizer_options` must be finite numbers and texts"):
        TrainingConfig(optimizer_options={"weight_decay": value})
    assert TrainingConfig(optimizer_options={"betas": (0.9, 0.99), "foreach": None})
