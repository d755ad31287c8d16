"""Checkpoint files: written atomically, named in the ledger by their SHA-256, read only if it matches.

A run resumes from its newest checkpoint and from no other (theory.md 6). The order of writing
makes a crash harmless: first the new file, then the ledger's entry, then the old file is removed. No
step relies on a file that the ledger does not name; the steps behind it are executed again and give
the same bits, or run in a new branch. `reldp.training.state` makes the content
of a file; it follows from noisy sums only, so it is as public as the model.

Public inside the package: `write_checkpoint`, `read_checkpoint`, `remove_other_checkpoints`,
`checkpoint_name`.

>>> checkpoint_name(3)
'step-000000003.safetensors'
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from reldp.errors import ResumeError, RunError
from reldp.runs.durable import TEMPORARY, disk_errors, remove_durably, write_durably
from reldp.runs.plain_files import open_plain, refuse_holes

__all__ = ["checkpoint_name", "read_checkpoint", "remove_other_checkpoints", "write_checkpoint"]


def checkpoint_name(step: int) -> str:
    """Return the name of the checkpoint file before a step."""
    return f"step-{step:09d}.safetensors"


def write_checkpoint(folder: Path, step: int, data: bytes) -> str:
    """Write the checkpoint before a step, beside the previous one; return the SHA-256 of its file."""
    with disk_errors(folder), suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)  # whatever the umask
    write_durably(folder / checkpoint_name(step), data)
    return hashlib.sha256(data).hexdigest()


def read_checkpoint(folder: Path, step: int, sha256: str) -> bytes:
    """Return the content of the checkpoint before a step, if it is the file that the ledger names.

    Raises:
        ResumeError: The file is missing, or its content is different.
    """
    path = folder / checkpoint_name(step)
    try:
        with open_plain(path) as file:
            refuse_holes(path, file)
            # Hashed before it is read whole: a file that no run wrote may be larger than the memory.
            if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                file.seek(0)
                return file.read()
    except RunError as error:
        reason = str(error).removeprefix(f"{path.name} must be there to be read: ")
        raise ResumeError(
            f"The checkpoint {path.name} must exist to resume from it: {reason}"
        ) from None
    raise ResumeError(
        f"The checkpoint {path.name} must be the one that the ledger names, got different "
        "content. It is damaged, was changed, or belongs to another run."
    )


def remove_other_checkpoints(folder: Path, step: int) -> None:
    """Remove all checkpoints except the one before a step; leave other files alone."""
    for path in sorted(folder.iterdir()):
        if path.name != checkpoint_name(step) and _is_checkpoint(path):
            remove_durably(path)


def _is_checkpoint(path: Path) -> bool:
    return path.name.startswith("step-") and path.suffix in (".safetensors", TEMPORARY)
