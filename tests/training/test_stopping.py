"""The first Ctrl-C is remembered, the second stops, and the handler before comes back."""

import os
import signal
import threading

import pytest

from reldp.training.stopping import stop_requests


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_waits_and_the_second_stops():
    before = signal.getsignal(signal.SIGINT)
    with stop_requests() as asked:
        assert not asked()
        press()
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_leaves_signals_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with stop_requests() as asked:
            seen.append((signal.getsignal(signal.SIGINT), asked()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]
