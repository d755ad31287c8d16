"""Checkpoints: weights, optimizer state and average in one safetensors file, replaced atomically.

A run resumes from its newest checkpoint and from no other (theory.md section 6), and the ledger names
that one by the SHA-256 of its file. The order of writing makes a crash harmless: first the new file,
then the ledger's entry, then the old file is removed. A file that the ledger does not name was never
relied on; its steps run again and give the same bits, or run in a new branch. No random state is in
the file: random draws and noise are addressed by step. Everything in it follows from noisy sums, so
it is as public as the model.

Public inside the package: `Checkpoint`, `save_checkpoint`, `read_checkpoint`, `keep_only`,
`checkpoint_name`.

>>> Checkpoint(step=3, branch=0, weights={}).name
'step-000000003.safetensors'
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from reldp.durable import TEMPORARY, disk_errors, remove_durably, write_durably
from reldp.errors import ResumeError

__all__ = ["Checkpoint", "checkpoint_name", "keep_only", "read_checkpoint", "save_checkpoint"]

_PARTS = ("weights", "optimizer", "average")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The state before a step.

    Attributes:
        step: The next step.
        branch: The branch that its steps run in.
        weights: Trainable parameters by name.
        optimizer: Tensors of the optimizer's state, by ``parameter/entry``.
        numbers: What of that state is plain numbers.
        average: Average of the weights by name; empty without one.
    """

    step: int
    branch: int
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    average: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The file's name."""
        return checkpoint_name(self.step)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors on the CPU, under the name of their part."""
        return {
            f"{part}:{name}": value.detach().cpu().contiguous()
            for part in _PARTS
            for name, value in getattr(self, part).items()
        }


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> str:
    """Write the checkpoint beside the one before it, and return the SHA-256 of its file."""
    from safetensors.torch import save

    facts = {
        "step": checkpoint.step,
        "branch": checkpoint.branch,
        "numbers": dict(checkpoint.numbers),
    }
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    data = save(checkpoint.tensors(), metadata={"reldp": json.dumps(facts)})
    write_durably(folder / checkpoint.name, data)
    return hashlib.sha256(data).hexdigest()


def keep_only(folder: Path, step: int) -> None:
    """Remove every checkpoint but the one before a step."""
    for other in sorted(folder.iterdir()):
        if other.name != checkpoint_name(step) and _is_ours(other):
            remove_durably(other)


def read_checkpoint(folder: Path, step: int, sha256: str) -> Checkpoint:
    """Return the checkpoint before a step, if its file is the one that the ledger names.

    Raises:
        ResumeError: The file is missing, or another one.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = folder / checkpoint_name(step)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ResumeError(
            f"The checkpoint {path.name} must be there to go on from: {error.strerror}."
        ) from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ResumeError(
            f"The checkpoint {path.name} must be the one that the ledger names, got another "
            "content. It is damaged, was changed, or belongs to another run."
        )
    try:
        return _parse(data, load(data))
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(f"The checkpoint {path.name} must be whole, got damage.") from error


def checkpoint_name(step: int) -> str:
    """Return the name of the checkpoint file before a step."""
    return f"step-{step:09d}.safetensors"


def _parse(data: bytes, tensors: Mapping[str, Tensor]) -> Checkpoint:
    """The checkpoint in the bytes of a file."""
    # The format: the header's length in eight bytes, the header as JSON, the tensors.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    facts = json.loads(header["__metadata__"]["reldp"])
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for place, value in tensors.items():
        part, _, name = place.partition(":")
        parts[part][name] = value
    return Checkpoint(step=facts["step"], branch=facts["branch"], numbers=facts["numbers"], **parts)


def _is_ours(path: Path) -> bool:
    return path.name.startswith("step-") and path.suffix in (".safetensors", TEMPORARY)
