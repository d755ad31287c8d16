"""Checkpoints are written whole, named by the hash of their file, and never pickle."""

import hashlib

import pytest
import torch

from reldp.errors import ResumeError, RunError
from reldp.training import checkpoint as module
from reldp.training.checkpoint import Checkpoint, keep_only, read_checkpoint, save_checkpoint


def example(step=3, **changes):
    values = {
        "step": step,
        "branch": 1,
        "weights": {"layer.weight": torch.arange(6.0).view(2, 3).t()},
        "optimizer": {
            "layer.weight/exp_avg": torch.ones(3, 2),
            "layer.weight/step": torch.tensor(3.0),
        },
        "numbers": {"layer.weight/lr": 0.5},
        "average": {"layer.weight": torch.zeros(3, 2)},
    }
    return Checkpoint(**(values | changes))


def test_what_is_saved_is_what_is_read(tmp_path):
    found = read_checkpoint(tmp_path, 3, save_checkpoint(tmp_path, example()))
    assert (found.step, found.branch, found.numbers) == (3, 1, {"layer.weight/lr": 0.5})
    for part in ("weights", "optimizer", "average"):
        saved, read = getattr(example(), part), getattr(found, part)
        assert saved.keys() == read.keys()
        assert all(torch.equal(saved[name], read[name]) for name in saved)


def test_the_hash_is_that_of_the_file_and_the_same_for_the_same_content(tmp_path):
    found = save_checkpoint(tmp_path, example())
    assert found == hashlib.sha256((tmp_path / example().name).read_bytes()).hexdigest()
    assert save_checkpoint(tmp_path / "other", example()) == found


def test_the_one_before_goes_only_when_it_is_told_to(tmp_path):
    for step in (3, 9, 100):
        save_checkpoint(tmp_path, example(step))
    (tmp_path / "step-000000120.safetensors.partial").touch()
    (tmp_path / "notes.txt").touch()
    assert len(list(tmp_path.iterdir())) == 5
    keep_only(tmp_path, 9)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "step-000000009.safetensors"]


def test_while_the_next_is_being_written_the_last_one_stays(tmp_path, monkeypatch):
    named = save_checkpoint(tmp_path, example(3))

    def full(path, data, **settings):
        raise RunError("the disk is full.")

    monkeypatch.setattr(module, "write_durably", full)
    with pytest.raises(RunError):
        save_checkpoint(tmp_path, example(9))
    assert read_checkpoint(tmp_path, 3, named).step == 3


@pytest.mark.parametrize("place", [-1, 200, 5])
def test_a_changed_byte_is_refused(tmp_path, place):
    named = save_checkpoint(tmp_path, example())
    path = tmp_path / example().name
    data = bytearray(path.read_bytes())
    data[place] ^= 8
    path.write_bytes(data)
    with pytest.raises(ResumeError, match="the ledger names"):
        read_checkpoint(tmp_path, 3, named)


@pytest.mark.parametrize(
    "other",
    [
        {"branch": 0},
        {"numbers": {"layer.weight/lr": 0.25}},
        {"weights": {"layer.weight": torch.ones(3, 2)}},
        {"optimizer": {"layer.weight/exp_avg": torch.zeros(3, 2)}},
        {"average": {}},
    ],
)
def test_a_whole_checkpoint_with_another_content_is_refused(tmp_path, other):
    """On 0.3.0 a file with a hash of its own was taken, whatever run it came from."""
    named = save_checkpoint(tmp_path, example())
    assert save_checkpoint(tmp_path, example(**other)) != named
    with pytest.raises(ResumeError, match="belongs to another run"):
        read_checkpoint(tmp_path, 3, named)


def test_half_a_file_and_no_file_are_refused(tmp_path):
    with pytest.raises(ResumeError, match="must be there"):
        read_checkpoint(tmp_path, 3, "00" * 32)
    named = save_checkpoint(tmp_path, example())
    path = tmp_path / example().name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ResumeError, match="damaged"):
        read_checkpoint(tmp_path, 3, named)


@pytest.mark.parametrize("damage", [b"", b"short", bytes(100), (1 << 40).to_bytes(8, "little")])
def test_damage_that_the_ledger_names_is_one_clear_line(tmp_path, damage):
    (tmp_path / example().name).write_bytes(damage)
    with pytest.raises(ResumeError, match="got damage"):
        read_checkpoint(tmp_path, 3, hashlib.sha256(damage).hexdigest())


def test_a_pickle_under_the_name_of_a_checkpoint_is_never_run(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('ran')",))

    data = pickle.dumps(Bomb())
    (tmp_path / example().name).write_bytes(data)
    with pytest.raises(ResumeError):
        read_checkpoint(tmp_path, 3, hashlib.sha256(data).hexdigest())
