"""What a text encoder takes from its model."""

import pytest
import torch

from reldp.encoders.loading import load_pretrained
from reldp.encoders.text_defaults import base_hash, checked_max_length, checked_pooling
from reldp.errors import EncoderError
from tests.encoders.tiny import write_model


@pytest.fixture(params=["bert", "llama"])
def pretrained(request, tmp_path):
    return load_pretrained(write_model(request.param, tmp_path / request.param))


def test_pooling_is_as_asked_for_or_the_usual_one(pretrained):
    decoder = pretrained.model.config.model_type == "llama"
    assert checked_pooling(None, pretrained) == ("last" if decoder else "mean")
    assert checked_pooling("mean", pretrained) == "mean"
    with pytest.raises(EncoderError, match="`pooling` must be one of"):
        checked_pooling("median", pretrained)


def test_a_decoder_s_first_token_has_seen_nothing(tmp_path):
    with pytest.raises(EncoderError, match="last or mean for llama"):
        checked_pooling("cls", load_pretrained(write_model("llama", tmp_path / "llama")))


def test_a_length_beyond_the_model_s_positions_is_refused(pretrained):
    own = checked_max_length(None, pretrained)
    assert checked_max_length(own, pretrained) == own
    for wrong in (0, 10**6, 3.5):
        with pytest.raises(EncoderError, match=r"`max_length` must be an integer from [23] to"):
            checked_max_length(wrong, pretrained)


def test_a_tokenizer_without_a_limit_has_that_of_the_model(pretrained):
    own = checked_max_length(None, pretrained)
    for unlimited in (float("inf"), 10**30, 1e300):
        pretrained.tokenizer.model_max_length = unlimited
        assert checked_max_length(None, pretrained) == own


def test_the_hash_of_base_weights_sees_one_changed_number(pretrained):
    before = base_hash(pretrained)
    assert base_hash(pretrained) == before
    with torch.no_grad():
        next(pretrained.model.parameters()).view(-1)[0] += 1e-3
    assert base_hash(pretrained) != before
