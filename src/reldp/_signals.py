"""Signals that have asked this process to stop.

A handler that raises is not enough: code that looks an attribute up in C, or catches everything, may drop the
exception, and the process would go on as if nothing had happened. So the command line notes each signal here before it
raises, and training, which asks before every step, stops if one is noted. Once a command reports that it was stopped,
further signals change nothing.

Private to the package: `noted`, `note`, `end`, `is_ending`, `forget`.

>>> noted()
()
"""

__all__ = ["end", "forget", "is_ending", "note", "noted"]

_NOTED: list[int] = []
_ENDING: list[bool] = []


def note(number: int) -> None:
    """Note a signal that arrived."""
    _NOTED.append(number)


def noted() -> tuple[int, ...]:
    """Return the signals that were noted, in order."""
    return tuple(_NOTED)


def end() -> None:
    """Note that the command is about to report how it ended."""
    _ENDING.append(True)


def is_ending() -> bool:
    """Return whether the command reports how it ended."""
    return bool(_ENDING)


def forget() -> None:
    """Begin anew, as at the start and the end of a command."""
    _NOTED.clear()
    _ENDING.clear()
