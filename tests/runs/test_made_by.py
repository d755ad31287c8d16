"""Pages have the sentences of the version that started the run."""

import pytest

from reldp.runs.made_by import is_since
from tests.runs.test_wording import certificate


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.8.9", False), ("0.9.0", True), ("0.10", True), ("1.0.0", True), ("0.9.0rc1", True), ("0.09", True),
        ("unknown", True), ("", True), (None, True), (8, True), ("9" * 5000, True), ("0." + "9" * 5000, True),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(version, expected):
    assert is_since({"reldp": version}, 0, 9) is expected


def test_a_version_that_is_not_named_is_no_older_one():
    assert is_since({}, 0, 9)


def test_other_releases_are_not_covered_and_runs_of_older_versions_say_what_they_said():
    words = "Other releases from the same data"
    old, new = (certificate(version=v).values["not_guaranteed"] for v in ("0.8.0", "0.9.0"))
    assert not any(words in line for line in old)
    assert [line for line in new if words not in line] == old
    assert len(new) == len(old) + 1
