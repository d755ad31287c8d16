"""A run whose pages have sentences of another version is not verified, and the message says what to try."""

import pytest

import reldp
from reldp.errors import VerificationError
from reldp.reporting import verify
from reldp.runs import model_card
from reldp.training import Trainer
from tests.training.small import small_parts


def test_other_sentences_of_another_version_are_named_as_a_reason(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    Trainer(*small_parts(num_steps=2)).fit(folder)
    hint = rf"names reldp '{reldp.__version__}', and this is 99\.0, .* version that it was made"
    with monkeypatch.context() as patch:
        patch.setattr(reldp, "__version__", "99.0")
        assert verify(folder)  # the same sentences verify, whatever the version
        patch.setattr(model_card, "_FEATURE_USE", "reworded")
        with pytest.raises(VerificationError, match=hint):
            verify(folder)
        # Of what no version writes otherwise, it is not the reason.
        patch.undo()
        patch.setattr(reldp, "__version__", "99.0")
        weights = folder / "model" / "model.safetensors"
        content = weights.read_bytes()
        weights.write_bytes(content + b"x")
        with pytest.raises(VerificationError, match=r"is changed\.$"):
            verify(folder)
        weights.write_bytes(content)
    monkeypatch.setattr(model_card, "_FEATURE_USE", "reworded")
    with pytest.raises(
        VerificationError, match=r"does not say what follows from plan and ledger\.$"
    ):
        verify(folder)
