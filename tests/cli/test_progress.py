"""A bar on a terminal that goes when its phase is done, and lines without one."""

import io
import time

import pytest

from reldp._progress import tick
from reldp.cli import progress
from reldp.cli.progress import show_busy, show_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_lines_come_every_30_seconds(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with show_progress():
        for done in range(1, 8):
            now[0] += 10
            tick("embedding", 1000 * done, 7000)
    assert capsys.readouterr().err.splitlines() == [
        "reldp: (sensitive) embedding 42 %",
        "reldp: (sensitive) embedding 85 %",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_a_bar_which_leaves_room_for_another(monkeypatch, quiet):
    from rich.console import Console
    from rich.progress import Progress

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with show_progress(quiet=quiet):
        tick("tokenizing", 1, 2)
        tick("tokenizing", 2, 2)
        with Progress(console=Console(stderr=True)):  # as training does
            pass
        tick("embedding", 1, 2)
    assert ("tokenizing" in screen.getvalue()) != quiet
    assert ("embedding" in screen.getvalue()) != quiet


def test_work_without_a_count_is_said_to_go_on(monkeypatch, capsys):
    monkeypatch.setattr(progress, "INTERVAL", 0.05)
    with show_busy("reading"):
        pass
    assert capsys.readouterr().err == "", "short work is quiet"
    with show_busy("reading") as show:
        time.sleep(0.3)
        show("counting")
        time.sleep(0.3)
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("reldp: (sensitive) reading, for ")
    assert said[-1].startswith("reldp: (sensitive) counting, for ")
    time.sleep(0.2)
    assert capsys.readouterr().err == "", "it ends with the work"


def test_a_terminal_shows_a_spinner(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with show_busy("reading"):
        time.sleep(0.3)
    assert "reading" in screen.getvalue()
