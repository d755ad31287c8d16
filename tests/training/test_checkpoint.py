"""One checkpoint at a time, whole, hashed, and never pickle."""

import pytest
import torch

from reldp.errors import ResumeError, RunError
from reldp.training import checkpoint as module
from reldp.training.checkpoint import Checkpoint, newest_checkpoint, save_checkpoint


def example(step=3):
    return Checkpoint(
        step=step,
        branch=1,
        weights={"layer.weight": torch.arange(6.0).view(2, 3).t()},
        optimizer={
            "layer.weight/exp_avg": torch.ones(3, 2),
            "layer.weight/step": torch.tensor(3.0),
        },
        numbers={"layer.weight/lr": 0.5},
        average={"layer.weight": torch.zeros(3, 2)},
    )


def test_what_is_saved_is_what_is_read(tmp_path):
    save_checkpoint(tmp_path, example())
    found = newest_checkpoint(tmp_path)
    assert (found.step, found.branch, found.numbers) == (3, 1, {"layer.weight/lr": 0.5})
    for part in ("weights", "optimizer", "average"):
        saved, read = getattr(example(), part), getattr(found, part)
        assert saved.keys() == read.keys()
        assert all(torch.equal(saved[name], read[name]) for name in saved)


def test_the_newest_is_the_only_one(tmp_path):
    for step in (3, 9, 100):
        save_checkpoint(tmp_path, example(step))
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000100.safetensors"]


def test_while_the_next_is_being_written_the_last_one_stays(tmp_path, monkeypatch):
    save_checkpoint(tmp_path, example(3))

    def full(path, data, **settings):
        raise RunError("the disk is full.")

    monkeypatch.setattr(module, "write_durably", full)
    with pytest.raises(RunError):
        save_checkpoint(tmp_path, example(9))
    assert newest_checkpoint(tmp_path).step == 3


@pytest.mark.parametrize("place", [-1, 200, 5])
def test_a_changed_byte_is_refused(tmp_path, place):
    save_checkpoint(tmp_path, example())
    path = tmp_path / example().name
    data = bytearray(path.read_bytes())
    data[place] ^= 8
    path.write_bytes(data)
    with pytest.raises(ResumeError, match="must be"):
        newest_checkpoint(tmp_path)


def test_half_a_file_and_no_file_are_refused(tmp_path):
    with pytest.raises(ResumeError, match="got none"):
        newest_checkpoint(tmp_path)
    save_checkpoint(tmp_path, example())
    path = tmp_path / example().name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ResumeError, match="whole"):
        newest_checkpoint(tmp_path)


def test_a_pickle_under_the_name_of_a_checkpoint_is_never_run(tmp_path):
    import pickle

    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('ran')",))

    (tmp_path / example().name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ResumeError):
        newest_checkpoint(tmp_path)
