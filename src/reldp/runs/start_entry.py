"""The first entry of a ledger, checked before a command makes an encoder or a step from it.

A hash chain says that a ledger was not changed, and nothing about who wrote it. So whatever is made from its first
entry is checked by the schema that certificates use, and settings that do not make anything are refused in one line.

Public inside the package: `as_ledger_error`, `check_start`, `read_start`.

>>> check_start({"kind": "start"})
Traceback (most recent call last):
reldp.errors.LedgerError: ledger.jsonl: start.plan_hash must be there, got none.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reldp.errors import LedgerError
from reldp.runs import schema
from reldp.runs.ledger import read_ledger

__all__ = ["as_ledger_error", "check_start", "read_start"]

_LONGEST = 120


def read_start(ledger: str | Path) -> Mapping[str, Any]:
    """Return the first entry of a ledger, whose last line may be half written.

    Raises:
        LedgerError: The ledger was changed, or its first entry is not one that a run writes.
    """
    start = read_ledger(ledger, half_line_allowed=True).start
    check_start(start)
    return start


def check_start(start: Mapping[str, Any]) -> None:
    """Refuse a first entry that no run writes.

    Raises:
        LedgerError: It has no such part, or one of another kind.
    """
    try:
        schema.check(start, schema.START, "start")
    except schema.SchemaError as error:
        raise LedgerError(f"ledger.jsonl: {error}.") from None


@contextmanager
def as_ledger_error(part: str, *further: type[Exception]) -> Iterator[None]:
    """Turn what settings of a wrong name or kind raise into one line.

    Args:
        part: Name of the part of the first entry that holds the settings.
        further: Errors that no other reason has than the settings.
    """
    errors: tuple[type[Exception], ...] = (AttributeError, KeyError, TypeError, *further)
    try:
        yield
    except errors as error:
        words = " ".join(str(error).split()).rstrip(".")[:_LONGEST]
        raise LedgerError(
            f"ledger.jsonl: start.{part} must be as a run writes it, got settings that make none: {words}."
        ) from error
