"""sensitive.json ties a run to its data, says nothing in public, and cannot be exchanged."""

import json
import os
import stat

import pytest

from reldp.errors import RunError
from reldp.runs.sensitive_file import SensitiveRecord, check_sensitive_file

FINGERPRINT = "ab" * 32


def written(tmp_path, **changes):
    record = SensitiveRecord.new(FINGERPRINT, {"num_dropped": 3})
    path = tmp_path / "sensitive.json"
    record.write(path)
    if changes:
        path.write_text(
            json.dumps(json.loads(path.read_text()) | changes, indent=2, sort_keys=True) + "\n"
        )
    return path, record


def test_what_is_written_is_what_is_read_and_only_its_owner_can_read_it(tmp_path):
    path, record = written(tmp_path)
    assert SensitiveRecord.read(path) == record
    assert check_sensitive_file(path, record.commitment) == record
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_two_runs_on_the_same_data_have_commitments_that_cannot_be_compared():
    one, two = (SensitiveRecord.new(FINGERPRINT) for _ in range(2))
    assert one.commitment != two.commitment
    assert one.salt != two.salt


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "ac" * 32},
        {"salt": "00" * 32},
        {"statistics": {"num_dropped": 4}},
        {"statistics": {}},
    ],
)
def test_a_changed_record_does_not_belong_to_the_ledger(tmp_path, change):
    path, record = written(tmp_path, **change)
    with pytest.raises(RunError, match="the ledger commits to"):
        check_sensitive_file(path, record.commitment)


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "ab"},
        {"fingerprint": 3},
        {"salt": "AB" * 32},
        {"fingerprint": None},
        {"statistics": [1]},
        {"more": 1},
    ],
)
def test_values_of_another_kind_are_refused(tmp_path, change):
    path, record = written(tmp_path, **change)
    with pytest.raises(RunError, match=r"sensitive\.json"):
        check_sensitive_file(path, record.commitment)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"salt": "00"}', "\udcff"])
def test_a_damaged_file_is_one_clear_line(tmp_path, text):
    path = tmp_path / "sensitive.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RunError, match=r"^sensitive\.json must .*, got"):
        SensitiveRecord.read(path)


def test_a_name_that_comes_twice_is_damage(tmp_path):
    path, _ = written(tmp_path)
    path.write_text(path.read_text().replace('  "salt"', '  "salt": "x",\n  "salt"', 1))
    with pytest.raises(RunError, match="each name once, got 'salt' twice"):
        SensitiveRecord.read(path)


def test_the_same_values_in_other_bytes_are_refused(tmp_path):
    path, _ = written(tmp_path)
    text = path.read_text()
    reordered = json.dumps(dict(reversed(json.loads(text).items())), indent=2) + "\n"
    for other in (text + " ", text.replace('": 3', '":  3'), reordered):
        path.write_text(other)
        with pytest.raises(RunError, match="other bytes"):
            SensitiveRecord.read(path)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(RunError, match=r"sensitive\.json must be there"):
        SensitiveRecord.read(tmp_path / "sensitive.json")


def test_commitments_bind_to_name_value_and_salt():
    record, other = SensitiveRecord.new(FINGERPRINT), SensitiveRecord.new(FINGERPRINT)
    found = {
        record.commit("table", "ab" * 32),
        record.commit("table", "ac" * 32),
        record.commit("graph", "ab" * 32),
        other.commit("table", "ab" * 32),
        record.commitment,
    }
    assert len(found) == 5
    assert record.commit("table", "ab" * 32) in found
