import pytest
import torch
from torch import nn

from reldp.encoders.encoder import entities_of, refuse_batch_mixing
from reldp.encoders.features import FeatureEncoder
from reldp.errors import EncoderError
from reldp.graph import EntityGraph


def test_trainable_parameters_are_read_and_set_by_name():
    one, other = FeatureEncoder(3, hidden=(4,), seed=1), FeatureEncoder(3, hidden=(4,), seed=2)
    other.load_trainable({name: value.detach() for name, value in one.trainable().items()})
    for name, value in other.trainable().items():
        assert torch.equal(value, one.trainable()[name])


def test_parameters_of_another_encoder_are_refused_and_change_nothing():
    encoder = FeatureEncoder(3)
    before = {name: value.detach().clone() for name, value in encoder.trainable().items()}
    with pytest.raises(EncoderError, match=r"difference at 'layers\.0\.bias'"):
        encoder.load_trainable({"layers.0.weight": torch.zeros(3, 3)})
    with pytest.raises(EncoderError, match="shape"):
        encoder.load_trainable(
            {"layers.0.weight": torch.zeros(3, 3), "layers.0.bias": torch.zeros(4)}
        )
    for name, value in encoder.trainable().items():
        assert torch.equal(value, before[name])


def test_a_device_that_is_not_there_is_a_clear_line():
    with pytest.raises(EncoderError, match=r"`device` must exist here, got meta9000"):
        FeatureEncoder(3).to("meta9000")


def test_the_device_is_that_of_a_buffer_where_there_is_no_parameter():
    encoder = FeatureEncoder(3)
    encoder.module = nn.Identity()
    assert encoder.device == torch.device("cpu")
    encoder.module.register_buffer("scale", torch.ones(3, device="meta"))
    assert encoder.device == torch.device("meta")


def test_layers_that_mix_rows_are_refused_and_layer_norm_is_not():
    refuse_batch_mixing(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))
    with pytest.raises(EncoderError, match="BatchNorm1d at '1'"):
        refuse_batch_mixing(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))


def test_a_degree_bound_does_not_hide_the_entities():
    graph = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"])
    assert entities_of(graph) is graph
    assert entities_of(graph.cap_degrees(1, seed=0)) is graph
