"""Encoders by their folder, whatever is in it."""

import numpy as np
import pytest
import torch

from reldp.encoders import Column, FeatureEncoder, ModuleEncoder
from reldp.errors import ConfigError, EncoderError
from reldp.training import Trainer
from reldp.training.trained import load_trained, load_trained_loss
from tests.encoders.modules import tabular
from tests.encoders.tiny import TEXTS, write_model
from tests.training.small import small_encoder, small_graph, small_parts, small_types

torch.set_num_threads(1)


def test_a_run_gives_its_own_encoder(tmp_path):
    result = Trainer(*small_parts()).fit(tmp_path / "run")
    found = load_trained(tmp_path / "run")
    features = small_graph().features
    assert np.array_equal(found.encode(features), result.encoder.encode(features))


def test_the_typed_loss_of_a_run_or_none(tmp_path):
    parts = small_parts(types=small_types())
    result = Trainer(*parts, loss="transe").fit(tmp_path / "run")
    for place in (tmp_path / "run", tmp_path / "run" / "model"):
        assert torch.equal(load_trained_loss(place).relations.weight, result.loss.relations.weight)
    Trainer(*small_parts()).fit(tmp_path / "untyped")
    assert load_trained_loss(tmp_path / "untyped") is None
    assert load_trained_loss("org/some-hub-name") is None


def test_saved_and_bare_models(tmp_path):
    small_encoder().save(tmp_path / "features")
    assert isinstance(load_trained(tmp_path / "features"), FeatureEncoder)
    write_model("bert", tmp_path / "bert")
    bare = load_trained(tmp_path / "bert", pooling="cls")
    assert bare.encode(TEXTS[:2]).shape == (2, 32)
    assert not bare.trainable()


def test_what_cannot_be_loaded_is_a_clear_error(tmp_path):
    with pytest.raises(EncoderError, match="does not exist"):
        load_trained(tmp_path / "nothing")
    small_encoder().save(tmp_path / "features")
    with pytest.raises(ConfigError, match="`pooling` must be left out"):
        load_trained(tmp_path / "features", pooling="cls")


def test_the_code_of_a_module_is_not_in_its_folder(tmp_path):
    ModuleEncoder(tabular(), Column("features", shape=6)).save(tmp_path / "model")
    with pytest.raises(
        ConfigError, match=r"got 'model' with the module .*Sequential, whose code"
    ) as said:
        load_trained(tmp_path / "model")
    assert "reldp.ModuleEncoder.load(folder, module, inputs)" in str(said.value)
    (tmp_path / "model" / "encoder.json").write_text('{"kind": "gated"}')
    with pytest.raises(ConfigError, match="with the module gated"):
        load_trained(tmp_path / "model")
