"""sentence-transformers loads a model with trained pooling, and saves it again."""

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from reldp.encoders.text import TextEncoder
from tests.encoders.tiny import TEXTS, write_model


def test_sentence_transformers_gives_the_same_embeddings(tmp_path):
    folder = write_model("bert", tmp_path / "model")
    encoder = TextEncoder.load(folder, train="pooling", pooling="mean", normalize=True)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in encoder.trainable().values():
            value.copy_(torch.randn(value.shape, generator=generator))
    encoder.save(tmp_path / "saved")
    model = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    expected = encoder.encode(TEXTS)
    assert model.get_embedding_dimension() == encoder.dim
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
    model.save(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(
        TextEncoder.load(tmp_path / "again", train="none").encode(TEXTS), expected, atol=1e-5
    )
