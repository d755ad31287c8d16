"""What an owner keeps beside a run must be what the ledger names."""

import hashlib

from reldp.reporting.kept_files import checkpoint_differences
from reldp.reporting.run_folder import RunFolder

NAMED = {"step": 5, "sha256": hashlib.sha256(b"weights").hexdigest()}


def test_no_checkpoint_is_fine(tmp_path):
    run = RunFolder(tmp_path)
    assert list(checkpoint_differences(run, NAMED)) == []
    run.checkpoints.mkdir()
    assert list(checkpoint_differences(run, NAMED)) == []


def test_the_named_checkpoint_is_fine_and_nothing_else(tmp_path):
    run = RunFolder(tmp_path)
    run.checkpoints.mkdir()
    path = run.checkpoints / "step-000000005.safetensors"
    path.write_bytes(b"weights")
    assert list(checkpoint_differences(run, NAMED)) == []
    assert list(checkpoint_differences(run, None)) == [
        f"checkpoints/{path.name} is not named in the ledger."
    ]
    path.write_bytes(b"other weights")
    assert "not the file that the ledger names" in next(checkpoint_differences(run, NAMED))
    path.rename(run.checkpoints / "step-000000004.safetensors")
    assert "is not named" in next(checkpoint_differences(run, NAMED))


def test_a_link_or_a_folder_of_its_name_is_no_checkpoint(tmp_path):
    run = RunFolder(tmp_path)
    run.checkpoints.mkdir()
    path = run.checkpoints / "step-000000005.safetensors"
    path.mkdir()
    assert "is no checkpoint" in next(checkpoint_differences(run, NAMED))
    path.rmdir()
    (tmp_path / "weights").write_bytes(b"weights")
    path.symlink_to(tmp_path / "weights")
    assert "is no checkpoint" in next(checkpoint_differences(run, NAMED))
