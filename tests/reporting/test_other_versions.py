"""A run whose pages have sentences of another version is not verified, and the message says what to try."""

import pytest

import reldp
from reldp.errors import VerificationError
from reldp.reporting import verify
from reldp.reporting.publishing import write_report
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


@pytest.mark.parametrize("name", ["report.html", "certificate.html"])
def test_a_page_of_another_version_is_named_as_a_reason(tmp_path, monkeypatch, name):
    folder = tmp_path / "run"
    Trainer(*small_parts(num_steps=2)).fit(folder)
    write_report(folder)
    page = folder / name
    page.write_bytes(page.read_bytes() + b" ")
    with pytest.raises(VerificationError, match=r"Rewrite it with reldp report\.$"):
        verify(folder)
    monkeypatch.setattr(reldp, "__version__", "99.0")
    with pytest.raises(VerificationError, match=r"and this is 99\.0, whose pages may have other"):
        verify(folder)
