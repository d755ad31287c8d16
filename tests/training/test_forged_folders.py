"""Files of a stopped run that were edited, forged or taken from another run are refused."""

import json
import os
import shutil

import pytest
import torch

from reldp.encoders.folders import state_hash
from reldp.errors import ResumeError
from reldp.runs.ledger import _FIRST_LINK, _line, read_ledger
from reldp.training import Trainer
from tests.training.interrupted import SETTINGS, copied, resumed, stopped
from tests.training.small import (
    small_encoder,
    small_graph,
    small_parts,
    small_plan,
)

torch.set_num_threads(1)


def test_an_edited_private_file_is_refused(folder):
    place = folder / "sensitive.json"
    values = json.loads(place.read_text())
    other = small_graph(seed=1).promise_degrees(4)
    values |= {"fingerprint": other.fingerprint}
    place.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
    with pytest.raises(ResumeError, match="the ledger commits to"):
        resumed(folder, small_encoder(), other, small_plan(other))


def test_an_edited_plan_is_refused(folder):
    """On 0.3.0 plan.json was compared with the plan asked for, and neither with the ledger."""
    encoder, capped, _ = small_parts()
    other = small_plan(capped, noise_multiplier=1.0)
    (folder / "plan.json").write_text(other.to_json())
    with pytest.raises(ResumeError, match="not the one that the ledger names"):
        resumed(folder, encoder, capped, other)


def another_run(tmp_path, monkeypatch):
    """The checkpoint, at the same step, of a run without noise."""
    parts = small_parts(noise_multiplier=0.0)
    return stopped(monkeypatch, tmp_path / "other", *parts)


def test_a_checkpoint_of_another_run_is_refused(folder, tmp_path, monkeypatch):
    other = another_run(tmp_path, monkeypatch)
    name = "step-000000004.safetensors"
    shutil.copy(other / "checkpoints" / name, folder / "checkpoints" / name)
    with pytest.raises(ResumeError, match="belongs to another run"):
        resumed(folder)


def test_a_later_checkpoint_that_the_ledger_does_not_name_is_not_used(folder, monkeypatch):
    """Not even one of the same run: a crash may have left it before it was named."""
    whole = resumed(copied(folder))
    name = "step-000000008.safetensors"
    shutil.copy(
        folder / "checkpoints" / "step-000000004.safetensors", folder / "checkpoints" / name
    )
    result = resumed(folder)
    assert state_hash(result.encoder.trainable()) == state_hash(whole.encoder.trainable())
    assert os.listdir(folder / "checkpoints") == ["step-000000012.safetensors"]


def test_without_its_metrics_a_run_still_repeats_or_is_refused(folder):
    whole = resumed(copied(folder))
    (folder / "metrics.jsonl").unlink()
    encoder, capped, plan = small_parts()
    encoder.module.normalize = not encoder.module.normalize
    with pytest.raises(ResumeError):
        resumed(folder, encoder, capped, plan)
    result = resumed(folder)
    assert state_hash(result.encoder.trainable()) == state_hash(whole.encoder.trainable())


def rewrite(folder, change):
    """A ledger changed by somebody who knows how it is hashed."""
    place = folder / "ledger.jsonl"
    entries = [json.loads(line) for line in place.read_text().splitlines()]
    change(entries)
    text, head = b"", _FIRST_LINK
    for entry in entries:
        entry.pop("hash", None)
        line, head = _line(entry, head)
        text += line
    place.write_bytes(text)


def test_even_with_a_forged_ledger_other_data_meet_other_noise(folder, addresses, tmp_path):
    """The key of the noise is bound to what is computed, whatever the files say."""
    resumed(copied(folder))
    first = set(addresses)
    addresses.clear()
    stranger = tmp_path / "stranger"
    other = small_graph(seed=1).promise_degrees(4)
    Trainer(small_encoder(), other, small_plan(other), **SETTINGS).fit(stranger)
    start = read_ledger(stranger / "ledger.jsonl").start
    shutil.copy(stranger / "sensitive.json", folder / "sensitive.json")

    def forge(entries):
        entries[0] |= {name: start[name] for name in ("graph", "inputs")}

    rewrite(folder, forge)
    (folder / "metrics.jsonl").unlink()
    addresses.clear()
    result = resumed(folder, small_encoder(), other, small_plan(other))
    assert result.certificate.values["steps"]["branches"] == 1  # everything was believed
    assert addresses
    assert not first & addresses
