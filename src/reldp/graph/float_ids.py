"""Ids that a program has turned into floats: ``1.0`` in one file where another has ``1``.

pandas reads a column of integers with an empty cell as floats, and writes 1 as 1.0. As text these are two ids, so
every relation names an unknown entity; the message then says what has happened.

Private to the package: `FLOAT_FIX`, `are_float_ids`.

>>> import pyarrow as pa
>>> are_float_ids(pa.array(["1.0", "2.0"]), pa.array([1, 2, 3])), are_float_ids(pa.array(["x"]), pa.array([1, 2, 3]))
(True, False)
"""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["FLOAT_FIX", "are_float_ids"]

FLOAT_FIX = (
    "Write ids that are whole numbers alike in both files: one has them as 1.0 and the other as 1, as programs do "
    "that read integers as floats"
)
_FLOAT = re.compile(r"(-?\d+)\.0+")
_INTEGER = re.compile(r"-?\d+")


def are_float_ids(unknown: Any, names: Any | None = None) -> bool:
    """Return whether ids are unknown because one side has them as floats.

    Args:
        unknown: Some ids of relations that no entity has.
        names: All ids of entities, where they are at hand; otherwise the form of the unknown ones decides.
    """
    texts = [text for text in unknown.cast(pa.large_string()).to_pylist() if text is not None]
    other = [_other_form(text) for text in texts]
    if not other or None in other:
        return False
    if names is None:
        return all(_FLOAT.fullmatch(text) for text in texts)
    there = pc.is_in(pa.array(other, pa.large_string()), value_set=names.cast(pa.large_string()))
    return bool(pc.any(there).as_py())


def _other_form(text: str) -> str | None:
    """Return 1 for 1.0 and 1.0 for 1; None for any other id."""
    if match := _FLOAT.fullmatch(text):
        return match[1]
    return f"{text}.0" if _INTEGER.fullmatch(text) else None
