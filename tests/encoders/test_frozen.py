"""Encoders of a frozen model: its outputs are kept, and it moves and rests with what is trained."""

import pytest

from reldp.encoders.frozen import FrozenTextEncoder
from reldp.encoders.text import TextEncoder
from tests.encoders.test_pooling_encoder import make_graph


@pytest.mark.parametrize("train", ["head", "pooling"])
def test_the_frozen_model_follows_and_its_outputs_are_kept(folder, train):
    encoder = TextEncoder.load(folder, train=train, pooling="mean")
    assert isinstance(encoder, FrozenTextEncoder)
    assert not encoder.table_is_exact
    parts = (encoder.module, encoder._text)
    for part in parts:
        part.train()
    encoder.eval()
    assert not any(part.training for part in parts)
    calls = []
    encoder._text.register_forward_pre_hook(lambda *_: calls.append(1))
    table = encoder.table(make_graph(), keep_states=False)
    calls.clear()
    encoder.embed(encoder.rows(table, [0, 1]))
    assert not calls  # the frozen model is not run again
