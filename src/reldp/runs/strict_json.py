"""Strict JSON: text that two programs could read differently is refused.

A file that is compared, hashed or signed must mean the same to every reader. So: UTF-8 without a
byte-order mark, no name twice in an object, no NaN or Infinity, no number beyond 64 bits or beyond
the range of a double, no half of a surrogate pair, at most 32 levels of nesting. To check the exact
bytes, compare them with the output of `json.dumps` for the values.

Public inside the package: `parse_json`.

>>> parse_json(b'{"steps": 5, "steps": 6}', "plan.json")
Traceback (most recent call last):
reldp.errors.RunError: plan.json must have each name once, got 'steps' twice.
"""

import json
import math
from collections import Counter
from typing import Any, Never

from reldp.errors import RunError

__all__ = ["parse_json"]

_MAX_DEPTH = 32
_INTEGER_LIMIT = 2**63


class _Refused(Exception):
    """Control-flow signal, caught in `parse_json`: a rule and the text that breaks it."""


def parse_json(data: bytes, name: str) -> Any:
    """Return the values in some bytes.

    Args:
        data: The whole content.
        name: The file's name, for messages.

    Raises:
        RunError: The bytes are not JSON, or could be read in more than one way.
    """
    try:
        values = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_float,
        )
        _check_depth(values)
        json.dumps(values, ensure_ascii=False).encode()  # halves of surrogate pairs have no bytes
    except _Refused as refused:
        raise RunError(f"{name} must {refused}.") from None
    except UnicodeError:
        raise RunError(f"{name} must be UTF-8, got other bytes.") from None
    except RecursionError:
        raise RunError(f"{name} must have at most {_MAX_DEPTH} levels, got more.") from None
    except ValueError:
        raise RunError(f"{name} must be JSON, got damage.") from None
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise _Refused(f"have each name once, got {twice[:40]!r} twice")
    return values


def _constant(token: str) -> Never:
    raise _Refused(f"hold numbers that JSON knows, got {token}")


def _integer(token: str) -> int:
    if len(token) > 20 or not -_INTEGER_LIMIT <= int(token) < _INTEGER_LIMIT:
        raise _Refused(f"hold integers of 64 bits, got {token[:30]}")
    return int(token)


def _float(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise _Refused(f"hold numbers in the range of a double, got {token[:30]}")
    return value


def _check_depth(values: Any) -> None:
    """Refuse deep nesting, without recursion."""
    level = [values]
    for _ in range(_MAX_DEPTH + 1):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise _Refused(f"have at most {_MAX_DEPTH} levels, got more")
