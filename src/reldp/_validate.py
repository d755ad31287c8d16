"""Checks of arguments and lists of choices, each stated once for the whole package.

Every check raises the error class that its caller names, and every message has the same form:
`` `name` must be RULE, got VALUE. FIX ``. A value is quoted in full only while it is short.

Private to the package: the lists of choices (`UNITS`, `LOSSES`, ...); `check`, `check_choice`, `check_integer`,
`check_number`, `check_flag`, `check_text`, `check_name`, `refuse`; `as_integer`, `cut`, `default_of`, `did_you_mean`,
`is_integer`, `is_finite_number`, `nearest`, `shown`.

>>> from reldp.errors import PlanError
>>> check_integer("max_degree", 0, low=1, error=PlanError)
Traceback (most recent call last):
reldp.errors.PlanError: `max_degree` must be an integer of at least 1, got 0.
>>> check_choice("unit", "entitty", UNITS, error=PlanError)
Traceback (most recent call last):
reldp.errors.PlanError: `unit` must be one of entity, owner, relation, got 'entitty'. Did you mean entity?
"""

import math
import operator
from collections.abc import Callable, Collection
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from inspect import Parameter, signature
from numbers import Number
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from reldp.errors import ReldpError

# Of a privacy plan.
CLIPPING_RULES = ("tuple", "pair", "frequency")
NEGATIVE_POOLS = ("entities", "relations", "unprotected", "public")
UNITS = ("entity", "owner", "relation")
SIZES = ("private", "declared", "public")
PROOFS = ("replacement", "anchored")
"""The analyses that docs/theory.md proves. The first one is reported where several give the same epsilon."""
ANALYSES = ("best", *PROOFS)
"""What a plan may ask for: ``"best"`` takes the proof with the smallest epsilon."""
ACCOUNTANTS = ("pld", "rdp")

# Of learning.
LOSSES = ("infonce", "hinge", "logistic", "triplet", "cosine")
TYPED_LOSSES = ("distmult", "complex", "transe")
"""Losses of relations that have a type."""
OBJECTIVES = ("infonce", "logistic", "hinge")
DISTANCES = ("l2", "l1")
SCORES = ("cosine", "dot")
PAIRINGS = ("one", "both", "all")
SOFTMAX_PAIRINGS = (*PAIRINGS, "relations")
"""Those of InfoNCE: the last one also learns from the relations that negatives come from."""
SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt")

# Of performance.
NOISE_GENERATORS = ("secure", "fast")
PRECISIONS = ("float32", "bfloat16")
TOKENIZE = ("ahead", "on the fly")
DEVICES = ("cpu", "cuda")

# Of encoders.
POOLINGS = ("mean", "cls", "last")
ACTIVATIONS = ("relu", "tanh", "gelu")

_MAX_QUOTE = 80
_FEW = 4

_Error = type[ReldpError]


def check(
    condition: bool, name: str, rule: str, value: object, *, error: _Error, fix: str = ""
) -> None:
    """Raise the error unless the condition holds."""
    if not condition:
        refuse(name, rule, value, error=error, fix=fix)


def refuse(name: str, rule: str, value: object, *, error: _Error, fix: str = "") -> NoReturn:
    """Raise the error: the value of `name` must be as the rule says."""
    raise error(f"`{name}` must be {rule}, got {shown(value)}.{' ' + fix if fix else ''}")


def check_choice(
    name: str, value: object, choices: Collection[str], *, error: _Error, fix: str = ""
) -> str:
    """Return the value if it is one of the choices; the error names the nearest one."""
    if isinstance(value, str) and value in choices:
        return value
    near = did_you_mean(value, choices)
    refuse(name, f"one of {', '.join(choices)}", value, error=error, fix=fix or near)


def check_integer(
    name: str,
    value: object,
    *,
    low: int = 0,
    high: int | None = None,
    error: _Error,
    rule: str = "",
    fix: str = "",
) -> int:
    """Return the value if it is a Python integer in range; truth values and floats are refused.

    Args:
        name: The argument.
        value: What was given for it.
        low: Smallest integer that is allowed.
        high: Largest integer that is allowed, if there is one.
        error: Class of the error.
        rule: Words for the range, where other words than "an integer from ... to ..." say more.
        fix: What to do about it, as a sentence.
    """
    if is_integer(value) and low <= value and (high is None or value <= high):
        return value
    words = f"of at least {low}" if high is None else f"from {low} to {high}"
    refuse(name, rule or f"an integer {words}", value, error=error, fix=fix)


def as_integer(value: object) -> object:
    """Return an integer of any type, such as one of numpy, as a Python integer; other values unchanged."""
    if isinstance(value, bool):  # operator.index takes True for 1
        return value
    try:
        return operator.index(value)  # type: ignore[arg-type] # any value may be asked
    except TypeError:
        return value


def check_number(
    name: str,
    value: object,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    below: float | None = None,
    error: _Error,
    rule: str = "",
    fix: str = "",
) -> float:
    """Return the value as a float if it is a finite number in range.

    Args:
        name: The argument.
        value: What was given for it.
        low: Smallest number that is allowed; or give `above`.
        above: A number below every number that is allowed.
        high: Largest number that is allowed; or give `below`.
        below: A number above every number that is allowed.
        error: Class of the error.
        rule: Words for the range, where others than those of `_range` say more.
        fix: What to do about it, as a sentence.
    """
    if (
        is_finite_number(value)
        and (low is None or value >= low)
        and (above is None or value > above)
        and (high is None or value <= high)
        and (below is None or value < below)
    ):
        return float(value)
    refuse(name, rule or _range(low, above, high, below), value, error=error, fix=fix)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of some pairs, for `json.loads`; a name that comes twice could be read in two ways.

    Raises:
        ValueError: A name does; `json.loads` passes it on like any damage.

    >>> unique_names([("dim", 8), ("dim", 9)])
    Traceback (most recent call last):
    ValueError: a name comes twice
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name comes twice")
    return values


def check_flag(name: str, value: object, *, error: _Error, fix: str = "") -> bool:
    """Return the value if it is True or False."""
    if isinstance(value, bool):
        return value
    refuse(name, "true or false", value, error=error, fix=fix)


def check_text(name: str, value: object, *, error: _Error, fix: str = "") -> str:
    """Return the value if it is a string."""
    if isinstance(value, str):
        return value
    refuse(name, "text", value, error=error, fix=fix)


def check_path(name: str, value: object, *, error: _Error, fix: str = "") -> Path:
    """Return the value as a path if it is one."""
    if isinstance(value, str | PathLike):
        return Path(value)
    refuse(name, "a path", value, error=error, fix=fix)


def check_name(name: str, known: Collection[str], what: str, *, error: _Error) -> None:
    """Raise the error unless a name is known; the message has the nearest one, or all of them.

    >>> from reldp.errors import ConfigError
    >>> check_name("lerning_rate", ["learning_rate", "loss"], "a training setting", error=ConfigError)
    Traceback (most recent call last):
    reldp.errors.ConfigError: `lerning_rate` must be a training setting. Did you mean learning_rate?
    """
    if name not in known:
        hint = did_you_mean(name, known) or f"There are: {', '.join(known)}."
        plain = name if name.isprintable() else ascii(name)[1:-1]
        raise error(f"`{plain[:_MAX_QUOTE]}` must be {what}. {hint}")


def did_you_mean(value: object, known: Collection[str]) -> str:
    """Return a question with the nearest known word, or nothing if none is near.

    >>> did_you_mean("sizse", ["color", "size"])
    'Did you mean size?'
    """
    if not isinstance(value, str):
        return ""
    near = get_close_matches(value, known, n=1) or get_close_matches(value.lower(), known, n=1)
    return f"Did you mean {near[0]}?" if near else ""


def nearest(word: str, known: Collection[str]) -> list[str]:
    """Return the known word that is nearest to one, however far it is; nothing if none is known.

    >>> nearest("sizse", ["color", "size"])
    ['size']
    """
    return get_close_matches(word, known, n=1, cutoff=0)


def default_of(owner: Callable[..., Any], name: str) -> Any:
    """Return the default of a dataclass's field or of a function's argument: the one place that states it.

    >>> from reldp.plan import PrivacyPlan
    >>> default_of(PrivacyPlan, "clip_norm"), default_of(PrivacyPlan.for_graph, "sizes")
    (1.0, 'private')
    """
    for item in fields(owner) if is_dataclass(owner) else ():
        if item.name == name and item.default_factory is not MISSING:
            return item.default_factory()
    argument = signature(owner).parameters.get(name)
    if argument is None or argument.default is Parameter.empty:
        raise AttributeError(f"{owner.__qualname__} has no default for {name!r}")
    return argument.default


def is_finite_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite integer or float, and no truth value."""
    if isinstance(value, float):
        return math.isfinite(value)
    # An integer beyond 64 bits is as good as infinite: torch does not compute with it.
    return is_integer(value) and abs(value) < 2**63


def shown(value: object) -> str:
    """Return the value as Python writes it, without its end where that is long.

    Of anything but a number, a word or a few numbers only the kind: a table or a list that was given for another
    argument may hold private rows, and messages end in logs.

    >>> shown("entitty"), shown((8, 0)), shown(["a text", "another"]), shown({"id": 7})
    ("'entitty'", '(8, 0)', 'a list of 2', 'a dict of 1')
    """
    if not _is_word_or_number(value):
        if not isinstance(value, list | tuple | set | frozenset | dict):
            return type(value).__name__
        if len(value) > _FEW or isinstance(value, dict) or any(map(_is_text, value)):
            return f"a {type(value).__name__} of {len(value)}" if value else repr(value)
        if not all(map(_is_word_or_number, value)):
            return f"a {type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return "an integer of thousands of digits"
    return cut(text)


def cut(text: str) -> str:
    """Return a text without its end where it is long, for a message.

    >>> cut("mean"), len(cut("A" * 5000))
    ('mean', 80)
    """
    return text if len(text) <= _MAX_QUOTE else text[: _MAX_QUOTE - 3] + "..."


def _is_word_or_number(value: object) -> bool:
    """Whether a value is one that a user writes by hand: a number, a word, a path, a kind."""
    return value is None or isinstance(value, Number | str | bytes | PathLike | type)


def _is_text(value: object) -> bool:
    return isinstance(value, str | bytes)


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is a Python integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _range(low: float | None, above: float | None, high: float | None, below: float | None) -> str:
    """Return the words for a range of numbers."""
    if above is not None and below is not None:
        return f"a number strictly between {above:g} and {below:g}"
    if low is not None and high is not None:
        return f"a number from {low:g} to {high:g}"
    words = [f"of at least {low:g}"] if low is not None else []
    words += [f"above {above:g}"] if above is not None else []
    words += [f"at most {high:g}"] if high is not None else []
    words += [f"below {below:g}"] if below is not None else []
    return f"a finite number {' and '.join(words)}".strip()
