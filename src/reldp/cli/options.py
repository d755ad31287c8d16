"""Options that several commands share, and the flags of a privacy plan.

`plan_options` gives a command the flags of `reldp.PrivacyPlan`, `make_plan` turns their values into a plan. The plan
checks the values; this module adds what only a command line needs: which flags must be given, which exclude one
another, numbers in the usual notations (``5000000``, ``5e6``), suggestions for misspelled words, and a hint where an
error does not say what to do.

Public to the other commands: `Integer`, `Number`, `Word`, `plan_options`, `accountant_option`, `device_option`,
`json_option`, `show_ids_option`, `make_plan`, `with_hint`.

>>> plan = make_plan({"num_entities": 1000, "num_relations": 2000, "max_degree": 5, "num_negatives": 4,
...                   "expected_batch_size": 16.0, "num_steps": 10, "noise_multiplier": 1.0, "delta": 1e-4})
>>> plan.sample_rate
0.008
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reldp._validate import (
    ACCOUNTANTS,
    ANALYSES,
    CLIPPING_RULES,
    NEGATIVE_POOLS,
    UNITS,
    default_of,
    did_you_mean,
)
from reldp.cli.commands import option
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
    "device_option",
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
    """Return the typed text in quotes, without its end where it is long."""
    text = str(value)
    return repr(text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "...")


def underflows(value: object, number: float) -> bool:
    """Return whether a text such as 1e-400 means a number that is not 0, and was read as 0.

    >>> underflows("1e-400", 0.0), underflows("0e5", 0.0), underflows("0.0", 0.0)
    (True, False, False)
    """
    mantissa = str(value).lower().partition("e")[0]
    return number == 0 and any(digit in mantissa for digit in "123456789")


def is_plain(value: object) -> bool:
    """Return whether a number is written without underscores and in ASCII, as everybody reads it.

    Python takes 1_0 for 10, and the digits of every alphabet.

    >>> is_plain("1e6"), is_plain("1_0"), is_plain("\u0663")
    (True, False, False)
    """
    text = str(value)
    return text.isascii() and "_" not in text


class Integer(_IntegerType):
    """A whole number, also written as ``1e6``."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number or fail with one line."""
        if isinstance(value, int):
            return value
        try:
            if is_plain(value):
                return int(value)
        except ValueError:
            pass
        try:
            number = float(value) if is_plain(value) else float("nan")
        except ValueError:
            number = float("nan")
        if number.is_integer() and abs(number) <= EXACT_FLOATS and not underflows(value, number):
            return int(number)
        rule = "must be a whole number such as 1000 or 1e6"
        if number.is_integer() and number > EXACT_FLOATS:
            rule += f", and at most {EXACT_FLOATS} in this notation"
        return self.fail(f"{rule}, got {shortened(value)}.", param, ctx)


class Number(_NumberType):
    """A number; its range is checked by whoever uses it."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number or fail with one line."""
        try:
            number = float(value) if is_plain(value) else None
        except ValueError:
            number = None
        if number is None:
            rule = "must be a number such as 0.5 or 1e-6"
            return self.fail(f"{rule}, got {shortened(value)}.", param, ctx)
        if underflows(value, number):
            rule = "must be 0 or at least 1e-300 in size"
            return self.fail(f"{rule}, got {shortened(value)}.", param, ctx)
        return number


class Word(_WordType):
    """One of a few words; the nearest one is suggested for a misspelled word."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word or fail with one line."""
        if value in self.choices:
            return str(value)
        words, near = ", ".join(self.choices), did_you_mean(str(value), self.choices)
        return self.fail(
            f"must be one of {words}, got {shortened(value)}. {near}".rstrip(), param, ctx
        )


# The hints finish errors that do not say what to do.
HINTS = {
    "num_entities": "It is the number of entities in the training graph, or a lower bound on it.",
    "num_relations": "It is the number of relations in the training graph after capping, or an upper bound on it.",
    "max_degree": "It is the cap on relations per entity; 5 is typical.",
    "num_negatives": "4 is typical.",
    "sample_rate": "It is the expected batch size divided by the number of relations.",
    "expected_batch_size": "It is the sample rate times the number of relations.",
    "noise_multiplier": "Values from 0.4 to 2 are typical; reldp calibrate computes the one a target needs.",
    "num_steps": "It is the number of batches in the whole training.",
    "delta": "Take it to be at most 0.1 / entities.",
    "pool_size": "It is the number of entities that negatives are drawn from; of relations, a lower bound.",
    "target_epsilon": "Values from 1 to 10 are typical; smaller is more private.",
}

_PLAN, _MECHANISM = "Plan", "Mechanism and analysis"

# Name, type, heading, metavar and help of each flag of a plan. Defaults are the plan's.
_FLAGS: tuple[tuple[str, Any, str, str | None, str], ...] = (
    (
        "num_entities",
        Integer(),
        _PLAN,
        "N",
        "Number of entities in the training graph, or a lower bound.",
    ),
    (
        "num_relations",
        Integer(),
        _PLAN,
        "M",
        "Number of relations in the training graph after capping, or an upper bound.",
    ),
    ("max_degree", Integer(), _PLAN, "K", "Maximum number of relations of a protected entity."),
    ("num_negatives", Integer(), _PLAN, "k", "Number of negatives per positive relation."),
    ("sample_rate", Number(), _PLAN, "RATE", "Probability that a relation enters a batch."),
    (
        "expected_batch_size",
        Number(),
        _PLAN,
        "B",
        "Expected number of positive relations per batch, instead of --sample-rate.",
    ),
    (
        "noise_multiplier",
        Number(),
        _PLAN,
        "SIGMA",
        "Standard deviation of the noise divided by the clip norm.",
    ),
    ("num_steps", Integer(), _PLAN, "T", "Number of training steps; each processes one batch."),
    ("delta", Number(), _PLAN, "DELTA", "The delta of the (epsilon, delta) guarantee."),
    (
        "clipping",
        Word(CLIPPING_RULES),
        _MECHANISM,
        None,
        "Clipping rule; the published claim for frequency is false in the worst case.",
    ),
    ("negatives", Word(NEGATIVE_POOLS), _MECHANISM, None, "Pool that negatives are drawn from."),
    (
        "pool_size",
        Integer(),
        _MECHANISM,
        "N",
        "Number of entities in the pool, for unprotected and public negatives; lower bound on the number of relations, "
        "for negatives that are relations.",
    ),
    (
        "unit",
        Word(UNITS),
        _MECHANISM,
        None,
        "Unit of privacy: an entity with all its relations, an owner with all its entities and their relations, or a "
        "single relation.",
    ),
    (
        "analysis",
        Word(ANALYSES),
        _MECHANISM,
        None,
        "Proof that epsilon is computed from; best takes the smallest epsilon.",
    ),
)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def plan_options(function: Function) -> Function:
    """Give a command the flags of a plan; hand what it receives to `make_plan`."""
    from reldp.plan import PrivacyPlan

    for name, kind, group, metavar, about in reversed(_FLAGS):
        shown: dict[str, Any] = {"help": about, "metavar": metavar}
        if isinstance(kind, Word):
            shown |= {"default": default_of(PrivacyPlan, name), "show_default": True}
        function = option(_flag(name), name, type=kind, group=group, **shown)(function)
    return function


def accountant_option(function: Function) -> Function:
    """Give a command ``--accountant``."""
    return option(
        "--accountant",
        type=Word(ACCOUNTANTS),
        default=ACCOUNTANTS[0],
        show_default=True,
        group=_MECHANISM,
        help="Privacy accountant: privacy-loss distributions (pld) or Renyi divergences (rdp, looser).",
    )(function)


def device_option(function: Function) -> Function:
    """Give a command ``--device``; its value is None unless given."""
    return option(
        "--device",
        metavar="DEVICE",
        help="Device to compute on: cpu, cuda or cuda:N (default: the GPU if there is one, else the CPU).",
    )(function)


def json_option(function: Function) -> Function:
    """Give a command ``--json``."""
    return option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")(
        function
    )


def show_ids_option(function: Function) -> Function:
    """Give a command ``--show-ids``."""
    return option(
        "--show-ids",
        is_flag=True,
        help="Quote ids and other content of the graph, which is sensitive, in error messages "
        "(default: line numbers and counts only).",
    )(function)


def _missing(given: Mapping[str, Any], optional: Sequence[str]) -> list[str]:
    """Return the names that a plan needs and that were not given."""
    needed = ["num_entities", "num_relations", "num_negatives", "num_steps", "delta"]
    needed += ["noise_multiplier"]
    if given.get("unit") != "relation":
        needed.insert(2, "max_degree")
    if given.get("negatives") in ("relations", "unprotected", "public"):
        needed.append("pool_size")
    return [name for name in needed if name not in given and name not in optional]


def check_given(given: Mapping[str, Any], optional: Sequence[str] = ()) -> None:
    """Refuse missing flags, all of them in one line, and flags that exclude one another."""
    missing = _missing(given, optional)
    rates = [name for name in ("sample_rate", "expected_batch_size") if name in given]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        hint = HINTS[missing[0]] if len(missing) == 1 else "--help explains each of them."
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
            "or use --negatives relations, unprotected or public."
        )


def with_hint(message: str) -> str:
    """Return the message, with what to do added where it ends with the value that broke the rule.

    >>> with_hint("`num_negatives` must be an integer, got -1.")
    '`num_negatives` must be an integer, got -1. 4 is typical.'
    """
    name = message.split("`")[1] if message.startswith("`") else ""
    _, _, value = message.partition(", got ")
    says_what_to_do = not value or ". " in value or HINTS.get(name, "") in message
    return message if name not in HINTS or says_what_to_do else f"{message} {HINTS[name]}"


def make_plan(settings: Mapping[str, Any], optional: Sequence[str] = ()) -> "PrivacyPlan":
    """Return the plan that the flags describe.

    Args:
        settings: Fields of `PrivacyPlan` by name; None where a flag was not given.
        optional: Fields that may be missing because the command computes them.
    """
    from reldp.plan import PrivacyPlan

    given = {name: value for name, value in settings.items() if value is not None}
    check_given(given, optional)
    if given.get("unit") == "relation":
        given.setdefault("max_degree", 1)
    for name in optional:
        given.setdefault(name, {"num_steps": 1000, "noise_multiplier": 1.0}[name])
    return PrivacyPlan(**given)
