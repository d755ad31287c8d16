"""A short form of `python -m tests.reporting.fuzzing`, and verifiers with a hole that it must find."""

import json
from random import Random

import pytest
import torch

from reldp.errors import ReldpError, RunError
from reldp.reporting import comparison, verification, verify
from reldp.runs import plain_files
from reldp.runs.strict_json import parse_json
from tests.reporting.fuzzing.json_edits import edited_text
from tests.reporting.fuzzing.runner import Fuzzer, make_workspaces, run

torch.set_num_threads(1)
EDITS = 2000


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory):
    return make_workspaces(tmp_path_factory.mktemp("fuzzing"))


def fuzzed(workspaces, *, check=verify, edits=EDITS, start=0, stop_at_failure=False):
    """All edits below a number, from one of them on and then those before it, or up to the first failure."""
    fuzzer = Fuzzer(workspaces, check=check, seed=1)
    for number in [*range(start, edits), *range(start)]:
        fuzzer.edit(number)
        if stop_at_failure and fuzzer.failures:
            break
    return fuzzer


def test_every_edit_is_refused_in_words(workspaces):
    fuzzer = fuzzed(workspaces)
    assert fuzzer.failures == []
    assert sum(fuzzer.counts.values()) == EDITS
    refused = sum(count for words, count in fuzzer.counts.items() if words.endswith(": refused"))
    assert refused > 0.85 * EDITS  # few edits change nothing
    for workspace in workspaces:
        verify(workspace.path)  # every edit was undone


def as_written(values):
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def ignore_a_field(name):
    """A comparison that is right, but for one field that it takes as it is stated."""
    right = comparison.agreed_certificate

    def sloppy(stated, made):
        try:
            values = parse_json(stated, "")
            if stated == as_written(values) and list(values) == list(made.values):
                stated = as_written(values | {name: made.values[name]})
        except (RunError, TypeError, ValueError):
            pass
        return right(stated, made)

    return sloppy


def compare_values(stated, made):
    """A comparison that is right, but of values instead of bytes."""
    try:
        return made if parse_json(stated, "") == made.values else _RIGHT(stated, made)
    except RunError:
        return _RIGHT(stated, made)


_RIGHT = comparison.agreed_certificate


def follow_links(folder):
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return plain_files.Listing(files=tuple(files), empty=(), odd={})


def read_links(path, *, limit):
    if not path.is_file():
        raise RunError(f"{path.name} must be there.")
    return path.read_bytes()


def nothing(*_):
    return iter(())


HOLES = {
    "one field of the certificate": [(verification, "agreed_certificate", ignore_a_field("key"))],
    "the date": [(verification, "agreed_certificate", ignore_a_field("date"))],
    "audits": [(verification, "agreed_certificate", ignore_a_field("audits"))],
    "the way in which values are written": [(verification, "agreed_certificate", compare_values)],
    "any small difference of a number": [(comparison, "TOLERANCE", 1.0)],
    "links": [(verification, "list_plain", follow_links), (verification, "read_plain", read_links)],
    "files that do not belong": [(verification._Inspector, "folder", nothing)],
    "the model": [(verification._Inspector, "model", nothing)],
    "the pages": [(verification._Inspector, "pages", nothing)],
    "the report": [(verification._Inspector, "_report", nothing)],
    "the form": [(verification._Inspector, "_form", nothing)],
    "what the owner keeps": [(verification._Inspector, "owner_files", nothing)],
    "the ledger's head": [(verification, "agreed_certificate", ignore_a_field("ledger"))],
}

FOUND_AT = {
    "one field of the certificate": 3703,
    "the date": 2475,
    "any small difference of a number": 434,
    "the ledger's head": 490,
}
"""Edits that find a hole where the first hundreds do not: tried first, so that the others need not be made."""


@pytest.mark.parametrize("hole", HOLES)
def test_a_verifier_with_a_hole_is_caught(workspaces, monkeypatch, hole):
    for owner, name, sloppy in HOLES[hole]:
        monkeypatch.setattr(owner, name, sloppy)
    start = FOUND_AT.get(hole, 0)
    fuzzer = fuzzed(workspaces, edits=4 * EDITS, start=start, stop_at_failure=True)
    # A pass, and no crash of the control itself.
    assert [failure["why"][:6] for failure in fuzzer.failures] == ["passed"]


def test_an_error_without_words_and_a_crash_are_failures(workspaces):
    def silent(folder):
        raise ReldpError

    def crash(folder):
        return {}["date"]

    for check in (silent, crash):
        fuzzer = fuzzed(workspaces, check=check, edits=1)
        assert len(fuzzer.failures) == 1


def test_edits_follow_from_their_number_and_a_state_is_gone_on_from(tmp_path):
    state = tmp_path / "state.json"
    run(20, state, every=10, say=lambda line: None)
    first = json.loads(state.read_text())
    assert first["done"] == 20
    known = run(30, state, every=10, say=lambda line: None)
    assert known["done"] == 30
    assert sum(known["counts"].values()) == 30
    assert known["failures"] == []
    texts = [edited_text(Random("7"), '{"a": [1, 2.5, "x"]}', json.dumps) for _ in range(2)]
    assert texts[0] == texts[1]
