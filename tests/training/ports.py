"""Ports of this machine that nobody uses, and that nobody is given before a group opens them."""

import contextlib
import secrets
import socket


def free_port():
    """A port below those that a system hands out by itself: it is opened seconds later."""
    while True:
        port = 12_000 + secrets.randbelow(20_000)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
