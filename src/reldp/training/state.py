"""The state of training before a step, and its bytes: one safetensors file, never a pickle.

The state holds weights, optimizer state and the average of the weights. It holds no random state:
random draws and noise are addressed by step. Everything in it follows from noisy sums, so it is as
public as the model. `reldp.runs.checkpoints` stores the bytes.

Public inside the package: `TrainingState`.

>>> TrainingState.from_bytes(TrainingState(step=3, branch=0, weights={}).to_bytes()).step
3
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from reldp.errors import ResumeError

__all__ = ["TrainingState"]

_PARTS = ("weights", "optimizer", "average", "best")


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """The state before a step.

    Attributes:
        step: The next step.
        branch: The branch that its steps run in.
        weights: Trainable parameters by name.
        optimizer: Tensors of the optimizer's state, by ``parameter/entry``.
        numbers: The entries of that state that are plain numbers.
        average: Average of the weights by name; empty without averaging.
        best: The weights that were chosen so far, by name; empty without a choice (`reldp.training.selection`).
        chosen: Step and score of those.
    """

    step: int
    branch: int
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    average: Mapping[str, Tensor] = field(default_factory=dict)
    best: Mapping[str, Tensor] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def current(self) -> Mapping[str, Tensor]:
        """The weights of this step: their average, if there is one."""
        return self.average or self.weights

    @property
    def released(self) -> Mapping[str, Tensor]:
        """The weights that are released: the chosen ones, if there is a choice."""
        return self.best or self.current

    def to_bytes(self) -> bytes:
        """Return the content of a checkpoint file; equal states give equal bytes."""
        from safetensors.torch import save

        facts = {"step": self.step, "branch": self.branch, "numbers": dict(self.numbers)}
        facts |= {"chosen": dict(self.chosen)} if self.chosen else {}
        tensors = {
            f"{part}:{name}": value.detach().cpu().contiguous()
            for part in _PARTS
            for name, value in getattr(self, part).items()
        }
        data: bytes = save(tensors, metadata={"reldp": json.dumps(facts)})
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> "TrainingState":
        """Return the state that `to_bytes` wrote.

        Raises:
            ResumeError: The bytes are not those of a state.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            return cls._parse(data, load(data))
        except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ResumeError("The checkpoint must be whole, got damage.") from error

    @classmethod
    def _parse(cls, data: bytes, tensors: Mapping[str, Tensor]) -> "TrainingState":
        # The format: the header's length in eight bytes, the header as JSON, the tensors.
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        facts = json.loads(header["__metadata__"]["reldp"])
        kinds = {"step": int, "branch": int, "numbers": dict, "chosen": dict}
        if any(type(facts.get(name, kind())) is not kind for name, kind in kinds.items()):
            raise ValueError("facts of another kind")
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in _PARTS}
        for place, value in tensors.items():
            part, _, name = place.partition(":")
            parts[part][name] = value
        return cls(
            step=facts["step"],
            branch=facts["branch"],
            numbers=facts["numbers"],
            chosen=facts.get("chosen", {}),
            **parts,
        )
