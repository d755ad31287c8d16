"""Verification passes on good runs and fails on every kind of tampering."""

import json
import shutil

import pytest
import torch

from reldp.accounting.ledger import _FIRST_LINK, _line
from reldp.encoders import FeatureEncoder
from reldp.errors import RunError, VerificationError
from reldp.reporting import verify
from reldp.training import Trainer
from tests.training.small import small_encoder, small_parts

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    Trainer(*small_parts(), checkpoint_every=5).fit(folder)
    return folder


@pytest.fixture
def run(good, tmp_path):
    return shutil.copytree(good, tmp_path / "run")


def lines(run):
    return (run / "ledger.jsonl").read_text().splitlines()


def rewrite(run, entries):
    """Writes entries as a ledger whose chain is in order: what a careful forger would do."""
    head, text = _FIRST_LINK, b""
    for entry in entries:
        line, head = _line({k: v for k, v in entry.items() if k != "hash"}, head)
        text += line
    (run / "ledger.jsonl").write_bytes(text)


def change_json(path, change):
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def test_a_good_run_passes(run):
    found = verify(run)
    assert len(found.checks) == 6
    assert found.certificate.epsilon > 0


def edit_ledger(run):
    text = (run / "ledger.jsonl").read_text()
    (run / "ledger.jsonl").write_text(text.replace('"stop":10', '"stop":11'))


def remove_line(run):
    kept = lines(run)
    (run / "ledger.jsonl").write_text("\n".join(kept[:2] + kept[3:]) + "\n")


def remove_last_line(run):
    (run / "ledger.jsonl").write_text("\n".join(lines(run)[:-1]) + "\n")


def forge_fewer_steps(run):
    entries = [json.loads(line) for line in lines(run)]
    blocks = ["reserve", "checkpoint"] * 3
    assert [e["kind"] for e in entries] == ["start", *blocks, "complete"]
    del entries[5:7]
    entries[-1]["num_counted"] = 10
    rewrite(run, entries)


def edit_plan(run):
    change_json(run / "plan.json", lambda plan: plan.update(noise_multiplier=3.0))


def swap_model(run):
    shutil.rmtree(run / "model")
    FeatureEncoder.save(small_encoder(seed=4), run / "model")


def change_one_weight(run):
    path = run / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def add_model_file(run):
    (run / "model" / "extra.bin").write_bytes(b"x")


def remove_model_file(run):
    (run / "model" / "encoder.json").unlink()


def edit_epsilon(run):
    def smaller(values):
        values["guarantee"]["epsilon"]["pld"] *= 0.5

    change_json(run / "certificate.json", smaller)


def edit_assumptions(run):
    change_json(run / "certificate.json", lambda values: values["assumptions"].pop())


def edit_steps(run):
    change_json(run / "certificate.json", lambda values: values["steps"].update(counted=11))


def add_a_promise(run):
    change_json(run / "certificate.json", lambda values: values.update(also="perfect secrecy"))


def edit_text(run):
    path = run / "certificate.md"
    path.write_text(path.read_text().replace("Proven", "Proven beyond doubt"))


def edit_card(run):
    path = run / "model" / "README.md"
    path.write_text(path.read_text().replace("| epsilon |", "| small epsilon |"))


def bring_back_a_key(run):
    (run / "key").write_bytes(bytes(32))


def remove_certificate(run):
    (run / "certificate.json").unlink()


def remove_plan(run):
    (run / "plan.json").unlink()


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (edit_ledger, "changed, removed or added"),
        (remove_line, "changed, removed or added"),
        (remove_last_line, "has no end"),
        (forge_fewer_steps, "certificate.json states"),
        (edit_plan, "plan.json is not the plan"),
        (swap_model, "model/model.safetensors is changed"),
        (change_one_weight, "model/model.safetensors is changed"),
        (add_model_file, "model/extra.bin is new"),
        (remove_model_file, "model/encoder.json is missing"),
        (edit_epsilon, "states guarantee.epsilon.pld"),
        (edit_assumptions, "states assumptions"),
        (edit_steps, "states steps.counted 11, but it is 12"),
        (add_a_promise, "states also 'perfect secrecy', but it is None"),
        (edit_text, "certificate.md does not say"),
        (edit_card, "model card does not say"),
        (bring_back_a_key, "The key is still there"),
        (remove_certificate, "certificate.json is missing"),
        (remove_plan, "plan.json must be in the run folder"),
    ],
)
def test_every_kind_of_tampering_is_named(run, tamper, words):
    tamper(run)
    with pytest.raises(VerificationError, match="does not hold what it says") as caught:
        verify(run)
    assert words in str(caught.value)


def test_an_epsilon_in_its_last_digits_is_the_same(run):
    """Another machine may sum in another order; a change that matters may not hide in that."""

    def nudge(factor):
        def change(values):
            values["guarantee"]["epsilon"]["pld"] *= factor

        return change

    change_json(run / "certificate.json", nudge(1 + 1e-9))
    verify(run)
    change_json(run / "certificate.json", nudge(1 - 1e-4))
    with pytest.raises(VerificationError):
        verify(run)


def test_an_audit_is_part_of_the_certificate(run):
    from reldp.reporting.publishing import publish
    from reldp.reporting.run_folder import RunFolder

    (run / "audits.json").write_text(json.dumps([{"lower_bound": 0.3}]))
    with pytest.raises(VerificationError, match="states audits"):
        verify(run)
    publish(RunFolder(run))
    assert verify(run).certificate.values["audits"] == [{"lower_bound": 0.3}]
    assert "lower_bound" in (run / "certificate.md").read_text()


def test_folders_without_a_run_are_clear_errors(tmp_path):
    with pytest.raises(RunError, match="must exist"):
        verify(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"must hold ledger\.jsonl"):
        verify(tmp_path)
