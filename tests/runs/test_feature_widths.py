"""Widths of a ledger are compared with the stored weights before memory is used for them."""

import json

import pytest

from reldp.auditing.run_audit import audit_canaries
from reldp.encoders import FeatureEncoder
from reldp.errors import LedgerError
from reldp.runs.feature_widths import num_feature_weights, refuse_wide_layers
from reldp.runs.ledger import _FIRST_LINK, _line
from reldp.runs.run_folder import RunFolder
from reldp.training.finishing import finish, named_encoder
from tests.training.interrupted import stopped
from tests.training.small import small_graph, small_parts

WIDE = 2**15


@pytest.mark.parametrize("hidden", [(), (5,), (5, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_number_is_that_of_the_encoder(hidden, bias):
    encoder = FeatureEncoder(3, hidden=hidden, dim=4, bias=bias)
    count = sum(value.numel() for value in encoder.module.parameters())
    assert num_feature_weights(encoder.describe()) == count


@pytest.mark.parametrize(
    "changes", [{"kind": "text"}, {"dim": None}, {"hidden": 3}, {"hidden": ["x"]}, {"in_dim": -1}]
)
def test_a_description_without_widths_has_no_number(changes):
    assert num_feature_weights({**FeatureEncoder(3).describe(), **changes}) is None


def test_a_damaged_ledger_makes_no_wide_encoder(tmp_path, monkeypatch):
    place = stopped(monkeypatch, tmp_path / "run", *small_parts())
    run = RunFolder(place)
    refuse_wide_layers(run, json.loads(run.ledger.read_text().splitlines()[0])["encoder"])
    head, lines = _FIRST_LINK, b""
    for number, text in enumerate(run.ledger.read_text().splitlines()):
        entry = json.loads(text)
        del entry["hash"]
        if number == 0:
            entry["encoder"] |= {"hidden": [WIDE, WIDE]}
        line, head = _line(entry, head)
        lines += line
    run.ledger.write_bytes(lines)
    monkeypatch.setattr(FeatureEncoder, "__init__", lambda *_, **__: 1 / 0)
    words = "must have the widths of the weights in the run folder"
    with pytest.raises(LedgerError, match=words):
        finish(place, decided_by="steps")
    with pytest.raises(LedgerError, match=words):
        named_encoder(place, "any")
    with pytest.raises(LedgerError, match=words):
        audit_canaries(run, small_graph())


def test_a_head_is_counted_too():
    """Its widths are in the description of a text encoder, and it is made before it is compared."""
    head = {"train": "head", "hidden": [WIDE, WIDE], "dim": 4, "seed": 0}
    described = {"kind": "text", "hidden_size": 32, "adaptation": head}
    assert num_feature_weights(described) == (WIDE + 1) * WIDE + (WIDE + 1) * 4
    for adaptation in ({"train": "lora"}, None, 3, {**head, "hidden": "x"}, {**head, "dim": None}):
        assert num_feature_weights({**described, "adaptation": adaptation}) is None
