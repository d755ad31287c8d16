"""The budget of a graph: a ledger of all runs and searches on the same data, and a limit that they keep.

``budget.jsonl`` lies in the graph's folder, or in a folder of the owner's choice that several graphs share
because their entities overlap. Its lines are chained by hashes like those of a run's ledger:

| kind | meaning |
|---|---|
| ``budget`` | the unit of privacy, and a random id of this budget |
| ``limit`` | the largest epsilon at a delta, and whether plans may be chosen by results |
| ``run`` | a run that may start: its token, its plan and its purpose |
| ``search`` | a search that may start: the plan of its runs and the distribution of their number |

A run is entered before it starts. Its token is written into the run folder first (budget.json), so a process that is
killed and started again finds the token and is not entered twice, while a new run always is. An entry
is never removed: what was entered stays spent. The file holds settings and dates, nothing computed from data, but it
shows how often the owner used the data; only its owner can read it.

Public inside the package: `Budget`, `run_token`, `NAME`.

>>> Budget.open("nowhere")
Traceback (most recent call last):
reldp.errors.ConfigError: The budget must exist, got no budget.jsonl in 'nowhere'. Make one with reldp budget init.
"""

import json
import math
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reldp._validate import UNITS, check_choice, check_number
from reldp.accounting.search import SearchSize
from reldp.errors import ConfigError, LedgerError, PlanError
from reldp.plan import PrivacyPlan
from reldp.runs import schema
from reldp.runs.budget_cost import Charge, composed_epsilon
from reldp.runs.durable import disk_errors, write_durably
from reldp.runs.ledger import _FIRST_LINK, _line, _lock, _parse, _today
from reldp.runs.run_folder import BUDGET_TOKEN, RunFolder

__all__ = ["NAME", "Budget", "run_token"]

NAME = "budget.jsonl"
_OWNER_ONLY = 0o600
_TOKEN_BYTES = 16
_Entry = Mapping[str, Any]

_TOKEN = schema.Rule("32 hexadecimal digits", lambda v: type(v) is str and len(v) == 32)
_SCHEMAS: dict[str, Any] = {
    "budget": {"kind": schema.TEXT, "format": schema.SIZE, "id": _TOKEN, "unit": schema.TEXT}
    | {"date": schema.DATE},
    "limit": {"kind": schema.TEXT, "epsilon": schema.POSITIVE, "delta": schema.PROBABILITY}
    | {"adaptive": schema.TRUTH, "date": schema.DATE},
    "run": {"kind": schema.TEXT, "token": _TOKEN, "purpose": schema.TEXT, "plan": schema.OBJECT}
    | {"date": schema.DATE},
    "search": {"kind": schema.TEXT, "plan": schema.OBJECT, "mean": schema.POSITIVE}
    | {"distribution": schema.TEXT, "date": schema.DATE},
}


class Budget:
    """An open budget; closed by ``with``, and open in one process at a time."""

    def __init__(self, path: Path, descriptor: int, entries: list[_Entry], head: str) -> None:
        """Take over an open, locked file; use `create` or `open`."""
        self._path, self._descriptor, self._head = path, descriptor, head
        self._entries = [_checked(entry, number) for number, entry in enumerate(entries, 1)]
        if not entries or any((e["kind"] == "budget") != (i == 0) for i, e in enumerate(entries)):
            raise LedgerError(f"{NAME} must start with its unit, once, got something else.")

    @classmethod
    def create(cls, folder: str | Path, *, unit: str = "entity") -> "Budget":
        """Make a budget in a folder.

        Raises:
            ConfigError: There is one.
        """
        check_choice("unit", unit, UNITS, error=ConfigError)
        place = Path(folder) / NAME
        if os.path.lexists(place):
            raise ConfigError(f"The budget must be new, got {NAME} in {str(folder)!r}.")
        with disk_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        entry = {"kind": "budget", "format": 1, "id": secrets.token_hex(_TOKEN_BYTES)}
        entry |= {"unit": unit, "date": _today()}
        write_durably(place, _line(entry, _FIRST_LINK)[0], mode=_OWNER_ONLY)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: str | Path) -> "Budget":
        """Open the budget in a folder; cut off a half-written last line.

        Raises:
            ConfigError: There is none.
            LedgerError: It was changed, or is damaged.
            RunError: Another process has it open.
        """
        place = Path(folder) / NAME
        if not place.is_file() or place.is_symlink():
            raise ConfigError(
                f"The budget must exist, got no {NAME} in {str(folder)!r}. Make one with reldp budget init."
            )
        with disk_errors(place, "opened"):
            descriptor = os.open(place, os.O_RDWR | os.O_APPEND)
        try:
            _lock(descriptor, place)
            entries, head, size = _parse(place.read_bytes(), half_line_allowed=True)
            os.ftruncate(descriptor, size)
            return cls(place, descriptor, entries, head)
        except LedgerError as error:
            os.close(descriptor)
            raise LedgerError(str(error).replace("The ledger", NAME)) from None
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def unit(self) -> str:
        """The unit of privacy of all runs."""
        return str(self._entries[0]["unit"])

    @property
    def entries(self) -> tuple[_Entry, ...]:
        """All entries in order."""
        return tuple(self._entries)

    @property
    def limit(self) -> _Entry | None:
        """The limit that holds: the last one that was set."""
        return next((e for e in reversed(self._entries) if e["kind"] == "limit"), None)

    @property
    def charges(self) -> list[Charge]:
        """Everything that was entered."""
        return [
            Charge(plan=PrivacyPlan.from_dict(dict(entry["plan"])), search=_search(entry))
            for entry in self._entries
            if entry["kind"] in ("run", "search")
        ]

    @property
    def is_adaptive(self) -> bool:
        """Whether plans may be chosen by results of earlier runs, so that epsilons are added."""
        return self.limit is not None and bool(self.limit["adaptive"])

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at delta of everything that was entered."""
        return composed_epsilon(self.charges, delta, adaptive=self.is_adaptive)

    def set_limit(self, epsilon: float, delta: float, *, adaptive: bool = False) -> None:
        """Refuse from now on what would exceed epsilon at delta.

        Raises:
            PlanError: The numbers are out of range, or less than what was entered.
        """
        check_number("limit", epsilon, above=0, error=PlanError)
        check_number("delta", delta, above=0, below=1, error=PlanError)
        spent = composed_epsilon(self.charges, delta, adaptive=adaptive)
        if spent > epsilon:
            raise PlanError(
                f"`limit` must be at least {_shown(spent)}, which is spent at this delta, got {epsilon:g}."
            )
        entry = {"kind": "limit", "epsilon": float(epsilon), "delta": float(delta)}
        self._append(entry | {"adaptive": adaptive, "date": _today()})

    def enter_run(self, token: str, plan: PrivacyPlan, *, purpose: str = "train") -> bool:
        """Enter a run before it starts; once for each token.

        Args:
            token: The run's token, from `run_token`.
            plan: Its plan.
            purpose: What it is for.

        Returns:
            Whether it was entered now, and not before.

        Raises:
            ConfigError: The token belongs to a run of another plan, or the unit differs.
            PlanError: The limit would be exceeded; nothing is entered.
        """
        known = [e for e in self._entries if e["kind"] == "run" and e["token"] == token]
        if known:
            if PrivacyPlan.from_dict(dict(known[0]["plan"])).hash != plan.hash:
                raise ConfigError(
                    "The run must have the plan that its budget knows, got another. Use another folder."
                )
            return False
        self._refuse_excess(Charge(plan=plan))
        entry = {"kind": "run", "token": token, "purpose": purpose, "plan": plan.to_dict()}
        self._append(entry | {"date": _today()})
        return True

    def enter_search(self, plan: PrivacyPlan, size: SearchSize) -> None:
        """Enter a search before its first run starts.

        Raises:
            PlanError: The limit would be exceeded; nothing is entered.
        """
        self._refuse_excess(Charge(plan=plan, search=size))
        self._append({"kind": "search", "plan": plan.to_dict(), **asdict(size), "date": _today()})

    def _refuse_excess(self, charge: Charge) -> None:
        """Refuse a charge of another unit, without a proof, or beyond the limit."""
        if charge.plan.unit != self.unit:
            raise ConfigError(
                f"`unit` must be {self.unit} in this budget, got {charge.plan.unit}. Epsilons of different "
                "units cannot be composed."
            )
        if self.limit is None:
            return
        if charge.plan.status != "proven":
            raise PlanError(
                f"`budget` must cover plans with a proof, got one whose status is {charge.plan.status}."
            )
        delta, max_epsilon = float(self.limit["delta"]), float(self.limit["epsilon"])
        total = composed_epsilon([*self.charges, charge], delta, adaptive=self.is_adaptive)
        if not total <= max_epsilon:
            raise PlanError(
                f"`budget` must stay within epsilon {max_epsilon:g} at delta {delta:g}, got {_shown(total)} with "
                "this run. Use more noise or fewer steps, or raise the limit."
            )

    def _append(self, entry: _Entry) -> None:
        """Write one line and wait until it is on the disk; all or nothing."""
        plain = json.loads(json.dumps(entry, allow_nan=False))
        line, head = _line(plain, self._head)
        with disk_errors(self._path):
            before = os.fstat(self._descriptor).st_size
            try:
                if os.write(self._descriptor, line) != len(line):
                    raise OSError(28, "No space left on device")
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, before)
                raise
        self._entries.append(plain)
        self._head = head

    def close(self) -> None:
        """Let another process open the budget."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> "Budget":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def run_token(run: RunFolder) -> str:
    """Return the token of a run folder; made, and written to the disk, by the first call."""
    place = run.path / BUDGET_TOKEN
    with disk_errors(place):
        run.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not place.exists():
            text = json.dumps({"token": secrets.token_hex(_TOKEN_BYTES)}) + "\n"
            write_durably(place, text.encode(), mode=_OWNER_ONLY)
        data = place.read_bytes()
    try:
        values = json.loads(data)
        schema.check(values, {"token": _TOKEN})
    except (ValueError, RecursionError, schema.SchemaError):
        raise LedgerError(f"{BUDGET_TOKEN} must hold the token of a run, got damage.") from None
    return str(values["token"])


def _search(entry: _Entry) -> SearchSize | None:
    if entry["kind"] != "search":
        return None
    return SearchSize(mean=entry["mean"], distribution=entry["distribution"])


def _checked(entry: _Entry, number: int) -> _Entry:
    """Return an entry that a budget may hold."""
    try:
        schema.check(entry, _SCHEMAS[str(entry.get("kind"))])
        if "plan" in entry:
            PrivacyPlan.from_dict(dict(entry["plan"]))
            _search(entry)
    except (KeyError, TypeError, schema.SchemaError, PlanError) as error:
        reason = "of no known kind" if isinstance(error, KeyError) else str(error)
        raise LedgerError(
            f"{NAME} line {number} must be an entry of a budget, got one {reason}."
        ) from None
    return entry


def _shown(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{math.ceil(epsilon * 1e4) / 1e4:g}"
