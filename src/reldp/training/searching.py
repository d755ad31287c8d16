"""A search for settings that releases its best run and nothing else.

The number of runs is drawn once, secretly, from a distribution (theory.md 3.5, Theorem E), or fixed and known. Each run
draws its settings from a list that was fixed before. The best run by a public graph is kept; every other run is removed
as soon as it has lost. The search is entered in the budget of the graph before its first run, and its
runs are not entered again. The certificate of the released run has the epsilon of the search.

The folder of a search holds:

    search.json    the number of runs, the settings drawn and the scores so far: *sensitive* (mode 0600)
    budget.json    the token by which the budget knows the search
    runs/          the run under way, and the best one so far
    best/          the released run, when the search is complete

An interrupted search goes on with the number that was drawn: the budget keeps a commitment to it, and a search whose
number is gone is refused. When it is complete, number and scores are removed. All runs carry the day on which the
search began, so that the released one does not show its place. How long a search takes depends on the number, so
its time must not be shown to others.

Inside the package: `Search`, `candidates`.

>>> candidates({"learning.learning_rate": [0.1, 0.2], "learning.schedule": ["linear"]})[1]
{'learning': {'learning_rate': 0.2, 'schedule': 'linear'}}
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.errors import ConfigError, ResumeError
from reldp.graph.graph_names import graph_names
from reldp.runs import schema
from reldp.runs.budget import Budget
from reldp.runs.budget_entry import release_of, run_token
from reldp.runs.budget_place import budget_of_graph
from reldp.runs.budget_sessions import SEARCH
from reldp.runs.budgeted_graphs import note_graph
from reldp.runs.certificate_files import write_certificate
from reldp.runs.changes import changes
from reldp.runs.durable import TEMPORARY, disk_errors, write_durably
from reldp.runs.folder_lock import locked_folder
from reldp.runs.ledger import Ledger, completion_hash, fixed_day, read_ledger
from reldp.runs.past_releases import enter_at_first_use
from reldp.runs.plain_files import read_plain
from reldp.runs.run_folder import BUDGET_TOKEN, LOCK, RunFolder
from reldp.runs.strict_json import parse_json
from reldp.training.chosen_loss import recorded_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from reldp.accounting.search import SearchSize
    from reldp.graph import CappedGraph
    from reldp.training.trainer import Trainer

__all__ = ["Search", "candidates", "require_eval_graph", "required_budget"]

_SECTIONS = ("learning", "encoder")
_LIMIT = 2**26
_NUMBERS = schema.Rule(
    "a list of numbers",
    lambda v: type(v) is list and all(type(x) in (int, float) for x in v),
)
_STATE = {
    "salt": schema.HASH,
    "day": schema.DATE,
    "settings_sha256": schema.HASH,
    "choices": _NUMBERS,
    "scores": _NUMBERS,
}


def candidates(varied: Mapping[str, Sequence[Any]]) -> list[dict[str, dict[str, Any]]]:
    """Return every combination of the values of some settings, by section and name.

    Raises:
        ConfigError: A setting may not vary: it would change the plan.
    """
    for name, values in varied.items():
        section, dot, _ = name.partition(".")
        if not dot or section not in _SECTIONS:
            raise ConfigError(
                f"`vary` must name a setting of {' or '.join(_SECTIONS)}, got {name!r}: all runs of a search "
                "have one plan."
            )
        if not values:
            raise ConfigError(f"`vary` must give values for {name}, got none.")
    made = []
    for chosen in product(*varied.values()):
        settings: dict[str, dict[str, Any]] = {}
        for name, value in zip(varied, chosen, strict=True):
            section, _, setting = name.partition(".")
            settings.setdefault(section, {})[setting] = value
        made.append(settings)
    return made


def required_budget(capped: "CappedGraph", named: str | Path | None) -> Path:
    """Return the folder of the budget that a search on a graph is entered in.

    Args:
        capped: The training graph.
        named: Folder of a budget, for a graph without one.

    Raises:
        ConfigError: There is none.
    """
    place = budget_of_graph(capped.graph.folder, named, graph_names(capped.graph))
    if place is None:
        raise ConfigError(
            "The graph must have a budget for a search, got none. Make one with reldp budget init."
        )
    return place


def require_eval_graph(given: object) -> None:
    """Refuse a search without a public graph to choose by."""
    if given is None:
        raise ConfigError(
            "`eval_graph` must be given for a search: its best run is chosen by a public graph, got none."
        )


class Search:
    """A search in a folder.

    Args:
        folder: The folder: new, or with this search to go on with.
        size: The number of runs, or its distribution.
        settings: The candidates, as plain values.
        make: Returns a trainer for a candidate; all must have one plan and choose by a public graph.
        budget: Folder of the budget, if one is named; else that of the graph.
    """

    def __init__(
        self,
        folder: str | Path,
        size: "SearchSize",
        settings: Sequence[Mapping[str, Any]],
        make: "Callable[[Mapping[str, Any]], Trainer]",
        *,
        budget: str | Path | None = None,
    ) -> None:
        self.folder, self.best = Path(folder), Path(folder) / "best"
        self._size, self._settings, self._make = size, list(settings), make
        self._budget, self._place = budget, Path(folder) / "search.json"
        self._token = self._settings_sha256 = ""

    def run(self) -> Path:
        """Make all runs that are left; return the folder of the released one.

        Raises:
            ConfigError: The graph has no budget, or the folder holds something else.
            PlanError: The budget's limit would be exceeded; nothing is entered.
            ResumeError: The search is another one, or its number is gone.
        """
        if self.is_complete:
            self._refuse_another()
            return self.best
        with closing(locked_folder(self.folder)):
            self._refuse_other_files()
            state = self._begin()
            with fixed_day(state["day"]):
                for number in range(len(state["scores"]), len(state["choices"])):
                    self._clear(state)
                    state["scores"].append(self._score(number, state))
                    self._write(state)
                self._clear(state)
                self._release(state)
        return self.best

    @property
    def is_complete(self) -> bool:
        """Whether the folder holds the result of a search."""
        return not self._place.exists() and RunFolder(self.best).certificate.exists()

    def _refuse_another(self) -> None:
        """Refuse a folder with the result of another search: of other data, another plan, or other settings."""
        recorded = dict(read_ledger(RunFolder(self.best).ledger).start.get("search", {}))
        asked = {**self._size.to_dict(), "candidates": len(self._settings)}
        differences = changes("search.", {n: recorded.get(n) for n in asked}, asked)
        for settings in [] if differences else self._settings:
            trainer = self._make(settings)
            trainer._search = recorded
            try:
                trainer.fit(self.best)
                return
            except ResumeError as error:
                differences = [str(error)]
        raise ResumeError(
            f"The search in {str(self.folder)!r} is complete, and it is another one: {differences[0]} "
            "Use another folder."
        )

    def _refuse_other_files(self) -> None:
        """Refuse a folder that cannot hold the result, before anything is released or entered."""
        names = {self._place.name, BUDGET_TOKEN}
        names |= {LOCK, *(name + TEMPORARY for name in names)}
        if self._place.exists() or (self.folder / BUDGET_TOKEN).exists():
            names |= {"runs", self.best.name}
        with disk_errors(self.folder):
            foreign = sorted(set(os.listdir(self.folder)) - names)
        if foreign:
            raise ConfigError(
                f"`output` must be a new folder, or that of this search, got one with {foreign[0][:80]!r} in it. "
                "Choose another folder."
            )

    def _begin(self) -> dict[str, Any]:
        """Enter the search, and draw its number once."""
        trainer = self._make(self._settings[0])
        plan, graph = trainer.plan, trainer.capped
        logging = trainer.config.logging
        if logging.wandb_project is not None or logging.log_sensitive:
            raise ConfigError(
                "`logging` of a search must have neither wandb_project nor log_sensitive, which show its runs and "
                "their number, got one of them."
            )
        place = required_budget(graph, self._budget)
        require_eval_graph(trainer._selection)
        trainer._check_selection()
        self._settings_sha256, self._budget = self._described(trainer), place
        with Budget.open(place) as budget:
            release = release_of(budget, plan, graph.fingerprint)
            if not (self.folder / BUDGET_TOKEN).exists():
                names = graph_names(graph.graph)
                enter_at_first_use(graph.graph.folder, names.exact, budget, place)
                note_graph(budget.id, names)
                budget.refuse_run(
                    plan, release=release, search=self._size
                )  # before anything is written
            self._token = run_token(RunFolder(self.folder), budget.id, lost=budget.lost_ids)
            has_begun = budget.has_session(self._token)
            if has_begun and not self._place.exists():
                raise ResumeError(
                    f"The search must go on with the number that was drawn, got none: {self._place.name} is gone. "
                    "What was entered stays spent; start a new search in another folder."
                )
            budget.enter_search(self._token, plan, self._size, release=release)
            state = self._read() if self._place.exists() else self._draw()
            if state["settings_sha256"] != self._settings_sha256:
                raise ResumeError(
                    "`vary` of a search must stay as it was, and so must all other settings, the graph and eval_graph, "
                    "got others."
                )
            self._note(budget, state)
        return state

    def _draw(self) -> dict[str, Any]:
        count = self._size.draw()
        state = {
            "salt": secrets.token_hex(32),
            "day": datetime.now(UTC).date().isoformat(),
            "settings_sha256": self._settings_sha256,
            "choices": [secrets.randbelow(len(self._settings)) for _ in range(count)],
            "scores": [],
        }
        self._write(state)
        return state

    def _score(self, number: int, state: Mapping[str, Any]) -> float:
        """Make one run, or finish it, and return its score."""
        trainer = self._make(self._settings[state["choices"][number]])
        folder = self._run(number, state)
        hashed = hashlib.sha256(bytes.fromhex(_release_number(number, state))).hexdigest()
        trainer._search = {
            "token": self._token,
            **self._size.to_dict(),
            "candidates": len(self._settings),
            **({} if _is_unbound(folder) else {"release_sha256": hashed}),
        }
        trainer.fit(folder)
        completion = read_ledger(RunFolder(folder).ledger).completion
        assert completion is not None
        return float(completion["chosen"]["score"])

    def _clear(self, state: Mapping[str, Any]) -> None:
        """Remove every run that has lost."""
        scores = state["scores"]
        retained = {
            self._run(len(scores), state),
            *([self._run(_best(scores), state)] if scores else []),
        }
        runs = self.folder / "runs"
        with disk_errors(runs):
            runs.mkdir(mode=0o700, exist_ok=True)
            for place in runs.iterdir():
                if place not in retained:
                    shutil.rmtree(place)

    def _release(self, state: Mapping[str, Any]) -> None:
        """Put the best run in its place, and remove what must stay secret."""
        assert self._budget is not None
        with Budget.open(self._budget) as budget:
            self._note(budget, state)  # refuses a second release, by a copy of the folder
        with disk_errors(self.best):
            if not self.best.exists():
                number = _best(state["scores"])
                run = RunFolder(self._run(number, state))
                run.refuse_links()
                with Ledger.open(run.ledger) as ledger:
                    if ledger.record.is_unreleased:
                        ledger.release(_release_number(number, state))
                write_certificate(run)
                os.replace(run.path, self.best)
            shutil.rmtree(self.folder / "runs")
            self._place.unlink()

    def _run(self, number: int, state: Mapping[str, Any]) -> Path:
        """Return the folder of a run, whose name does not show its place: messages hold it."""
        name = hashlib.sha256(f"{state['salt']} {number}".encode()).hexdigest()[:16]
        return self.folder / "runs" / name

    def _described(self, first: "Trainer") -> str:
        """Return a hash of all candidates and their data, once each is known to be valid and of one plan."""
        parts: list[Any] = [self._settings, self._size.to_dict(), first.capped.fingerprint]
        for place, settings in enumerate(self._settings):
            trainer = first if not place else self._make(settings)
            if trainer.plan != first.plan:
                raise ConfigError(
                    "A run of a search must have the plan of the others, got another."
                )
            chosen_by = {} if trainer._selection is None else trainer._selection.facts
            learning = recorded_settings(trainer.config.learning, is_named=trainer._is_named)
            parts.append([trainer.encoder.describe(), learning, chosen_by])
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _note(self, budget: Budget, state: Mapping[str, Any]) -> None:
        """Note the state of the search in its budget; refuse a copy of a search that has ended otherwise."""
        heads = self._heads(state)
        budget.note_session(self._token, heads, heads[-1], words=SEARCH)

    def _heads(self, state: Mapping[str, Any]) -> list[str]:
        """Return what the budget may know: what was drawn, and the end of the search once it is reached.

        The end is the run that is released, by the line that completes it. Scores alone may be equal in two copies of
        the folder, whose runs have noise of their own. The line is on the disk before the end is noted and stays as it
        is, so a search that is interrupted in between has the same end, and so has a copy with the same best run.
        """
        drawn, scores = self._commitment(state), state["scores"]
        if len(scores) < len(state["choices"]):
            return [drawn]
        is_in_place = self.best.exists()
        place = self.best if is_in_place else self._run(_best(scores), state)
        record = read_ledger(RunFolder(place).ledger, half_line_allowed=True)
        end = _hashed(drawn, scores, completion_hash(record))
        # Version 0.10 and earlier noted the scores alone. Where this folder holds no release, another copy may have it.
        is_released = is_in_place or any(entry["kind"] == "release" for entry in record.entries)
        return [drawn, *([_hashed(drawn, scores)] if is_released else []), end]

    def _commitment(self, state: Mapping[str, Any]) -> str:
        """Return a hash of what was drawn, which shows nothing about it."""
        parts = {name: value for name, value in state.items() if name != "scores"}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _write(self, state: Mapping[str, Any]) -> None:
        with disk_errors(self._place):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(self._place, (json.dumps(state) + "\n").encode(), mode=0o600)

    def _read(self) -> dict[str, Any]:
        state = parse_json(read_plain(self._place, limit=_LIMIT), self._place.name)
        try:
            schema.check(state, _STATE)
        except schema.SchemaError as error:
            raise ResumeError(f"{self._place.name} must be that of the search: {error}.") from None
        return dict(state)


def _hashed(*parts: Any) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()


def _release_number(number: int, state: Mapping[str, Any]) -> str:
    """Return the secret number of a run, which makes it the released one; its ledger starts with the hash."""
    return hashlib.sha256(f"{state['salt']} release {number}".encode()).hexdigest()


def _is_unbound(folder: Path) -> bool:
    """Return whether a run was started by a version whose ledgers do not name the release."""
    run = RunFolder(folder)
    if not run.has_run:
        return False
    record = read_ledger(run.ledger, half_line_allowed=True)
    return "release_sha256" not in record.start.get("search", {})


def _best(scores: Sequence[float]) -> int:
    """Return the place of the best score, the first of equal ones."""
    return max(range(len(scores)), key=lambda number: (scores[number], -number))
