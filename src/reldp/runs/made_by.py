"""Which version of reldp made a run: its pages have the sentences of that version.

A sentence that is new is left out of the certificates of runs that an older version started, so that these verify as
they are. The version is that of the run's ledger, so nobody chooses sentences by choosing a version of reldp.

Private to the package: `is_since`.

>>> is_since({"reldp": "0.8.0"}, 0, 9), is_since({"reldp": "0.10.1"}, 0, 9)
(False, True)
"""

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["is_since"]


def is_since(versions: Mapping[str, Any], major: int, minor: int) -> bool:
    """Return whether a run was started by a version of reldp, or by a later one; so is one that names none.

    Args:
        versions: The versions that the ledger names.
        major: First number of the version.
        minor: Second number.
    """
    numbers = re.match(r"(\d{1,9})\.(\d{1,9})", str(versions.get("reldp", "")))
    return numbers is None or (int(numbers[1]), int(numbers[2])) >= (major, minor)
