"""How a run folder and a budget know each other: a run is entered before it starts.

A random token in the run folder (budget.json) names the entry. It is written first, so a process that is killed between
the entry and the start of the run finds the token again and is not entered twice. A folder with the token of a run that
was started (`reldp.runs.noted_states`), and without its ledger, is a new run, and is entered again.

Public inside the package: `BudgetUse`, `enter`, `enter_past_run`, `read_token`, `release_of`, `run_token`.

>>> BudgetUse(folder=Path("graph"), fingerprint="0" * 64).purpose
'train'
"""

import hashlib
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reldp._real_path import path_text
from reldp.accounting.search import SearchSize
from reldp.errors import ConfigError, LedgerError
from reldp.graph.graph_names import GraphNames
from reldp.runs import schema
from reldp.runs.budget import Budget
from reldp.runs.budget_entries import TOKEN
from reldp.runs.budget_limits import ENTERED_LATER
from reldp.runs.budgeted_graphs import note_graph
from reldp.runs.durable import disk_errors, write_durably
from reldp.runs.ledger import completion_hash, read_ledger
from reldp.runs.past_releases import enter_at_first_use, known_release
from reldp.runs.plain_files import read_plain
from reldp.runs.release_name import release_id
from reldp.runs.run_folder import BUDGET_TOKEN, RunFolder, read_plan
from reldp.runs.sensitive_file import SensitiveRecord
from reldp.runs.strict_json import parse_json

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = [
    "BudgetUse",
    "enter",
    "enter_past_run",
    "read_token",
    "release_of",
    "run_token",
]


_NOT_OF_SIZE = ("candidates", "release_sha256")  # of what a ledger says about a search


@dataclass(frozen=True, kw_only=True)
class BudgetUse:
    """The budget that a run is entered in.

    Attributes:
        folder: Folder of the budget.
        fingerprint: Of the capped graph; sensitive.
        purpose: What the run is for.
        search: Token of the search that the run belongs to, which was entered instead of it.
        names: Of the graph before capping; sensitive.
        graph: Folder of the graph, if it has one.
    """

    folder: Path
    fingerprint: str
    purpose: str = "train"
    search: str | None = None
    names: GraphNames | None = None
    graph: Path | None = None


def enter(run: RunFolder, plan: "PrivacyPlan", use: BudgetUse | None) -> None:
    """Enter a run that is about to start, or to be resumed.

    Raises:
        ConfigError: The run was entered in a budget that is not the graph's, or its unit is another.
        PlanError: The limit would be exceeded; nothing is entered.
    """
    if use is None:
        if (run.path / BUDGET_TOKEN).exists():
            raise ConfigError(
                "The run must be resumed with its budget, got none for this graph. Name its folder with `budget`."
            )
        return
    with Budget.open(use.folder) as budget:
        if use.names is not None:
            if not (run.path / BUDGET_TOKEN).exists():
                enter_at_first_use(use.graph, use.names.exact, budget, use.folder)
            note_graph(budget.id, use.names)
        if use.search is not None:
            _require_search(budget, use.search, plan)
            return
        release = release_of(budget, plan, use.fingerprint)
        if not (run.path / BUDGET_TOKEN).exists():
            budget.refuse_run(plan, release=release)  # before anything is written
        token = run_token(run, budget.id, use.folder, lost=budget.lost_ids)
        if not run.has_run and budget.has_session(token):
            token = run_token(run, budget.id, use.folder, renew=True)
        budget.enter_run(token, plan, purpose=use.purpose, release=release)


def enter_past_run(folder: str | Path, budget: Budget) -> bool:
    """Enter a run that was made without the budget, whatever the limit; return whether it was entered now.

    A complete run and its published copies are one run: the line that ends its steps is the same in all of them. Copies
    that went on before that line are different runs, whose steps were released as well.

    Raises:
        ConfigError: It is in another budget, or its unit is another.
        RunError: There is no run.
    """
    run = RunFolder(folder)
    # Nothing is read through a link, and what is spent must be entered.
    run.require_run(may_hold_links=True)
    record, plan = read_ledger(run.ledger, half_line_allowed=True), read_plan(run)
    search, end = record.start.get("search"), completion_hash(record)
    if end is not None and budget.has_head(end):  # entered when it ran, or by another copy
        return False
    if end is None or (run.path / BUDGET_TOKEN).exists():
        token = run_token(run, budget.id, lost=budget.lost_ids)
    else:
        token = hashlib.sha256(f"run {end}".encode()).hexdigest()[:32]
        if run.sensitive.exists():  # a published bundle stays as it is
            _write_token(run, token, budget.id)
    release = None
    if run.sensitive.exists():
        release = release_of(budget, plan, SensitiveRecord.read(run.sensitive).fingerprint)
    if search is not None:  # the best of a search has spent what the search has
        size = SearchSize.from_dict({n: v for n, v in search.items() if n not in _NOT_OF_SIZE})
        is_new = budget.enter_search(token, plan, size, release=release, is_spent=True)
    else:
        is_new = budget.enter_run(
            token, plan, purpose=ENTERED_LATER, release=release, is_spent=True
        )
    if is_new and end is not None:  # so that its published copies are recognized
        budget.note_session(token, [end], end)
    return is_new


def run_token(
    run: RunFolder,
    budget: str,
    folder: Path | None = None,
    *,
    renew: bool = False,
    lost: Collection[str] = (),
) -> str:
    """Return the token by which a budget knows a run folder; made, and written to the disk, by the first call.

    Args:
        run: The folder.
        budget: The id of the budget.
        folder: Its folder.
        renew: Whether to make a new one.
        lost: Ids of budgets that this one takes the place of: their runs keep their tokens and change over to it.

    Raises:
        ConfigError: The run is in another budget.
        LedgerError: The file is damaged.
    """
    if renew or not (run.path / BUDGET_TOKEN).exists():
        _write_token(run, secrets.token_hex(16), budget, folder)
    values = read_token(run)
    if values["budget"] in lost:
        values = _write_token(run, values["token"], budget, folder)
    if values["budget"] != budget:
        raise ConfigError(
            "The run must stay in the budget that it was entered in, got another one for this graph."
        )
    return values["token"]


def _write_token(
    run: RunFolder, token: str, budget: str, folder: Path | None = None
) -> dict[str, str]:
    """Write by which token which budget knows a run; return what is written."""
    place = run.path / BUDGET_TOKEN
    values = {"token": token, "budget": budget}
    values |= {} if folder is None else {"folder": path_text(folder)}
    with disk_errors(place):
        run.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_durably(place, (json.dumps(values) + "\n").encode(), mode=0o600)
    return values


def read_token(run: RunFolder) -> dict[str, str]:
    """Return by which token which budget knows a run.

    Raises:
        LedgerError: The file is damaged.
    """
    try:
        values = parse_json(read_plain(run.path / BUDGET_TOKEN, limit=2**16), BUDGET_TOKEN)
        schema.check(values, {"token": TOKEN, "budget": TOKEN, "folder?": schema.TEXT})
    except schema.SchemaError:
        raise LedgerError(f"{BUDGET_TOKEN} must hold the token of a run, got damage.") from None
    return dict(values)


def release_of(budget: Budget, plan: "PrivacyPlan", fingerprint: str) -> str | None:
    """Return the name of the private sizes that a plan for a capped graph uses; None if it uses none."""
    if plan.sizes != "private":
        return None
    bounds = plan.num_entities, plan.num_relations
    past = known_release(budget, fingerprint, bounds)
    return release_id(budget.id, fingerprint, *bounds) if past is None else past


def _require_search(budget: Budget, token: str, plan: "PrivacyPlan") -> None:
    entry = budget.find(token)
    if entry is None or entry["kind"] != "search" or dict(entry["plan"]) != plan.to_dict():
        raise ConfigError(
            "A run of a search must have the plan that was entered for the search, got another."
        )
