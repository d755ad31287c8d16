"""What counts as a good end of a command."""

import sys

import pytest

from tests.fuzz import calls


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

    monkeypatch.setattr(calls, "main", main)
    if problem is None:
        assert calls.call("account")[0] == (code == 0)
    else:
        with pytest.raises(AssertionError, match=problem):
            calls.call("account")


@pytest.mark.parametrize(
    ("words", "said", "wrong"),
    [
        (["encode", "RUN"], "reldp: Use --max-degree.", {"--max-degree"}),
        (["train", "GRAPH"], "reldp: Use --max-degree or --help.", set()),
        (["budget", "init", "GRAPH"], "reldp: Name it with --budget.", {"--budget"}),
        (["budget", "search", "GRAPH"], "reldp: Name it with --budget.", set()),
        (["encode"], "reldp: Use reldp inspect GRAPH --max-degree 3.", set()),
        (["encode"], "reldp: Use reldp verify RUN --max-degree 3.", {"--max-degree"}),
        (["encode"], "reldp: Use reldp budget init GRAPH --lost-budget ID.", set()),
        (["encode"], "reldp: --max-degree, then reldp inspect GRAPH.", {"--max-degree"}),
        (["nothing"], "reldp: Use --max-degree or --analyshs.", {"--analyshs"}),
    ],
)
def test_a_message_names_options_of_the_command_that_ran_or_that_it_mentions(words, said, wrong):
    assert calls.wrong_options(words, said) == wrong
