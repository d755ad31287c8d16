"""Checkpoints: weights, optimizer state and average in one safetensors file, replaced atomically.

There is one checkpoint at a time, the newest: a run resumes from no other (theory.md section 6).
The file carries its own step, branch and a hash over all tensors, so a damaged one is refused. No
random state is in it: coins and noise are addressed by step. Everything in it follows from noisy
sums, so it is as public as the model.

Public inside the package: `Checkpoint`, `save_checkpoint`, `newest_checkpoint`.

>>> Checkpoint(step=3, branch=0, weights={}).name
'step-000000003.safetensors'
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from reldp.durable import TEMPORARY, disk_errors, remove_durably, write_durably
from reldp.encoders.folders import state_hash
from reldp.errors import ResumeError

__all__ = ["Checkpoint", "newest_checkpoint", "save_checkpoint"]

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
        return f"step-{self.step:09d}.safetensors"

    def tensors(self) -> dict[str, Tensor]:
        """All tensors on the CPU, under the name of their part."""
        return {
            f"{part}:{name}": value.detach().cpu().contiguous()
            for part in _PARTS
            for name, value in getattr(self, part).items()
        }


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes the checkpoint; the one before goes only when this one is safe on the disk."""
    from safetensors.torch import save

    tensors = checkpoint.tensors()
    facts = {
        "step": checkpoint.step,
        "branch": checkpoint.branch,
        "numbers": dict(checkpoint.numbers),
        "sha256": state_hash(tensors),
    }
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    data = save(tensors, metadata={"reldp": json.dumps(facts)})
    write_durably(folder / checkpoint.name, data)
    for other in folder.iterdir():
        if other.name != checkpoint.name and _is_ours(other):
            remove_durably(other)


def newest_checkpoint(folder: Path) -> Checkpoint:
    """The newest checkpoint.

    Raises:
        ResumeError: There is none, or it is damaged.
    """
    found = sorted(folder.glob("step-*.safetensors"))
    if not found:
        raise ResumeError("The run must have a checkpoint to go on from, got none.")
    return _read(found[-1])


def _read(path: Path) -> Checkpoint:
    """The checkpoint in a file, its hash checked."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["reldp"])
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # no mapping
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ResumeError(f"The checkpoint {path.name} must be whole, got damage.") from error
    if state_hash(tensors) != facts["sha256"]:
        raise ResumeError(f"The checkpoint {path.name} must be unchanged, got another content.")
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
    for place, value in tensors.items():
        part, _, name = place.partition(":")
        parts[part][name] = value
    return Checkpoint(step=facts["step"], branch=facts["branch"], numbers=facts["numbers"], **parts)


def _is_ours(path: Path) -> bool:
    return path.name.startswith("step-") and path.suffix in (".safetensors", TEMPORARY)
