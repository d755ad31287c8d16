"""The model card quotes the certificate and shows how to use what is in the folder."""

from dataclasses import replace

import pytest

from reldp.errors import VerificationError
from reldp.reporting import verify
from reldp.runs.certificate import Certificate
from reldp.runs.model_card import model_card
from reldp.runs.run_folder import RunFolder
from reldp.training import Trainer
from tests.reporting.example import PLAN, certificate_of, ledger
from tests.training.small import small_parts


def values(plan=PLAN):
    return Certificate.from_ledger(plan, ledger(plan)).values


def test_the_promise_and_the_ledger_s_head_are_on_the_card():
    card = model_card(values())
    assert "**Proven, under the assumptions of the certificate: (" in card
    assert "f" * 64 in card
    assert "`small-model`" in card
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("private", "noisy bounds"),
        ("declared", "only neighbors that both meet"),
        ("public", "are public"),
    ],
)
def test_the_card_says_what_is_known_about_sizes(mode, words):
    row = next(x for x in model_card(certificate_of(mode).values).splitlines() if "| sizes |" in x)
    assert words in row.lower()


def test_a_card_of_features_shows_another_use():
    changed = {**values(), "encoder": {"kind": "features", "in_dim": 4}}
    card = model_card(changed)
    assert "FeatureEncoder.load" in card
    assert "number of trained parameters" not in card
    changed["encoder"] |= {"hidden": [], "dim": 3, "bias": False}
    assert "| number of trained parameters | 12 |" in model_card(changed)
    assert "| number of trained parameters |  |" in model_card(changed, has_count=False)
    assert "sentence" not in card.split("## Use")[1]


def test_a_card_of_a_module_says_that_its_code_is_needed():
    changed = {**values(), "encoder": {"kind": "module", "module": "shop.Net"}}
    card = model_card(changed)
    assert "from the module `shop.Net`" in card
    assert "ModuleEncoder.load(" in card
    assert "FeatureEncoder" not in card


def test_a_model_without_privacy_says_so_first():
    card = model_card(values(replace(PLAN, noise_multiplier=0.0)))
    assert card.index("No privacy") < card.index("## Privacy")


def test_the_card_of_a_feature_encoder_may_lack_the_number_of_weights(tmp_path):
    """Versions before 0.8 left it out, and their runs verify."""
    run = RunFolder(tmp_path / "run")
    Trainer(*small_parts()).fit(run.path)
    made = Certificate.from_json(run.certificate.read_bytes()).values
    run.card.write_text(model_card(made, has_count=False))
    assert verify(run.path)
    run.card.write_text(model_card(made, has_count=False) + " ")
    with pytest.raises(VerificationError, match="the model card"):
        verify(run.path)
