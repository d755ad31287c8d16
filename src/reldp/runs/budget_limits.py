"""The limits of a budget, and what they guarantee where plans are chosen by results.

Pure functions of the entries of a budget, in their order. A limit can be replaced, but not taken back: results may have
been seen under any limit that held since the first run. A run that was entered after it was made may have been made
before all limits.

Private to the package: `ENTERED_LATER`, `guarantee`, `is_adaptive`, `is_guarantee_late`, `limits`.

>>> guarantee([{"kind": "limit", "epsilon": 4.0, "delta": 1e-6, "adaptive": True}])
(4.0, 1e-06)
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["ENTERED_LATER", "guarantee", "is_adaptive", "is_guarantee_late", "limits"]

_Entry = Mapping[str, Any]
_USES = ("run", "search")
ENTERED_LATER = "entered later"
"""The purpose of a run or a search that was made before it was entered."""


class _ByUse(NamedTuple):
    """The limits, by the first use of the data."""

    was_adaptive: bool  # before the first run was entered
    first: _Entry | None  # the limit at that time
    late: tuple[_Entry, ...]  # those that came afterwards


def limits(entries: Sequence[_Entry]) -> tuple[_Entry, ...]:
    """Return all limits in the order in which they were set."""
    return tuple(entry for entry in entries if entry["kind"] == "limit")


def is_adaptive(entries: Sequence[_Entry]) -> bool:
    """Return whether plans may be chosen by results of earlier runs, or could be once, so that epsilons are added."""
    return any(limit["adaptive"] for limit in limits(entries))


def guarantee(entries: Sequence[_Entry]) -> tuple[float, float] | None:
    """Return epsilon and delta that cover choices by results: the larger of all limits since the first run.

    None where no limit is adaptive. It holds only if what was entered stays below it.
    """
    if not is_adaptive(entries):
        return None
    _, first, late = _by_use(entries)
    held = [*([] if first is None else [first]), *late]
    return max(limit["epsilon"] for limit in held), max(limit["delta"] for limit in held)


def is_guarantee_late(entries: Sequence[_Entry]) -> bool:
    """Return whether the guarantee needs that nobody had seen a result before a limit that came after runs was set."""
    was_adaptive, first, late = _by_use(entries)
    if first is None or not was_adaptive:
        return bool(late)
    return any(limit[name] > first[name] for limit in late for name in ("epsilon", "delta"))


def _by_use(entries: Sequence[_Entry]) -> _ByUse:
    start = next((n for n, e in enumerate(entries) if e["kind"] in _USES), len(entries))
    if any(entry.get("purpose") == ENTERED_LATER for entry in entries):
        start = 0
    before = limits(entries[:start])
    return _ByUse(
        is_adaptive(entries[:start]), before[-1] if before else None, limits(entries[start:])
    )
