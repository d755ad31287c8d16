"""The states of runs and searches that a budget knows: hashes of lines of their ledgers, in the order they were noted.

Pure functions of the entries of a budget. A folder whose ledger lacks the line that was noted last is an older state,
or a copy that went on by itself.

Private to the package: `is_state`, `newest_state`, `refuse_other_state`, `state_entry`.

>>> noted = [{"kind": "session", "token": "t", "head": "a"}, {"kind": "session", "token": "t", "head": "b"}]
>>> newest_state(noted, "t"), is_state(noted, "t", "a")
('b', True)
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from reldp.errors import ResumeError
from reldp.runs.budget_file import NAME
from reldp.runs.ledger import _today

__all__ = ["RUN", "SEARCH", "is_state", "newest_state", "refuse_other_state", "state_entry"]

_Entry = Mapping[str, Any]
RUN = (
    "The run must go on from",
    "Continue the folder with the newest state, and end this one with reldp abandon, which enters what only it has "
    "spent. If the newest one is lost, what was entered stays spent: start a new run in a new folder.",
)
"""Beginning and end of a refusal, for a run."""
SEARCH = (
    "The search must go on from",
    "Only one copy of a search releases its best run: go on with the other one, and delete this one, of which nothing "
    "may be released. If the other one is lost, what was entered stays spent: start a new search in a new folder.",
)
"""The same for a search."""


def newest_state(entries: Sequence[_Entry], token: str) -> str | None:
    """Return the head that was noted last for the run or search of a token; None if it was not started."""
    noted = (e for e in reversed(entries) if e["kind"] == "session" and e["token"] == token)
    return next((str(e["head"]) for e in noted), None)


def is_state(entries: Sequence[_Entry], token: str, head: str) -> bool:
    """Return whether a head was ever noted for the run of a token."""
    mine = (e for e in entries if e["kind"] == "session" and e["token"] == token)
    return any(e["head"] == head for e in mine)


def refuse_other_state(newest: str | None, hashes: Collection[str], words: tuple[str, str]) -> None:
    """Refuse a ledger without the line that was noted last.

    Raises:
        ResumeError: It lacks that line.
    """
    if newest is not None and newest not in hashes:
        begin, remedy = words
        raise ResumeError(
            f"{begin} the newest state that {NAME} knows, got a folder that was copied before, or put back to an older "
            f"state. {remedy}"
        )


def state_entry(token: str, head: str) -> dict[str, Any]:
    """Return the entry that notes a state today."""
    return {"kind": "session", "token": token, "head": head, "date": _today()}
