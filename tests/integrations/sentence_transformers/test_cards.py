"""The model card: the certificate's numbers in the metadata, as any reader of YAML finds them."""

import pytest
from huggingface_hub import ModelCard

from reldp.integrations.sentence_transformers.cards import (
    _scalar,
    privacy_metadata,
    private_card,
    write_card,
)
from reldp.plan import PrivacyPlan
from reldp.runs.certificate import Certificate
from reldp.runs.ledger import read_ledger
from tests.test_sample_certificate import DOCS


@pytest.fixture
def certificate():
    """That of docs/sample."""
    plan = PrivacyPlan.from_json((DOCS / "sample" / "plan.json").read_text())
    return Certificate.from_ledger(plan, read_ledger(DOCS / "sample" / "ledger.jsonl"))


def test_the_metadata_hold_the_guarantee(certificate):
    data = ModelCard(private_card(certificate)).data.to_dict()
    assert data["library_name"] == "sentence-transformers"
    assert data["pipeline_tag"] == "sentence-similarity"
    assert {"differential-privacy", "sentence-transformers"} <= set(data["tags"])
    privacy = data["differential_privacy"]
    assert privacy == privacy_metadata(certificate)
    assert privacy["epsilon"] == certificate.epsilon
    assert privacy["delta"] == certificate.delta
    assert privacy["status"] == "proven"
    assert privacy["unit"] == "entity"
    assert privacy["ledger_head"] == certificate.values["ledger"]["head"]


@pytest.mark.parametrize(("name", "stated"), [("owner/model", True), ("a-folder", False)])
def test_the_base_model_is_named_if_the_hub_has_it(certificate, name, stated):
    encoder = {**certificate.values["encoder"], "base_model": name}
    card = ModelCard(private_card(Certificate({**certificate.values, "encoder": encoder})))
    assert card.data.to_dict().get("base_model") == (name if stated else None)


def test_the_text_has_the_section_about_privacy(certificate):
    text = ModelCard(private_card(certificate)).text
    assert "## Privacy" in text
    assert certificate.summary in text


@pytest.mark.parametrize("value", [1e-06, 2.5e-07, 0.5, 3, "Infinity", 'the "word"'])
def test_yaml_reads_the_value_back(value):
    import yaml

    assert yaml.safe_load(_scalar(value)) == value


def test_the_certificate_lies_beside_the_card(tmp_path, certificate):
    write_card(tmp_path, certificate)
    assert (tmp_path / "README.md").read_text() == private_card(certificate)
    assert Certificate.from_json((tmp_path / "certificate.json").read_bytes()) == certificate
    assert (tmp_path / "certificate.md").read_text() == certificate.to_markdown()
