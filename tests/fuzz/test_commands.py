"""What counts as a good end of a command."""

import sys

import pytest

from tests.fuzz import commands


@pytest.mark.parametrize(
    ("code", "said", "problem"),
    [
        (70, "reldp: Internal error.\n", "exit code"),
        (2, "", "no words"),
        (2, "Traceback (most recent call last):\n", "more than lines of reldp"),
        (2, "reldp: --analyshs must be something.\n", "no such option"),
        (2, "reldp: --delta must be something.\n", None),
        (2, "reldp: got '--analyshs'.\n", None),
        (0, "", None),
    ],
)
def test_only_clear_complaints_pass(monkeypatch, code, said, problem):
    def main(words):
        sys.stderr.write(said)
        return code

    monkeypatch.setattr(commands, "main", main)
    if problem is None:
        assert commands.call("account")[0] == (code == 0)
    else:
        with pytest.raises(AssertionError, match=problem):
            commands.call("account")
