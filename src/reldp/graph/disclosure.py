"""What an error about a graph may say: counts, places and types, never what a row holds.

Errors end in terminals, logs and bug reports, so an id, a text, a feature value or a raw line of a
file appears in one only where the caller asked for it with `show_ids`. Names of columns count as
content too: a file without its header has an entity where the names should be. Only the names that
a graph knows by itself are ever repeated.

Public: `SHOW_HINT`, `KNOWN_COLUMNS`, `column_words`, `columns_words`, `type_words`,
`reason_words`, `guarded`.

>>> columns_words(["bob@example.com", "id"], show_ids=False)
"'id' and 1 other"
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError, InputError

__all__ = [
    "KNOWN_COLUMNS",
    "SHOW_HINT",
    "column_words",
    "columns_words",
    "guarded",
    "reason_words",
    "type_words",
]

KNOWN_COLUMNS = ("id", "text", "features", "protected", "owner", "source", "target", "type")
SHOW_HINT = "Set `show_ids` to see the ids here."

_MAX_NAMES = 8
# Fragments of Arrow's messages that are recognized; the messages themselves may quote a file's content.
_REASONS = {
    "magic bytes": "its first or last bytes are not those of the format",
    "not an arrow file": "its first or last bytes are not those of the format",
    "file is too small": "it is too short",
    "smaller than": "it is too short",
    "footer": "its end is damaged or missing",
    "thrift": "its end is damaged or missing",
    "header of a page": "the header of a page is damaged",
    "metadata of a batch": "the metadata of a batch is damaged",
    "utf8": "it holds text that is not UTF-8",
    "utf-8": "it holds text that is not UTF-8",
    "straddling object": "one of its lines is longer than 16 MiB",
}


def column_words(name: str, names: Sequence[str], *, show_ids: bool) -> str:
    """Return a column for an error message: by name where that is harmless, else by its place."""
    if show_ids or _harmless(name):
        return f"column {name!r}"
    return f"column number {list(names).index(name) + 1}"


def columns_words(names: Sequence[str], *, show_ids: bool) -> str:
    """Return the columns that a table has: those known by name, and how many others."""
    said = [repr(name) for name in names if show_ids or _harmless(name)][:_MAX_NAMES]
    num_hidden = len(names) - len(said)
    if num_hidden:
        said.append(f"{num_hidden} other{'s' if num_hidden > 1 else ''}")
    head = ", ".join(said[:-1])
    return f"{head} and {said[-1]}" if head else (said[0] if said else "no column")


def type_words(kind: Any) -> str:
    """Return an Arrow type without the names that it may hold: a struct's fields can be ids."""
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_union(kind):
        return "objects"
    if pa.types.is_dictionary(kind):
        return type_words(kind.value_type)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"lists of {type_words(kind.value_type)}"
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return "values of a nested or extension type"
    return str(kind)


def reason_words(error: Exception, path: Path, *, show_ids: bool) -> str:
    """Why a file could not be read, in our words unless the caller may see its content."""
    text = str(error).replace(str(path), path.name).strip()
    if show_ids:
        return text.splitlines()[0].rstrip(".") if text else "no reason given"
    lowered = text.lower()
    known = (words for part, words in _REASONS.items() if part in lowered)
    return next(known, f"its reader raised {type(error).__name__}")


@contextmanager
def guarded(name: str, *, show_ids: bool) -> Iterator[None]:
    """Turn what a library says of values that it cannot convert into an error without them."""
    try:
        yield
    except InputError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError) as error:
        words = f"{name} must be a table that Arrow can hold, got values that it refused"
        if show_ids:
            raise GraphError(f"{words}: {error}.") from error
        raise GraphError(
            f"{words} ({type(error).__name__}). Write each column in one type; {_lower(SHOW_HINT)}"
        ) from None


def _harmless(name: str) -> bool:
    """Whether a name is one of a graph's own, however it is written."""
    return name.strip().lower() in KNOWN_COLUMNS


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
