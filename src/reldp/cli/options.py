"""The flags that make a plan, shared by every command that takes one.

`plan_options` gives a command the flags of `reldp.PrivacyPlan`, `make_plan` turns what was typed into a plan. All rules
about values are the plan's own; what is added here is what only a command line needs: which flags must be given, which
exclude one another, numbers written as people write them (``5e6``, ``5_000_000``), near misses of words, and a hint
where an error does not say what to do.

Public to the other commands: `Integer`, `Number`, `Word`, `plan_options`, `accountant_option`, `json_option`,
`make_plan`, `with_hint`.

>>> plan = make_plan({"num_entities": 1000, "num_relations": 2000, "max_degree": 5, "num_negatives": 4,
...                   "expected_batch_size": 16.0, "num_steps": 10, "noise_multiplier": 1.0, "delta": 1e-4})
>>> plan.sample_rate
0.008
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reldp._validate import ANALYSES
from reldp.errors import PlanError

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

    _IntegerType = click.ParamType[int]
    _NumberType = click.ParamType[float]
    _WordType = click.Choice[str]
else:  # older versions of click have no type arguments
    _IntegerType = _NumberType = click.ParamType
    _WordType = click.Choice

__all__ = [
    "Integer",
    "Number",
    "Word",
    "accountant_option",
    "json_option",
    "make_plan",
    "plan_options",
    "show_ids_option",
    "with_hint",
]

Function = TypeVar("Function", bound=Callable[..., Any])

EXACT_FLOATS = 2**53
LONGEST_QUOTE = 40


def shortened(value: object) -> str:
    """What was typed, in quotes, its end left out where it is long."""
    text = str(value)
    return repr(text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "...")


class Integer(_IntegerType):
    """A whole number; ``1e6`` and ``1_000_000`` are two ways to write one."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, or one clear line."""
        if isinstance(value, int):
            return value
        try:
            return int(value)
        except ValueError:
            pass
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if number.is_integer() and abs(number) <= EXACT_FLOATS:
            return int(number)
        rule = "must be a whole number such as 1000 or 1e6"
        return self.fail(f"{rule}, got {shortened(value)}.", param, ctx)


class Number(_NumberType):
    """A number; whether it may be negative or infinite is for the plan to say."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or one clear line."""
        try:
            return float(value)
        except ValueError:
            rule = "must be a number such as 0.5 or 1e-6"
            return self.fail(f"{rule}, got {shortened(value)}.", param, ctx)


class Word(_WordType):
    """One of a few words; a near miss is named."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word, or one clear line."""
        if value in self.choices:
            return str(value)
        near = get_close_matches(str(value).lower(), self.choices, n=1)
        fix = f" Did you mean {near[0]}?" if near else ""
        words = ", ".join(self.choices)
        return self.fail(f"must be one of {words}, got {shortened(value)}.{fix}", param, ctx)


# The hints finish errors that do not say what to do.
HINTS = {
    "num_entities": "It is the number of entities of the training graph, or a lower bound on it.",
    "num_relations": "It is the number of relations of the training graph, after capping, or an upper bound.",
    "max_degree": "It is the cap on relations per entity; 5 is customary.",
    "num_negatives": "4 is customary.",
    "sample_rate": "It is the expected batch size divided by the number of relations.",
    "expected_batch_size": "It is the sample rate times the number of relations.",
    "noise_multiplier": "Values from 0.4 to 2 are customary; reldp calibrate finds the one a target needs.",
    "num_steps": "It is the number of batches of the whole training.",
    "delta": "Take it well below 1 / entities, such as a tenth of that.",
    "pool_size": "It is the number of entities that negatives are drawn from.",
    "target_epsilon": "Values from 1 to 10 are customary; smaller is more private.",
}

_FLAGS: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    (
        "num_entities",
        Integer(),
        {"metavar": "N", "help": "Entities of the training graph, or a lower bound."},
    ),
    (
        "num_relations",
        Integer(),
        {
            "metavar": "M",
            "help": "Relations of the training graph, after capping, or an upper bound.",
        },
    ),
    (
        "max_degree",
        Integer(),
        {"metavar": "K", "help": "Largest number of relations of one protected entity."},
    ),
    ("num_negatives", Integer(), {"metavar": "k", "help": "Negatives per positive relation."}),
    (
        "sample_rate",
        Number(),
        {"metavar": "RATE", "help": "Probability that a relation enters a batch."},
    ),
    (
        "expected_batch_size",
        Number(),
        {"metavar": "B", "help": "Expected positives per batch, instead of --sample-rate."},
    ),
    (
        "noise_multiplier",
        Number(),
        {"metavar": "SIGMA", "help": "Noise standard deviation divided by the clip norm."},
    ),
    ("num_steps", Integer(), {"metavar": "T", "help": "Batches of the whole training."}),
    ("delta", Number(), {"metavar": "DELTA", "help": "The delta of (epsilon, delta)."}),
    (
        "clipping",
        Word(["tuple", "pair", "frequency"]),
        {
            "default": "tuple",
            "show_default": True,
            "help": "Clipping rule; frequency has no proof.",
        },
    ),
    (
        "negatives",
        Word(["entities", "unprotected", "public"]),
        {"default": "entities", "show_default": True, "help": "Where negatives are drawn from."},
    ),
    (
        "pool_size",
        Integer(),
        {"metavar": "N", "help": "Size of the pool of unprotected or public negatives."},
    ),
    (
        "unit",
        Word(["entity", "relation"]),
        {
            "default": "entity",
            "show_default": True,
            "help": "What is protected: an entity with all its relations, or one relation.",
        },
    ),
    (
        "analysis",
        Word(ANALYSES),
        {
            "default": "best",
            "show_default": True,
            "help": "Which proof gives the price; best takes the smaller.",
        },
    ),
)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def plan_options(function: Function) -> Function:
    """Gives a command the flags of a plan; hand what it receives to `make_plan`."""
    for name, kind, settings in reversed(_FLAGS):
        function = click.option(_flag(name), name, type=kind, **settings)(function)
    return function


def accountant_option(function: Function) -> Function:
    """Gives a command ``--accountant``."""
    return click.option(
        "--accountant",
        type=Word(["pld", "rdp"]),
        default="pld",
        show_default=True,
        help="Privacy-loss distributions, or Renyi divergences (looser, the paper's).",
    )(function)


def json_option(function: Function) -> Function:
    """Gives a command ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(function)


def show_ids_option(function: Function) -> Function:
    """Gives a command ``--show-ids``."""
    return click.option(
        "--show-ids",
        is_flag=True,
        help="Let error messages show ids and other content of the graph, which is sensitive "
        "(default: line numbers and counts only).",
    )(function)


def _missing(given: Mapping[str, Any], optional: Sequence[str]) -> list[str]:
    """Names that a plan needs and that were not given."""
    needed = ["num_entities", "num_relations", "num_negatives", "num_steps", "delta"]
    needed += ["noise_multiplier"]
    if given.get("unit") != "relation":
        needed.insert(2, "max_degree")
    if given.get("negatives") in ("unprotected", "public"):
        needed.append("pool_size")
    return [name for name in needed if name not in given and name not in optional]


def check_given(given: Mapping[str, Any], optional: Sequence[str] = ()) -> None:
    """Refuses missing flags, all of them in one line, and flags that exclude one another."""
    missing = _missing(given, optional)
    rates = [name for name in ("sample_rate", "expected_batch_size") if name in given]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        hint = HINTS[missing[0]] if len(missing) == 1 else "--help says what each of them is."
        raise PlanError(f"{names} must be given. {hint}")
    if not rates:
        raise PlanError(
            "`sample_rate` or `expected_batch_size` must be given. One follows from the other."
        )
    if len(rates) == 2:
        raise PlanError(
            "`sample_rate` and `expected_batch_size` exclude one another, got both. Leave one out."
        )
    if given.get("negatives", "entities") == "entities" and "pool_size" in given:
        raise PlanError(
            "`pool_size` must not be given when negatives are entities of the graph. Leave it out, "
            "or use --negatives unprotected or --negatives public."
        )


def with_hint(message: str) -> str:
    """The message, and what to do where it ends with the value that broke the rule.

    >>> with_hint("`num_negatives` must be an integer, got -1.")
    '`num_negatives` must be an integer, got -1. 4 is customary.'
    """
    name = message.split("`")[1] if message.startswith("`") else ""
    _, _, value = message.partition(", got ")
    says_what_to_do = ". " in value or HINTS.get(name, "") in message
    return message if name not in HINTS or says_what_to_do else f"{message} {HINTS[name]}"


def make_plan(settings: Mapping[str, Any], optional: Sequence[str] = ()) -> "PrivacyPlan":
    """The plan that the flags describe.

    Args:
        settings: Fields of `PrivacyPlan` by name; None where a flag was not given.
        optional: Fields that may be missing because they are what is asked for.
    """
    from reldp.plan import PrivacyPlan

    given = {name: value for name, value in settings.items() if value is not None}
    check_given(given, optional)
    if given.get("unit") == "relation":
        given.setdefault("max_degree", 1)
    for name in optional:
        given.setdefault(name, {"num_steps": 1000, "noise_multiplier": 1.0}[name])
    return PrivacyPlan(**given)
