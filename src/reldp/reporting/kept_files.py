"""What the owner of a run keeps, and need not publish: the checkpoint and private.json.

Both may be absent. What is there must be what the ledger names: the checkpoint by the SHA-256 of its
file, private.json by the commitment to all of it. No torch is needed, and no message quotes
private.json.

Private to the package: `checkpoint_differences`, `private_differences`.

>>> from reldp.reporting.run_folder import RunFolder
>>> list(checkpoint_differences(RunFolder("nowhere"), None))
[]
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from reldp.errors import RunError
from reldp.plain_files import hash_plain, list_plain
from reldp.reporting.run_folder import RunFolder
from reldp.runs import check_private_file

__all__ = ["checkpoint_differences", "private_differences"]


def checkpoint_differences(run: RunFolder, named: Mapping[str, Any] | None) -> Iterator[str]:
    """Return how the checkpoints differ from the one that the ledger names.

    Args:
        run: The run folder.
        named: Step and ``sha256`` of the newest checkpoint, from the ledger.
    """
    if not os.path.lexists(run.checkpoints):
        return
    listing = list_plain(run.checkpoints)
    expected = None if named is None else f"step-{named['step']:09d}.safetensors"
    for name in (*listing.odd, *listing.empty):
        yield f"checkpoints/{name} is no checkpoint."
    for name in listing.files:
        if name != expected or named is None:
            yield f"checkpoints/{name} is not named in the ledger."
        elif hash_plain(run.checkpoints / name) != named["sha256"]:
            yield f"checkpoints/{name} is not the file that the ledger names."


def private_differences(run: RunFolder, commitment: str) -> Iterator[str]:
    """Return how private.json differs from the record that the ledger commits to.

    Args:
        run: The run folder.
        commitment: ``graph.commitment`` of the ledger's start.
    """
    if os.path.lexists(run.private):
        try:
            check_private_file(run.private, commitment)
        except RunError as error:
            yield str(error)
