"""Sharded frozen weights and recomputed activations change memory, and not a bit of what is trained."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import torch
from torch import nn

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.encoders.sharding import (
    WholeModule,
    checkpoint_activations,
    is_sharded,
    shard_weights,
)
from reldp.errors import ConfigError
from reldp.processes import Processes
from tests.encoders.tiny import write_model


@pytest.fixture(scope="module")
def found():
    """What processes found that share the weights of a tiny Llama (`tests.training.sharded_groups`)."""
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.training.sharded_groups", home],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_and_three_processes_with_a_part_of_the_model_train_the_same_weights(found):
    (alone,), two, three, (recomputed,) = found["sharded"]
    for process in (*two, *three, recomputed):
        for one, other in zip(alone["weights"], process["weights"], strict=True):
            # To 1e-5 of its size, and in fact to the bit: on a CPU other bits would mean other noise.
            one, other = np.array(one), np.array(other)
            assert np.abs(one - other).max() <= 1e-5 * np.abs(one).max()
        assert process["weights"] == alone["weights"]
        assert process["files"] == alone["files"]


def test_a_process_holds_its_part_of_the_frozen_weights_only(found):
    """Adapters are whole everywhere: they are a tenth of this tiny model."""
    (alone,), two, three, (recomputed,) = found["sharded"]
    assert alone["share"] == recomputed["share"] == 1.0
    assert all(0.5 < process["share"] < 0.6 for process in two)
    assert all(1 / 3 < process["share"] < 0.45 for process in three)


def test_after_training_the_model_is_whole_and_as_it_was(found):
    (alone,), *groups = found["sharded"]
    for process in (process for group in groups for process in group):
        assert process["frozen"] == alone["frozen"]
        assert process["encoded"] == alone["encoded"]


def test_a_sharded_model_is_not_evaluated_during_training(found):
    """Processes would run different numbers of batches, and wait for each other for ever."""
    (alone,), two, *_ = found["sharded"]
    assert alone["refusals"] == []
    assert all(len(process["refusals"]) == 4 for process in two)
    assert "must have whole weights" in two[0]["refusals"][0]


def test_what_cannot_be_sharded_is_refused_by_name_before_anything_is_written(found):
    for process in found["refused"]["full"]:
        assert "Full fine-tuning of sharded models is not supported" in process["error"]
    for process in found["refused"]["head"]:
        assert "must be used with a text model that is trained in its layers" in process["error"]
    for process in found["refused"]["loss"]:
        assert "got a message to other processes" in process["error"]
    (alone,) = found["refused"]["alone"]
    assert "must be used with several processes, got one" in alone["error"]


def test_recomputed_activations_give_the_same_embeddings_and_can_be_undone(tmp_path):
    encoder = TextEncoder.load(write_model("llama", tmp_path / "llama"), lora_rank=2)
    layer = encoder._text.backbone.get_base_model().layers[0]
    before, vectors = layer.forward.__func__, encoder.encode(["the red cat"])
    whole = WholeModule(encoder.module)
    assert whole.is_changed
    checkpoint_activations(encoder)
    assert "forward" in vars(layer)
    assert np.array_equal(encoder.encode(["the red cat"]), vectors)
    whole.restore()
    assert layer.forward.__func__ is before
    assert not whole.is_changed


def test_other_encoders_and_one_process_are_refused():
    with pytest.raises(
        ConfigError, match="`checkpoint_activations` must be used with a text model"
    ):
        checkpoint_activations(FeatureEncoder(3))
    with pytest.raises(ConfigError, match="`shard_weights` must be used with a text model"):
        shard_weights(FeatureEncoder(3), Processes(), "cpu")


def test_restoring_keeps_whole_parameters_and_drops_what_was_added():
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    module[0].requires_grad_(False)
    weight = module[0].weight
    whole = WholeModule(module)
    module[1].added = 1
    module[0].register_forward_hook(lambda *args: None)
    module[0].__class__ = type("Other", (nn.Linear,), {})
    whole.restore()
    assert type(module[0]) is nn.Linear
    assert module[0].weight is weight
    assert not module[0]._forward_hooks
    assert not hasattr(module[1], "added")
    assert not is_sharded(module)
    assert not WholeModule(None).is_changed
    assert torch.equal(module(torch.ones(1, 2)), torch.relu(module[0](torch.ones(1, 2))))
