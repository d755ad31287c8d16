"""The first signal is remembered, the second stops, and the handlers before come back."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from reldp.cli import exit_codes
from reldp.training.stopping import stop_requests

BOTH = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def harmless():
    """SIGTERM and SIGHUP must not end the tests."""
    before = {n: signal.signal(n, lambda number, frame: None) for n in BOTH[1:]}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", BOTH)
@pytest.mark.parametrize("second", BOTH)
def test_the_first_waits_and_the_second_stops(first, second):
    before = [signal.getsignal(number) for number in BOTH]
    with stop_requests() as asked:
        assert not asked()
        press(first)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            press(second)
    assert [signal.getsignal(number) for number in BOTH] == before


def train(number):
    """Is asked to stop, and does."""
    with stop_requests() as asked:
        press(number)
        assert asked()
        raise KeyboardInterrupt


def test_a_termination_is_passed_on_to_the_handler_before():
    class Ended(Exception):
        pass

    def end(number, frame):
        raise Ended

    signal.signal(signal.SIGTERM, end)
    with pytest.raises(Ended):
        train(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        train(signal.SIGINT)
    with stop_requests():  # training came to its end all the same
        press(signal.SIGTERM)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_without_a_handler_a_termination_ends_the_process(name):
    code = (
        "import os, signal; from reldp.training.stopping import stop_requests\n"
        "with stop_requests() as asked:\n"
        f"    os.kill(os.getpid(), signal.{name}); assert asked(); print('saved', flush=True)\n"
        "    raise KeyboardInterrupt"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "saved\n"
    assert done.returncode == -getattr(signal, name)


@pytest.mark.parametrize("number", BOTH[1:])
def test_an_ignored_termination_stays_ignored(number):
    signal.signal(number, signal.SIG_IGN)
    with stop_requests() as asked:
        press(number)
        assert not asked()


def test_another_thread_leaves_signals_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with stop_requests() as asked:
            seen.append((signal.getsignal(signal.SIGINT), asked()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


def stop_if_asked():
    with stop_requests() as asked:
        if asked():
            raise KeyboardInterrupt


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_whose_exception_was_dropped_before_training_stops_it(number):
    """Code in C that looks an attribute up drops what a signal handler raises, and so does a bare `except`."""
    ending = {signal.SIGINT: KeyboardInterrupt}.get(number, exit_codes.Terminated)
    for n in BOTH[1:]:
        signal.signal(n, signal.SIG_DFL)
    with exit_codes.termination_as_exception():
        with suppress(BaseException):
            signal.raise_signal(number)
        with pytest.raises(ending):
            stop_if_asked()
    with stop_requests() as asked:
        assert not asked(), "the next command begins anew"
