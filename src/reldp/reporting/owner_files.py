"""Verifying the files that the owner of a run need not publish: the checkpoint and sensitive.json.

Both may be absent. If present, they must match the ledger: the checkpoint by the SHA-256 of its
file, sensitive.json by the commitment to all of it. No message quotes sensitive.json.

Private to the package: `checkpoint_differences`, `sensitive_differences`.

>>> from reldp.runs.run_folder import RunFolder
>>> list(checkpoint_differences(RunFolder("nowhere"), None))
[]
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from reldp.errors import RunError
from reldp.runs.checkpoints import checkpoint_name
from reldp.runs.plain_files import hash_plain, list_plain
from reldp.runs.run_folder import RunFolder
from reldp.runs.sensitive_file import check_sensitive_file

__all__ = ["checkpoint_differences", "sensitive_differences"]


def checkpoint_differences(run: RunFolder, named: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield differences between the checkpoints and the one that the ledger names.

    Args:
        run: The run folder.
        named: Step and ``sha256`` of the newest checkpoint, from the ledger.
    """
    if not os.path.lexists(run.checkpoints):
        return
    listing = list_plain(run.checkpoints)
    expected = None if named is None else checkpoint_name(named["step"])
    for name in (*listing.odd, *listing.empty):
        yield f"checkpoints/{name} is not a checkpoint."
    for name in listing.files:
        if name != expected or named is None:
            yield f"checkpoints/{name} is not named in the ledger."
        elif hash_plain(run.checkpoints / name) != named["sha256"]:
            yield f"checkpoints/{name} is not the file that the ledger names."


def sensitive_differences(run: RunFolder, commitment: str) -> Iterator[str]:
    """Yield differences between sensitive.json and the record that the ledger commits to.

    Args:
        run: The run folder.
        commitment: ``graph.commitment`` of the ledger's start.
    """
    if os.path.lexists(run.sensitive):
        try:
            check_sensitive_file(run.sensitive, commitment)
        except RunError as error:
            yield str(error)
