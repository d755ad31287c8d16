"""Every phase of an audit moves: lines by a thread without a terminal, and bars on one."""

import time

from reldp.cli.audit_progress import audit_progress, words


def test_lines_come_while_nothing_is_reported(monkeypatch, capsys):
    monkeypatch.setattr("reldp.cli.audit_progress.INTERVAL", 0.02)
    with audit_progress() as update:
        time.sleep(0.1)
        update("steps", 3, 10)
        time.sleep(0.1)
        update("steps", 7, 10)
        time.sleep(0.1)
        update("parts", 1000, 2000)
        time.sleep(0.1)
    lines = capsys.readouterr().err.splitlines()
    assert list(dict.fromkeys(lines)) == [
        "reldp: preparing the audit",
        "reldp: steps: 3 of 10",
        "reldp: steps: 10 of 10, evaluating them",
        "reldp: parts: 1,000 of 2,000",
    ]
    assert len(lines) > 8
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_an_audit_that_fails_ends_its_lines(monkeypatch, capsys):
    monkeypatch.setattr("reldp.cli.audit_progress.INTERVAL", 0.02)
    try:
        with audit_progress():
            raise ValueError
    except ValueError:
        pass
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_phases_without_steps_move_too(monkeypatch, capsys):
    monkeypatch.setattr("reldp.cli.audit_progress.is_on_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with audit_progress() as update:
        time.sleep(0.3)
        preparing = capsys.readouterr().err
        update("steps", 5, 5)
        time.sleep(0.3)
        evaluating = capsys.readouterr().err
    assert preparing.count("preparing the audit") > 1
    assert "evaluating them" in evaluating
    assert "preparing" not in evaluating.rpartition("steps")[2]


def test_words_say_what_is_done():
    assert words(None) == "preparing the audit"
    assert words(("steps", 0, 1000)) == "steps: 0 of 1,000"
