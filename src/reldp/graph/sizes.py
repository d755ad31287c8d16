"""Bounds on a graph's sizes that a plan may use instead of the sizes themselves (theory.md 2.4).

Neighboring graphs differ in their number of entities by one, and in their number of relations by up to K, so exact
sizes are sensitive. Theorem B: epsilon computed for n_low entities and m_high relations covers every graph with at
least n_low entities and at most m_high relations. Such bounds come from three sources.

*public*: the exact sizes, known to everybody by assumption.
*declared*: bounds that the owner knows without looking at the data. A rounding of the exact number is not a
declaration: neighbors on either side of a rounding boundary could be distinguished. The guarantee covers neighbors that
both lie within the bounds. Whether a graph is accepted depends on the data, so an acceptance or refusal must not be
shown to others.
*private*: noisy bounds, drawn once per capped graph from the operating system's entropy and stored (`size_store`):

    n_low  = n + dLap(1 / e_n) - ceil(ln(1 / d0) / e_n)       m_high = m + dLap(K / e_m) + ceil(K ln(1 / d0) / e_m)

`size_release` draws them and states their cost. Where entities have owners, n counts owners: neighbors differ in
one owner, and the number of entities is never used.

Public: `LARGEST`, `SizeBounds`, `bounds_for`, `check_bounds`, `drawn_epsilon`, `has_release`, `stored_bounds`.

>>> bounds = SizeBounds(min_entities=900, max_relations=2000, source="declared")
>>> bounds.default_delta()[0]
0.00011111111111111112
"""

import os
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from reldp._validate import SIZES, as_integer, check_choice, check_integer, check_number
from reldp.errors import PlanError
from reldp.graph.size_release import (
    Release,
    draw_release,
    largest_cost,
    num_unprotected,
    release_target,
)
from reldp.graph.size_store import is_remembered, known_values, remembered, state_folder

if TYPE_CHECKING:
    from reldp.graph.capped import CappedGraph

__all__ = [
    "LARGEST",
    "SizeBounds",
    "bounds_for",
    "check_bounds",
    "drawn_epsilon",
    "has_release",
    "stored_bounds",
]

LARGEST = 10**13
"""Largest number of entities or relations of a plan."""

_DRAWN: ContextVar[float] = ContextVar("drawn_epsilon", default=0.0)
# Folders that releases of this process were looked up in; a graph made in memory does not know its own.
_GIVEN_FOLDERS: set[Path] = set()
# Seconds that another process waits for the release of the first.
_PATIENCE = 120.0


@dataclass(frozen=True, kw_only=True)
class SizeBounds:
    """What a plan may know about a graph's sizes.

    Attributes:
        min_entities: n_low, at most the number of entities.
        max_relations: m_high, at least the number of relations.
        source: ``"public"``, ``"declared"`` or ``"private"``.
        epsilon: Privacy cost of the release, all numbers together; 0 unless private.
        delta: Probability that the bounds fail, included in the plan's delta; 0 unless private.
        min_unprotected: A bound like min_entities on the unprotected entities alone, where it is known.
        expected_entities: The noisy number of entities without its margin, if private.
        expected_relations: The noisy number of relations without its margin, if private.
    """

    min_entities: int
    max_relations: int
    source: str
    epsilon: float = 0.0
    delta: float = 0.0
    min_unprotected: int | None = None
    expected_entities: int | None = None
    expected_relations: int | None = None

    def default_delta(self) -> tuple[float, float]:
        """Return the default delta, 0.1 / min_entities, and the part of it that is set aside.

        If delta is a function of the release r, the guarantee has the mean of delta(r), which a single r does not
        show. So steps are given only delta_steps(r) = 0.1 / n_high - 2 d0, with n_high = n_low + 2 c + 1 and c the
        margin. Except with probability below 2 d0 (at most four tails below d0 / 2 each, with all bounds), n_high is at
        least the number n of entities of the larger neighbor, so the mean of delta_steps plus the failures is at most
        0.1 / n: the run is (epsilon, 0.1 / n)-private, and what is stated, 0.1 / n_low, is no smaller than 0.1 / n
        (theory.md 2.4).
        """
        stated = 0.1 / self.min_entities
        if self.expected_entities is None:
            return stated, self.delta
        highest = 2 * self.expected_entities - self.min_entities + 1
        return stated, stated - 0.1 / highest + self.delta

    def relations_pool(self, capped: "CappedGraph", given: int | None) -> int:
        """Return the size of the pool of relations: a bound that they are at least, or the declared one if it is true.

        A private number of relations has the same margin on both sides: it misses either bound with probability below
        d0 / 2, which the delta of the release covers (theory.md 2.6).
        """
        if self.source == "public":
            return self.max_relations
        if self.expected_relations is not None:
            return max(2 * self.expected_relations - self.max_relations, 1)
        if given is None:
            raise PlanError(
                "`pool_size` must be given when sizes are declared and negatives are relations. "
                "Give a number that the relations are at least."
            )
        if check_integer("pool_size", given, low=1, error=PlanError) > capped.num_relations:
            raise PlanError(_outside("pool_size", "at most the number of relations"))
        return given

    def unprotected_pool(self, capped: "CappedGraph", given: int | None) -> int:
        """Return the size of the pool of unprotected entities: its bound, or the declared one if that is true."""
        exact = num_unprotected(capped)
        min_entities = given if self.source == "declared" else self.min_unprotected
        if exact == 0 or min_entities == 0:
            raise PlanError(
                "`negatives` must be another pool, got 'unprotected'. There are no unprotected entities, or too few "
                "to hide their number."
            )
        if min_entities is None:
            raise PlanError(
                "`pool_size` must be given when sizes are declared and negatives are unprotected. "
                "Give a number that the unprotected entities are at least."
            )
        if min_entities > exact:
            raise PlanError(_outside("pool_size", "at most the number of unprotected entities"))
        return min_entities


def bounds_for(
    capped: "CappedGraph",
    *,
    sizes: str,
    min_entities: int | None = None,
    max_relations: int | None = None,
    target_epsilon: float | None = None,
    delta: float | None = None,
    unit: str = "entity",
    folder: str | PathLike[str] | None = None,
    for_run: bool = False,
    is_claimed: bool = False,
) -> SizeBounds:
    """Return bounds on the sizes of a capped graph.

    Args:
        capped: The training graph.
        sizes: ``"private"``, ``"declared"`` or ``"public"``.
        min_entities: For declared sizes: a number of entities that the graph has at least.
        max_relations: For declared sizes: a number of relations that the graph has at most.
        target_epsilon: Epsilon that a private release should cost least at. Ignored if the graph has a release.
        delta: A delta that was chosen without looking at the graph, if any; the release then fails with far
            smaller probability. Ignored if the graph has a release.
        unit: ``"entity"``, ``"owner"`` or ``"relation"``; one relation changes only the number of relations, by one.
        folder: The folder that the graph was read from, by default the one that it names; a private release is stored
            there and in the user's state folder.
        for_run: Whether a run with this target and delta is to follow: a release is then refused, before it is drawn,
            if the budget of the graph could not admit that run, or may not.
        is_claimed: Whether the epsilon of that run has no proof.

    Raises:
        PlanError: The graph lies outside of declared bounds, or is too small for private sizes.
    """
    check_bounds(sizes, min_entities, max_relations)
    if sizes == "public":
        return SizeBounds(
            min_entities=capped.num_units,
            max_relations=capped.num_relations,
            source="public",
            min_unprotected=num_unprotected(capped),
        )
    if sizes == "declared":
        return _declared(capped, min_entities, max_relations)
    wanted = (target_epsilon, delta, is_claimed) if for_run else None
    target = release_target(target_epsilon)
    return _private(capped, target, _given_delta(delta), unit, folder, wanted)


def check_bounds(sizes: str, min_entities: int | None, max_relations: int | None) -> None:
    """Refuse bounds that break their rules whatever the graph is.

    Args:
        sizes: Where bounds come from.
        min_entities: The declared number of entities, if any.
        max_relations: The declared number of relations, if any.

    Raises:
        PlanError: Bounds are missing, out of range, or not needed.
    """
    check_choice("sizes", sizes, SIZES, error=PlanError)
    if sizes == "declared":
        _declared_bound("min_entities", min_entities)
        _declared_bound("max_relations", max_relations)
    elif (min_entities, max_relations) != (None, None):
        name = "max_relations" if min_entities is None else "min_entities"
        raise PlanError(f"`{name}` must be given for declared sizes only, got sizes {sizes!r}.")


def drawn_epsilon(*, forget: bool = False) -> float:
    """Return what the newest release that was drawn here has cost; 0 if none was.

    Args:
        forget: Whether to begin anew, as at the start of a command.
    """
    if forget:
        _DRAWN.set(0.0)
    return _DRAWN.get()


def has_release(capped: "CappedGraph", folder: str | PathLike[str] | None = None) -> bool:
    """Return whether private sizes of a capped graph have been drawn; looking costs nothing.

    Args:
        capped: The training graph.
        folder: The folder that the graph was read from.
    """
    return is_remembered(capped.fingerprint, _folders(folder, _home(capped)))


def stored_bounds(capped: "CappedGraph", unit: str) -> list[SizeBounds | None] | None:
    """Return the bounds of each release that is known for a capped graph, the one that decides last.

    A release that is too noisy for bounds gives None, and the list is empty if none is stored here. All of it is None
    where this process is not the first of several, and the first has compared.

    Args:
        capped: The training graph.
        unit: The unit of privacy, which the cost of a release depends on.
    """
    if _is_follower():
        return None
    read_from = (capped.graph.folder, _home(capped))
    places = dict.fromkeys([*_folders(), *sorted(_GIVEN_FOLDERS), *_folders(*read_from)])
    stored = known_values(capped.fingerprint, list(places))
    return [_bounds_of(Release.parsed(values), capped, unit) for values in stored]


def _bounds_of(release: Release, capped: "CappedGraph", unit: str) -> SizeBounds | None:
    try:
        return _released(release, capped, unit)
    except PlanError:
        return None


def _is_follower() -> bool:
    """Return whether this process is not the first of several: of a process group, or as torchrun says."""
    distributed = sys.modules.get("torch.distributed")  # whoever has made a group has imported it
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return bool(distributed.get_rank() > 0)
    return os.environ.get("RANK", "0") != "0" and os.environ.get("WORLD_SIZE", "1") != "1"


def _has_appeared(capped: "CappedGraph", folder: str | PathLike[str] | None) -> bool:
    """Wait for the release of the first process; each machine would otherwise draw one, and each costs epsilon."""
    until = time.monotonic() + _PATIENCE
    while not has_release(capped, folder):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _home(capped: "CappedGraph") -> Path | None:
    """Return the folder that a graph was read from, where a budget looks for releases: of a store, for a part of it."""
    folder = capped.graph.folder
    return None if folder is None else import_module("reldp.graph.store.derived").store_of(folder)


def _folders(*given: str | PathLike[str] | None) -> list[Path]:
    """Return the places of private sizes: the user's state folder, and those that are given and there."""
    state = state_folder()
    places = [Path(place) for place in given if place is not None]
    known = [] if state is None else [state]
    return list(dict.fromkeys([*known, *(place for place in places if place.is_dir())]))


def _given_delta(delta: float | None) -> float | None:
    """Return a delta that was given, checked before anything is released."""
    if delta is not None:
        rule = "a number strictly between 0 and 1"
        check_number("delta", delta, low=1e-300, below=1, rule=rule, error=PlanError)
    return delta


def _outside(name: str, rule: str) -> str:
    """Return the refusal of a graph outside of declared bounds, which is for the owner's eyes only."""
    return (
        f"`{name}` must be {rule}, and is not for this graph. Declare a looser bound. "
        "This answer depends on the data: do not show it to others."
    )


def _declared(
    capped: "CappedGraph", min_entities: int | None, max_relations: int | None
) -> SizeBounds:
    least = _declared_bound("min_entities", min_entities)
    largest = _declared_bound("max_relations", max_relations)
    if capped.num_units < least:
        raise PlanError(_outside("min_entities", "at most the number of entities"))
    if capped.num_relations > largest:
        after = f"at least the number of relations after capping at degree {capped.max_degree}"
        raise PlanError(_outside("max_relations", after))
    return SizeBounds(min_entities=least, max_relations=largest, source="declared")


def _declared_bound(name: str, value: int | None) -> int:
    rule = f"an integer from 1 to {LARGEST:,} for declared sizes"
    fix = "Give both bounds, from what is known without looking at the data."
    if value is None:
        raise PlanError(f"`{name}` must be given for declared sizes. {fix}")
    number = as_integer(value)
    return check_integer(name, number, low=1, high=LARGEST, rule=rule, fix=fix, error=PlanError)


def _private(
    capped: "CappedGraph",
    target: Fraction,
    delta: float | None,
    unit: str,
    folder: str | PathLike[str] | None,
    run: tuple[float | None, float | None, bool] | None,
) -> SizeBounds:
    if _is_follower() and not _has_appeared(capped, folder):
        raise PlanError(
            f"`sizes` must be released once, by the first process of torchrun, got no release here in {_PATIENCE:.0f} "
            "seconds. Let all machines share the graph's folder or RELDP_STATE_DIR, or use reldp train, whose first "
            "process sends the plan to the others."
        )
    places = [None if folder is None else Path(folder), _home(capped)]
    _GIVEN_FOLDERS.update(place for place in places if place is not None)
    release = remembered(
        capped.fingerprint,
        _folders(*places),
        Release.parsed,
        lambda: _drawn(capped, target, delta, unit, places, run).values(),
    )
    for place in places:
        if place is not None and is_remembered(capped.fingerprint, [place]):
            import_module("reldp.runs.noted_releases").note_copy(capped.fingerprint, place)
    return _released(release, capped, unit)


def _released(release: Release, capped: "CappedGraph", unit: str) -> SizeBounds:
    """Return the bounds that follow from a release; one that is too noisy for them is refused."""
    min_entities, max_relations, unprotected = release.bounds(num_unprotected(capped))
    return SizeBounds(
        min_entities=min_entities,
        max_relations=max_relations,
        source="private",
        epsilon=release.epsilon(unit),
        delta=release.delta,
        min_unprotected=unprotected,
        expected_entities=release.entities,
        expected_relations=release.relations,
    )


def _drawn(
    capped: "CappedGraph",
    target: Fraction,
    delta: float | None,
    unit: str,
    places: Sequence[Path | None],
    run: tuple[float | None, float | None, bool] | None,
) -> Release:
    """Draw a release that the graph's budget, if it has one, allows, and enter it there, or note it for a later one."""
    # By their names: the budget is built on plans, which are built on this module.
    find_budget = import_module("reldp.runs.budget_place").find_budget
    home = places[-1]
    with_budget = (place for place in reversed(places) if find_budget(place) is not None)
    place = next(with_budget, home or places[0])
    entry = import_module("reldp.runs.release_entry").ReleaseEntry.of(capped, place)
    if entry is not None:
        entry.refuse(unit, *largest_cost(target, delta), run)
    release = draw_release(capped, target, delta)
    _DRAWN.set(release.epsilon(unit))
    if entry is not None:
        entry.enter(release)
    elif home is None or not os.access(home, os.W_OK):
        note = import_module("reldp.runs.noted_releases").note_release
        for name in _names(capped, home):
            note(release, capped.fingerprint, name)
    return release


def _names(capped: "CappedGraph", home: Path | None) -> list[str]:
    """Return the names of the graphs that may get a budget later: the graph, and the store that it is a part of."""
    names = [import_module("reldp.graph.graph_names").graph_names(capped.graph).exact]
    if home is not None and home != capped.graph.folder:
        names.append(import_module("reldp.graph").EntityGraph.read(home).fingerprint)
    return list(dict.fromkeys(names))
