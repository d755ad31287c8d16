"""The budget of a graph: a ledger of everything that is spent on the same data, and a limit that it keeps.

``budget.jsonl`` lies in the graph's folder, or in a folder of the owner's choice that several graphs share
because their entities overlap. Its lines are chained by hashes like those of a run's ledger:

| kind | meaning |
|---|---|
| ``budget`` | the unit of privacy, a random id, and earlier budgets of the same data that were declared lost |
| ``limit`` | the largest epsilon at a delta, and whether plans may be chosen by results |
| ``run`` | a run that may start: its token, its plan and its purpose |
| ``search`` | a search that may start: its token, the plan of its runs, and their number or its distribution |
| ``sizes`` | private sizes that are released: their epsilon and delta |
| ``session`` | a run or search is started, resumed, on its way or at its end: its token, and the head of its ledger |

A run is entered before it starts (`reldp.runs.budget_entry`). An entry is never removed: what was entered stays
spent. Sessions (`reldp.runs.noted_states`) show when a run folder was copied and continued twice, or put back to an
older state. The file holds
settings and dates, nothing computed from data without noise, but it shows how often the owner used the data; only its
owner can read it.

Public inside the package: `Budget`, `NAME`.

>>> Budget.open("nowhere")
Traceback (most recent call last):
reldp.errors.ConfigError: The budget must exist, got no budget.jsonl in 'nowhere'. Make one with reldp budget init.
"""

import math
import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from reldp._validate import UNITS, check_choice, check_number
from reldp.accounting.search import SearchSize
from reldp.errors import ConfigError, LedgerError, PlanError
from reldp.plan import PrivacyPlan
from reldp.runs import budget_limits
from reldp.runs.budget_cost import Charge, added_delta, composed_epsilon
from reldp.runs.budget_entries import charge_of, check_entry, limit_entry, release_entry
from reldp.runs.budget_excess import refuse_excess, refuse_infinite_limit, shown_epsilon
from reldp.runs.budget_file import LINK, NAME, BudgetFile, restore
from reldp.runs.budget_sessions import RUN, is_state, newest_state, refuse_other_state, state_entry
from reldp.runs.known_budgets import lost_budgets, lost_record
from reldp.runs.ledger import _today

__all__ = ["NAME", "Budget"]

_ID_BYTES = 16
_Entry = Mapping[str, Any]


class Budget:
    """An open budget; closed by ``with``. Other processes wait until it is closed."""

    def __init__(self, file: BudgetFile) -> None:
        """Take over an open file; use `create` or `open`."""
        self._file = file
        for number, entry in enumerate(file.entries, 1):
            check_entry(entry, number)
        if not file.entries or any(
            (e["kind"] == "budget") != (i == 0) for i, e in enumerate(file.entries)
        ):
            raise LedgerError(f"{NAME} must start with its unit, once, got something else.")

    @classmethod
    def create(
        cls,
        folder: str | Path,
        *,
        unit: str = "entity",
        lost: Sequence[str] = (),
        further: Callable[[str], Sequence[_Entry]] = lambda budget: (),
    ) -> "Budget":
        """Make a budget in a folder; it appears whole or not at all.

        Args:
            folder: The folder.
            unit: Unit of privacy of all runs.
            lost: Ids of earlier budgets of the same data that are gone; the new one names them.
            further: Returns more entries of the new budget, by its id.

        Raises:
            ConfigError: There is one, or there was one that is gone.
        """
        check_choice("unit", unit, UNITS, error=ConfigError)
        place = Path(folder)
        if os.path.lexists(place / LINK):
            raise ConfigError(
                f"FOLDER must not share a budget already, got {LINK} in {str(folder)!r}."
            )
        gone = [] if (place / NAME).exists() else lost_budgets(place)
        if not set(gone) <= set(lost):
            raise ConfigError(
                f"FOLDER must not have lost its budget, got {str(folder)!r}, whose {NAME} is gone. {restore(gone)}"
            )
        budget = secrets.token_hex(_ID_BYTES)
        entry: dict[str, Any] = {"kind": "budget", "format": 1, "id": budget}
        if lost:
            entry["lost"] = [lost_record(budget) for budget in lost]
        BudgetFile.create(place, entry | {"unit": unit, "date": _today()}, *further(budget))
        return cls.open(folder)

    @classmethod
    def open(
        cls, folder: str | Path, *, read_only: bool = False, patience: float | None = None
    ) -> "Budget":
        """Open the budget in a folder; wait while another process has it open.

        Args:
            folder: The folder.
            read_only: Whether nothing will be entered; the file stays as it is.
            patience: Seconds to wait for another process; a minute if None.

        Raises:
            ConfigError: There is none.
            LedgerError: It was changed, is damaged, or lacks entries that were made.
            RunError: Another process has it open for too long.
        """
        file = BudgetFile.open(Path(folder), read_only=read_only, patience=patience)
        try:
            return cls(file)
        except BaseException:
            file.close()
            raise

    @property
    def id(self) -> str:
        """The random id of the budget."""
        return self._file.id

    @property
    def unit(self) -> str:
        """The unit of privacy of all runs."""
        return str(self.entries[0]["unit"])

    @property
    def entries(self) -> tuple[_Entry, ...]:
        """All entries in order."""
        return tuple(self._file.entries)

    @property
    def lost(self) -> tuple[_Entry, ...]:
        """Earlier budgets of the same data that were declared lost: id, and last known folder and number of entries."""
        return tuple(self.entries[0].get("lost", ()))

    @property
    def lost_ids(self) -> list[str]:
        """Ids of these budgets."""
        return [str(one["id"]) for one in self.lost]

    @property
    def limit(self) -> _Entry | None:
        """The limit that holds: the last one that was set."""
        return next(reversed(self.limits), None)

    @property
    def limits(self) -> tuple[_Entry, ...]:
        """All limits in the order in which they were set."""
        return budget_limits.limits(self.entries)

    @property
    def charges(self) -> list[Charge]:
        """Everything that was entered."""
        return [
            charge_of(entry)
            for entry in self.entries
            if entry["kind"] in ("run", "search", "sizes")
        ]

    @property
    def is_adaptive(self) -> bool:
        """Whether plans may be chosen by results of earlier runs, or could be once, so that epsilons are added."""
        return budget_limits.is_adaptive(self.entries)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at delta of everything that was entered."""
        return composed_epsilon(self.charges, delta, adaptive=self.is_adaptive)

    def spent_delta(self, delta: float) -> float:
        """Return the delta of `epsilon`: that of what was entered where epsilons are added, else the given one."""
        if not self.is_adaptive or math.isinf(self.epsilon(delta)):
            return delta
        return min(delta, added_delta(self.charges))

    def set_limit(self, epsilon: float, delta: float, *, adaptive: bool = False) -> None:
        """Refuse from now on what would exceed epsilon at delta.

        Raises:
            PlanError: The numbers are out of range, or less than what was entered.
        """
        check_number("limit", epsilon, above=0, error=PlanError)
        check_number("delta", delta, above=0, below=1, error=PlanError)
        spent = composed_epsilon(self.charges, delta, adaptive=adaptive or self.is_adaptive)
        if math.isinf(spent):
            refuse_infinite_limit(self.entries, epsilon, delta)
        if spent > epsilon:
            raise PlanError(
                f"`limit` must be at least {shown_epsilon(spent)}, which is spent at this delta, got {epsilon:g}."
            )
        self._file.append(limit_entry(epsilon, delta, adaptive=adaptive))

    def find(self, token: str) -> _Entry | None:
        """Return the run or search of a token, if it was entered."""
        entered = (e for e in self.entries if e["kind"] in ("run", "search"))
        return next((e for e in entered if e["token"] == token), None)

    def has_head(self, head: str) -> bool:
        """Return whether this hash was noted as the last line of a run's ledger."""
        return any(e["kind"] == "session" and e["head"] == head for e in self.entries)

    @property
    def guarantee(self) -> tuple[float, float] | None:
        """Epsilon and delta that cover choices by results; None where no limit is adaptive.

        Epsilon is infinite where what was entered exceeds the limit, as runs that were made before they were entered
        may do: a limit that was not kept guarantees nothing (theory.md 3.5).
        """
        limit = budget_limits.guarantee(self.entries)
        if limit is None:
            return None
        epsilon, delta = limit
        spent = composed_epsilon(self.charges, delta, adaptive=True)
        return epsilon if spent <= epsilon else math.inf, delta

    @property
    def is_guarantee_late(self) -> bool:
        """Whether the guarantee needs that nobody had seen a result before a limit that came after runs was set."""
        return budget_limits.is_guarantee_late(self.entries)

    def has_session(self, token: str) -> bool:
        """Return whether the run or search of a token was started."""
        return newest_state(self.entries, token) is not None

    def knows_state(self, token: str, head: str) -> bool:
        """Return whether this hash was noted as the last line of the ledger of this run."""
        return is_state(self.entries, token, head)

    def enter_run(
        self,
        token: str,
        plan: PrivacyPlan,
        *,
        purpose: str = "train",
        release: str | None = None,
        is_spent: bool = False,
    ) -> bool:
        """Enter a run before it starts; once for each token.

        Args:
            token: A random token of the run.
            plan: Its plan.
            purpose: What it is for.
            release: Which private sizes its plan uses (`reldp.runs.release_name.release_id`), if any.
            is_spent: Whether it ran before it was entered: it is entered whatever the limit.

        Returns:
            Whether it was entered now, and not before.

        Raises:
            ConfigError: The token belongs to a run of another plan, or the unit differs.
            PlanError: The limit would be exceeded; nothing is entered.
        """
        entry = {"kind": "run", "token": token, "purpose": purpose, "plan": plan.to_dict()}
        return self._enter(token, plan, entry, release, within_limit=not is_spent)

    def enter_search(
        self,
        token: str,
        plan: PrivacyPlan,
        size: SearchSize,
        *,
        release: str | None = None,
        is_spent: bool = False,
    ) -> bool:
        """Enter a search before its first run starts; like `enter_run`."""
        entry = {"kind": "search", "token": token, "plan": plan.to_dict(), "size": size.to_dict()}
        if is_spent:
            entry["purpose"] = budget_limits.ENTERED_LATER
        return self._enter(token, plan, entry, release, within_limit=not is_spent)

    def _enter(
        self,
        token: str,
        plan: PrivacyPlan,
        entry: dict[str, Any],
        release: str | None,
        *,
        within_limit: bool = True,
    ) -> bool:
        known = self.find(token)
        if known is not None:
            if any(known.get(name) != entry.get(name) for name in ("kind", "plan", "size")):
                raise ConfigError(
                    "The run must have the plan that its budget knows, got another. Use another folder."
                )
            return False
        self._refuse_unit(plan.unit)
        if within_limit:
            self.refuse_claim(is_claimed=plan.status == "claimed")
        if release is not None:
            entry["release"] = release
        if within_limit:
            self._refuse_excess(charge_of(entry))
        self._file.append(entry | {"date": _today()})
        return True

    def refuse_run(
        self, plan: PrivacyPlan, *, release: str | None = None, search: SearchSize | None = None
    ) -> None:
        """Refuse a run or search that could not be entered; nothing is entered.

        Args:
            plan: Its plan.
            release: Which private sizes its plan uses, if any.
            search: The number of runs of a search, or its distribution.

        Raises:
            ConfigError: Its unit of privacy is another.
            PlanError: It would exceed the limit, or has no proof.
        """
        self._refuse_unit(plan.unit)
        self.refuse_claim(is_claimed=plan.status == "claimed")
        self._refuse_excess(Charge(plan=plan, release=release, search=search))

    def refuse_release(self, unit: str, epsilon: float, delta: float) -> None:
        """Refuse, before it is drawn, a release of sizes for another unit, or one that could exceed the limit.

        Raises:
            ConfigError: The unit differs.
            PlanError: The limit could be exceeded.
        """
        self._refuse_unit(unit)
        self._refuse_excess(
            Charge(epsilon=epsilon, delta=delta),
            "up to {} with a release of private sizes alone, to which the steps of a run would add",
            "Use a smaller target epsilon or declared sizes",
        )

    def refuse_claim(self, *, is_claimed: bool) -> None:
        """Refuse a run whose epsilon has no proof.

        Raises:
            PlanError: It has none.
        """
        if is_claimed:
            raise PlanError(
                "The budget must cover plans with a proof, got one whose epsilon is claimed without one."
            )

    def _refuse_unit(self, unit: str) -> None:
        if unit != self.unit:
            raise ConfigError(
                f"`unit` must be {self.unit} in this budget, got {unit}. Epsilons of different units cannot be "
                f"composed. If no run was entered yet, delete {NAME} and make the budget anew: reldp budget init "
                f"FOLDER --unit {unit}, with the --lost-budget that it may ask for."
            )

    def enter_release(
        self, epsilon: float, delta: float, release: str, *, salt: str | None = None
    ) -> None:
        """Enter private sizes that were drawn, before anybody sees them; with a salt, after (`past_releases`)."""
        self._file.append(release_entry(epsilon, delta, release, salt=salt))

    def note_session(
        self, token: str, hashes: Collection[str], head: str, *, words: tuple[str, str] = RUN
    ) -> None:
        """Note the state of a run or a search: where it is started or resumed, on its way, and at its end.

        Args:
            token: The token of the run.
            hashes: Hashes of all lines of its ledger.
            head: Hash of the last line.
            words: Beginning and end of a refusal.

        Raises:
            ResumeError: The ledger lacks the line that was noted last.
        """
        newest = newest_state(self.entries, token)
        refuse_other_state(newest, hashes, words)
        if newest != head:
            self._file.append(state_entry(token, head))

    def _refuse_excess(self, charge: Charge, *words: str) -> None:
        """Refuse a charge beyond the limit; the words say what brings the budget to which epsilon, and what to do."""
        refuse_excess(self.entries, self.charges, charge, *words)

    def close(self) -> None:
        """Let another process open the budget."""
        self._file.close()

    def __enter__(self) -> "Budget":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
