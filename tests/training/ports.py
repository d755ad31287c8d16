"""Ports of this machine that nobody uses."""

import socket


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
