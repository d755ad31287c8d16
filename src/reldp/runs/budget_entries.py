"""What the lines of a budget may hold, and what each of them costs.

`reldp.runs.budget` describes the kinds of entries.

Public inside the package: `TOKEN`, `charge_of`, `check_entry`, `limit_entry`, `release_entry`.

>>> charge_of({"kind": "sizes", "epsilon": 0.1, "delta": 1e-9, "release": "0" * 32}).epsilon
0.1
"""

import re
from collections.abc import Mapping
from typing import Any

from reldp.accounting.search import SearchSize
from reldp.errors import LedgerError, PlanError
from reldp.plan import PrivacyPlan
from reldp.runs import schema
from reldp.runs.budget_cost import Charge
from reldp.runs.budget_file import NAME
from reldp.runs.ledger import _today

__all__ = ["TOKEN", "charge_of", "check_entry", "limit_entry", "release_entry"]

_Entry = Mapping[str, Any]

TOKEN = schema.Rule(
    "32 hexadecimal digits",
    lambda v: type(v) is str and re.fullmatch(r"[0-9a-f]{32}", v) is not None,
)
_LOST = {"id": TOKEN, "folder?": schema.TEXT, "entries?": schema.SIZE}
_SCHEMAS: dict[str, Any] = {
    "budget": {"kind": schema.TEXT, "format": schema.SIZE, "id": TOKEN, "unit": schema.TEXT}
    | {"date": schema.DATE, "lost?": schema.OBJECTS},
    "limit": {"kind": schema.TEXT, "epsilon": schema.POSITIVE, "delta": schema.PROBABILITY}
    | {"adaptive": schema.TRUTH, "date": schema.DATE},
    "run": {"kind": schema.TEXT, "token": TOKEN, "purpose": schema.TEXT, "plan": schema.OBJECT}
    | {"release?": TOKEN, "date": schema.DATE},
    "search": {"kind": schema.TEXT, "token": TOKEN, "plan": schema.OBJECT, "size": schema.OBJECT}
    | {"purpose?": schema.TEXT}
    | {"release?": TOKEN, "date": schema.DATE},
    "sizes": {"kind": schema.TEXT, "release": TOKEN, "epsilon": schema.NOT_NEGATIVE}
    | {"salt?": schema.HASH}
    | {"delta": schema.PROBABILITY, "date": schema.DATE},
    "session": {"kind": schema.TEXT, "token": TOKEN, "head": schema.HASH, "date": schema.DATE},
}


def charge_of(entry: _Entry) -> Charge:
    """Return what an entry adds to the cost of its budget."""
    release = entry.get("release")
    if entry["kind"] == "sizes":
        return Charge(epsilon=entry["epsilon"], delta=entry["delta"], release=release)
    plan = PrivacyPlan.from_dict(dict(entry["plan"]))
    search = SearchSize.from_dict(entry["size"]) if entry["kind"] == "search" else None
    return Charge(plan=plan, search=search, release=release)


def limit_entry(epsilon: float, delta: float, *, adaptive: bool) -> dict[str, Any]:
    """Return the entry of a limit that is set today."""
    entry = {"kind": "limit", "epsilon": float(epsilon), "delta": float(delta)}
    return entry | {"adaptive": adaptive, "date": _today()}


def release_entry(
    epsilon: float, delta: float, release: str, *, salt: str | None = None
) -> dict[str, Any]:
    """Return the entry of released sizes; with a salt, of sizes that were released before."""
    entry = {"kind": "sizes", "release": release, "epsilon": epsilon, "delta": delta}
    return entry | ({} if salt is None else {"salt": salt}) | {"date": _today()}


def check_entry(entry: _Entry, number: int) -> None:
    """Refuse an entry that no budget holds."""
    try:
        schema.check(entry, _SCHEMAS[str(entry.get("kind"))])
        for lost in entry.get("lost", ()):
            schema.check(lost, _LOST)
        if "plan" in entry:
            charge_of(entry)
    except (KeyError, TypeError, schema.SchemaError, PlanError) as error:
        reason = "of no known kind" if isinstance(error, KeyError) else str(error)
        raise LedgerError(
            f"{NAME} line {number} must be an entry of a budget, got one {reason}."
        ) from None
