"""Of two processes that start in one new folder one goes on, and the other changes nothing."""

import threading

import pytest
import torch

from reldp.errors import RunError
from reldp.reporting import verify
from reldp.runs.folder_lock import locked_folder
from reldp.training import Trainer
from tests.training.small import small_parts

torch.set_num_threads(1)


def test_a_second_lock_is_refused_until_the_first_is_closed(tmp_path):
    first = locked_folder(tmp_path / "a" / "run")
    with pytest.raises(
        RunError, match=r"run must have one writer, got a second.* Wait until it ends, or stop it"
    ):
        locked_folder(tmp_path / "a" / "run")
    first.close()
    first.close()
    locked_folder(tmp_path / "a" / "run").close()
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError):
        locked_folder(tmp_path / "file")


def test_two_starts_at_once_leave_one_run_that_verifies(tmp_path):
    """The first is held where it has found no ledger: the second must not get that far."""
    inside, go_on, outcome = threading.Event(), threading.Event(), []
    trainer = Trainer(*small_parts())
    first_state = trainer._first_state

    def waiting():
        inside.set()
        assert go_on.wait(60)
        return first_state()

    trainer._first_state = waiting

    def fit():
        outcome.append(trainer.fit(tmp_path / "run").certificate.epsilon)

    thread = threading.Thread(target=fit)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(RunError, match="one writer"):
        Trainer(*small_parts()).fit(tmp_path / "run")
    go_on.set()
    thread.join(120)
    assert outcome == [verify(tmp_path / "run").certificate.epsilon]


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match="could not be"):
        locked_folder(tmp_path / "run")
    assert not (tmp_path / "outside").exists()
