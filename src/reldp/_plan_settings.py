"""Checks of a plan's settings, and the settings that follow from others.

Private to `reldp.plan`.

>>> rate_and_batch_size(None, 32.0, num_relations=64_000)
(0.0005, 32.0)
"""

import math
from collections.abc import Callable, Collection
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from reldp._plan_suggestion import lacks_settings
from reldp._validate import (
    UNITS,
    as_integer,
    check,
    check_choice,
    check_integer,
    check_name,
    check_number,
    is_integer,
)
from reldp.clipping import ClippingRule, get_rule, is_builtin
from reldp.errors import PlanError, RunError, UnreachableTarget
from reldp.graph.capped import CappedGraph
from reldp.graph.sizes import LARGEST, SizeBounds, has_release
from reldp.runs.strict_json import parse_json

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = [
    "MAX_STEPS",
    "ClippingSetting",
    "check_before_release",
    "check_capped",
    "check_graph_settings",
    "check_rule",
    "check_sizes",
    "check_target",
    "checked_pool_size",
    "graph_fields",
    "parsed_plan",
    "rate_and_batch_size",
    "rule_name",
    "rule_status",
    "unit_for",
]

MAX_STEPS = 10**8  # of a run; more would take months
_MANY = 10**12  # entities of a graph that admits every setting
_FROM_GRAPH = (
    "num_entities",
    "num_relations",
    "max_degree",
    "num_relation_types",
    "sizes_epsilon",
    "sizes_delta",
)


class ClippingSetting:
    """A dataclass field that is set to a rule or to its name, and read as the rule."""

    @overload
    def __get__(self, plan: None, owner: type | None) -> str: ...
    @overload
    def __get__(self, plan: object, owner: type | None) -> ClippingRule: ...
    def __get__(self, plan: object | None, owner: type | None = None) -> str | ClippingRule:
        if plan is None:
            return "tuple"  # the default
        rule: ClippingRule = plan.__dict__["clipping"]
        return rule

    def __set__(self, plan: object, rule: str | ClippingRule) -> None:
        plan.__dict__["clipping"] = get_rule(rule)


def rule_status(rule: str | ClippingRule) -> str:
    """Return the status of a rule, or of its name; a rule from outside of reldp claims without a proof."""
    known = get_rule(rule)
    return known.status if is_builtin(known) else "claimed"


def rule_name(rule: ClippingRule) -> str:
    """Return what a plan's JSON calls a rule; one from outside must not be read as one of reldp."""
    return rule.name if is_builtin(rule) else f"{type(rule).__module__}.{type(rule).__qualname__}"


def parsed_plan(text: str | bytes) -> dict[str, Any]:
    """Return the fields that a plan's JSON holds; JSON that could be read in two ways is refused."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        values = parse_json(data, "a plan")
    except RunError as error:
        raise PlanError(str(error)) from None
    kind = type(values).__name__
    check(isinstance(values, dict), "plan", "a JSON object", kind, error=PlanError)
    return dict(values)


def check_graph_settings(
    known: Collection[str], settings: dict[str, Any], target_epsilon: float | None
) -> None:
    """Refuse settings of `for_graph` that are misspelled, follow from the graph or contradict the target.

    Makes integers of other types, such as those of NumPy, Python integers, and removes a noise multiplier of None
    beside a target.
    """
    for name, value in settings.items():
        check_name(name, known, "a field of PrivacyPlan", error=PlanError)
        settings[name] = as_integer(value)
    if target_epsilon is not None and settings.get("noise_multiplier", 0) is None:
        del settings["noise_multiplier"]
    taken = sorted(set(settings) & set(_FROM_GRAPH))
    if taken:
        raise PlanError(f"`{taken[0]}` must not be given: it follows from the graph. Leave it out.")
    if "num_steps" in settings:
        steps = settings["num_steps"]
        fix = "A run of more steps would take months, and its certificate cannot be verified."
        fix = fix if is_integer(steps) and steps > MAX_STEPS else ""
        check_integer("num_steps", steps, high=MAX_STEPS, error=PlanError, fix=fix)
    if target_epsilon is not None and "noise_multiplier" in settings:
        raise PlanError(
            "`noise_multiplier` must not be given with a target epsilon. Leave one out."
        )
    if target_epsilon is None and "noise_multiplier" not in settings and lacks_settings(settings):
        raise PlanError(
            "`target_epsilon` must be given where settings are suggested, got none. Give it, or "
            "`noise_multiplier`; 4 is a common target."
        )


def check_before_release(
    make: Callable[..., object],
    capped: CappedGraph,
    settings: dict[str, Any],
    sizes: str,
    folder: str | PathLike[str] | None,
) -> None:
    """Refuse settings that break their rules whatever the sizes are, before a release of sizes costs epsilon.

    Also refuses a size of the pool where it would be ignored, because it follows from the graph.

    Args:
        make: Makes a plan of fields, which checks them.
        capped: The training graph; its sizes are not looked at.
        settings: Those that were given.
        sizes: Where bounds on the sizes come from.
        folder: The folder that the graph was read from.

    Raises:
        PlanError: A setting breaks its rule.
    """
    if (
        sizes in ("private", "public")
        and settings.get("negatives") in ("unprotected", "relations")
        and settings.get("pool_size") is not None
    ):
        raise PlanError(
            f"`pool_size` must not be given for {sizes} sizes with negatives {settings['negatives']!r}: it follows "
            "from the graph. Leave it out."
        )
    if sizes != "private" or has_release(capped, folder):
        return
    if settings.get("negatives") == "unprotected" and "protected" not in capped.graph.columns:
        raise PlanError(
            "`negatives` must be another pool, got 'unprotected': without a column `protected`, all entities of the "
            "graph are protected."
        )
    chosen = {"noise_multiplier": 1.0, "num_negatives": 1, "num_steps": 1, "delta": 1e-9} | settings
    if not {"sample_rate", "expected_batch_size"} & set(settings):
        chosen["expected_batch_size"] = 1.0
    if settings.get("negatives") == "unprotected":
        chosen["pool_size"] = _MANY
    batch = chosen.get("expected_batch_size")
    relations = 1 if batch is None else 10**6
    if isinstance(batch, (int, float)) and relations < batch < _MANY:
        relations = math.ceil(batch)
    if settings.get("negatives") == "relations":  # the larger the graph, the more there are to draw
        relations = chosen["pool_size"] = _MANY
    bounds = SizeBounds(min_entities=_MANY, max_relations=relations, source="public")
    make(**graph_fields(capped, bounds, sizes_delta=0.0), **chosen)


def check_capped(capped: object) -> None:
    """Refuse a graph whose degrees are not bounded."""
    if not isinstance(capped, CappedGraph):
        raise PlanError(
            f"`capped` must be a CappedGraph, got {type(capped).__name__}. Bound the degrees first, "
            "with graph.cap_degrees or graph.promise_degrees."
        )


def graph_fields(capped: CappedGraph, bounds: SizeBounds, *, sizes_delta: float) -> dict[str, Any]:
    """Return the fields of a plan that follow from the graph: its degree bound, types, and bounds on its sizes."""
    return {
        "num_entities": bounds.min_entities,
        "num_relations": bounds.max_relations,
        "max_degree": capped.max_degree,
        "num_relation_types": len(capped.type_names),
        "sizes": bounds.source,
        "sizes_epsilon": bounds.epsilon,
        "sizes_delta": sizes_delta,
    }


def unit_for(capped: CappedGraph, unit: str) -> str:
    """Return the unit of privacy of a plan for a graph: where entities have owners, these are protected.

    Raises:
        PlanError: Owners are to be protected, and entities have none; or only relations, and they have some.
    """
    check_choice("unit", unit, UNITS, error=PlanError)
    if capped.owners is None and unit == "owner":
        raise PlanError(
            "`unit` must be entity or relation for a graph without owners, got 'owner'. Add a column "
            "'owner' to the entities."
        )
    if capped.owners is not None and unit == "relation":
        raise PlanError(
            "`unit` must be owner for a graph with owners, got 'relation'. Remove the column 'owner' if "
            "the weaker guarantee is meant."
        )
    return unit if capped.owners is None else "owner"


def check_rule(rule: ClippingRule, unit: str, analysis: str) -> None:
    """Refuse a rule under which one tuple adds more than the accountant counts for it, one clip norm.

    A rule that counts how often entities occur says nothing about their owners.
    """
    if unit == "owner" and not rule.is_local:
        raise PlanError(
            f"`clipping` must be tuple or pair where the unit is an owner, got {rule.name!r}. The claim "
            "about it is for entities."
        )
    if analysis == "anchored" and not rule.is_local:
        raise PlanError(
            f"`analysis` anchored needs a local clipping rule, got {rule.name!r}. Use best."
        )
    check_number(
        "max_tuple_norm",
        rule.max_tuple_norm,
        above=0,
        high=1,
        rule=f"a number above 0, at most 1, for the {rule} rule",
        fix="The accountant counts one clip norm for each tuple of an entity: clip to smaller norms.",
        error=PlanError,
    )


def check_sizes(sizes: str, epsilon: float, sizes_delta: float, *, delta: float) -> None:
    """Refuse private sizes without a cost, and other sizes with one."""
    for name, value, rule, limit in (
        ("sizes_epsilon", epsilon, "a finite number above 0 for private sizes", None),
        (
            "sizes_delta",
            sizes_delta,
            f"above 0 and below delta, {delta:g}, for private sizes",
            delta,
        ),
    ):
        if sizes == "private":
            fix = "Use a larger delta, or sizes that are declared or public."
            check_number(name, value, above=0, below=limit, rule=rule, fix=fix, error=PlanError)
        else:
            check(value == 0, name, f"0 for {sizes} sizes", value, error=PlanError)


def check_target(target: float, sizes_epsilon: float) -> None:
    """Refuse a target that the sizes alone use up."""
    if sizes_epsilon and target <= sizes_epsilon:
        raise UnreachableTarget(
            f"`target_epsilon` must be above {sizes_epsilon:g}, which the private sizes cost, "
            f"got {target!r}. Raise the target, or declare bounds on the sizes."
        )


def checked_pool_size(plan: "PrivacyPlan") -> int:
    """Return the size of a plan's pool of negatives: all entities, or the stated number."""
    negatives = plan.negatives
    size: int | None = plan.pool_size
    if negatives == "relations":
        _check_relation_pool(plan)
    if size is None:
        check(
            negatives == "entities",
            "pool_size",
            f"given when negatives are {negatives}",
            None,
            error=PlanError,
            fix="It is a number of relations that the graph has at least."
            if negatives == "relations"
            else "It is the number of entities they are drawn from.",
        )
        size = plan.num_entities
    size = check_integer("pool_size", as_integer(size), low=1, high=LARGEST, error=PlanError)
    if negatives == "entities":
        rule = f"num_entities, {plan.num_entities}, when negatives are entities of the graph"
        check(size == plan.num_entities, "pool_size", rule, size, error=PlanError)
    if negatives == "relations":
        rule = "at most num_relations when negatives are other relations"
        check(size <= plan.num_relations, "pool_size", rule, size, error=PlanError)
    if negatives == "unprotected":
        rule = "at most num_entities when negatives are unprotected entities"
        check(size <= plan.num_entities, "pool_size", rule, size, error=PlanError)
    return size


def _check_relation_pool(plan: "PrivacyPlan") -> None:
    """Refuse other relations as negatives where theory.md 2.6 does not cover them."""
    if plan.unit != "relation" and plan.max_degree != 1:
        raise PlanError(
            f"`max_degree` must be 1 when negatives are other relations, got {plan.max_degree}. An entity with more "
            "relations would be in several tuples: cap to 1, or draw entities as negatives."
        )
    rule = plan.clipping
    if not is_builtin(rule) or not rule.is_local or rule.splits_tuples:
        raise PlanError(
            f"`clipping` must be tuple when negatives are other relations, got {rule.name!r}."
        )


def rate_and_batch_size(
    rate: float | None, size: float | None, *, num_relations: int
) -> tuple[float, float]:
    """Return the sample rate and the expected batch size, given one of them or both."""
    size = as_integer(size)  # type: ignore[assignment] # a number, or refused below
    if size is not None:
        rule = "a number above 0, at most the number of relations"
        high = float(num_relations)
        check_number("expected_batch_size", size, above=0, high=high, rule=rule, error=PlanError)
    elif rate is None:
        raise PlanError("`sample_rate` or `expected_batch_size` must be given. The rate is b / m.")
    chosen = rate if size is None or rate is not None else size / num_relations
    rule = "a number above 0, at most 1"
    chosen = check_number("sample_rate", chosen, above=0, high=1, rule=rule, error=PlanError)
    both = rate is not None and size is not None
    if both and not math.isclose(chosen * num_relations, size, rel_tol=1e-12):  # type: ignore[arg-type]
        raise PlanError(
            "`sample_rate` and `expected_batch_size` must not both be given unless they agree, got "
            f"{rate!r} and {size!r}. Leave one out."
        )
    # Rounded, so that a plan read from its rate alone has the same divisor.
    return chosen, float(f"{chosen * num_relations:.14g}")
