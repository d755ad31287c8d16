"""Work that takes too much time or memory is given up, whatever library it is in; slow machines are no reason."""

import _imp
import importlib
import io
import os
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from contextvars import ContextVar

import pytest

from reldp import _signals
from reldp.encoders.bounded import within_bounds

REFUSAL = ValueError("too much")


def busy(seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def test_results_errors_and_context_are_those_of_the_work():
    value = ContextVar("value", default=1)
    value.set(2)
    assert within_bounds(value.get, seconds=10.0, refusal=REFUSAL) == 2

    def ended():
        raise SystemExit(3)

    with pytest.raises(SystemExit) as caught:
        within_bounds(ended, seconds=10.0, refusal=REFUSAL)
    assert caught.value.code == 3


def test_busy_work_is_given_up_and_ends():
    before = threading.active_count()
    began = time.monotonic()
    with pytest.raises(ValueError, match="too much"):
        within_bounds(busy, seconds=0.3, refusal=REFUSAL)
    assert time.monotonic() - began < 30.0
    while threading.active_count() > before:
        assert time.monotonic() - began < 30.0, "nobody waits for it any more"
        time.sleep(0.01)


def test_work_that_waits_is_not_too_slow(monkeypatch):
    monkeypatch.setattr("reldp.encoders.bounded.time.process_time", lambda: 0.0)
    assert within_bounds(lambda: time.sleep(1.0), seconds=0.5, refusal=REFUSAL) is None


def test_memory_is_bounded():
    def large():
        parts = []
        for _ in range(2000):
            parts.append(bytearray(b"1") * 2**20)
            time.sleep(0.001)

    with pytest.raises(ValueError, match="too much"):
        within_bounds(large, seconds=60.0, memory=50 * 2**20, refusal=REFUSAL)
    assert within_bounds(lambda: 1, seconds=60.0, memory=50 * 2**20, refusal=REFUSAL) == 1


def test_signals_are_heard_while_work_goes_on():
    class Heard(Exception):
        pass

    def hear(number, frame):
        raise Heard

    before = signal.signal(signal.SIGALRM, hear)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Heard):
            within_bounds(busy, seconds=60.0, refusal=REFUSAL)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_lock_for_imports_that_a_signal_left_behind_blocks_nothing():
    sys.modules.pop("this", None)

    def load():
        with redirect_stdout(io.StringIO()):
            return importlib.import_module("this").__name__

    _imp.acquire_lock()
    try:
        assert within_bounds(load, seconds=10.0, refusal=REFUSAL) == "this"
    finally:
        _imp.release_lock()


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_signal_whose_exception_was_dropped_ends_the_work(when):
    def work():
        time.sleep(0.1)
        _signals.note(signal.SIGTERM)
        time.sleep(60.0)

    _signals.forget()
    try:
        if when == "before":
            _signals.note(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            within_bounds(work, seconds=60.0, refusal=REFUSAL)
    finally:
        _signals.forget()


def test_one_thread_does_one_job_after_the_other():
    first = within_bounds(threading.get_ident, seconds=10.0, refusal=REFUSAL)
    assert first != threading.get_ident()
    assert within_bounds(threading.get_ident, seconds=10.0, refusal=REFUSAL) == first
    with pytest.raises(ValueError, match="too much"):
        within_bounds(busy, seconds=0.2, refusal=REFUSAL)
    assert within_bounds(lambda: 1, seconds=10.0, refusal=REFUSAL) == 1, (
        "another one took its place"
    )


def test_jobs_inside_of_jobs_and_from_several_threads_have_threads_of_their_own():
    def nested():
        return within_bounds(threading.get_ident, seconds=10.0, refusal=REFUSAL)

    outer, inner = within_bounds(
        lambda: (threading.get_ident(), nested()), seconds=10.0, refusal=REFUSAL
    )
    assert outer != inner

    def echo(number):
        return within_bounds(lambda: number, seconds=10.0, refusal=REFUSAL)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(echo, range(200))) == list(range(200))


def test_a_copy_of_the_process_has_a_thread_of_its_own():
    within_bounds(lambda: 1, seconds=10.0, refusal=REFUSAL)
    child = os.fork()
    if child == 0:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = within_bounds(lambda: 7, seconds=10.0, refusal=REFUSAL)
        os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
