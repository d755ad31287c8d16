"""What an owner keeps beside a run must be what the ledger names."""

import hashlib
import os

from reldp.reporting.owner_files import checkpoint_differences, sensitive_differences
from reldp.runs.run_folder import RunFolder
from reldp.runs.sensitive_file import SensitiveRecord

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
    assert "is not a checkpoint" in next(checkpoint_differences(run, NAMED))
    path.rmdir()
    (tmp_path / "weights").write_bytes(b"weights")
    path.symlink_to(tmp_path / "weights")
    assert "is not a checkpoint" in next(checkpoint_differences(run, NAMED))


def test_private_json_is_the_record_that_the_ledger_commits_to_or_absent(tmp_path):
    run = RunFolder(tmp_path)
    record = SensitiveRecord.new("ab" * 32, {"num_dropped": 7})
    assert list(sensitive_differences(run, record.commitment)) == []
    record.write(run.sensitive)
    assert list(sensitive_differences(run, record.commitment)) == []
    text = run.sensitive.read_text()
    for before, after in (
        ("7", "8"),
        ("7", "7.0"),
        ("7", " 7"),
        ("num_dropped", "num_dropped_"),
        ('"salt"', '"fingerprint": "x", "salt"'),
        (record.salt[:4], "0000"),
        (text, ""),
    ):
        run.sensitive.write_text(text.replace(before, after))
        found = list(sensitive_differences(run, record.commitment))
        assert len(found) == 1
        assert found[0].startswith(("sensitive.json must ", "`"))
        assert "num_dropped" not in found[0]
    run.sensitive.unlink()
    os.mkfifo(run.sensitive)
    assert "named pipe" in next(sensitive_differences(run, record.commitment))
    SensitiveRecord.new("ab" * 32).write(run.sensitive)
    assert "commits to" in next(sensitive_differences(run, record.commitment))
