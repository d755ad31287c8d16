"""Record of one backward pass: per-unit gradients, and kept uses of large parameters.

A *probe* is a leaf tensor of shape ``(units, *parameter.shape)`` that occupies no memory until the
backward gives it its gradient: the parameter's gradient, separately for every unit. A parameter
that is used several times gets the sum, because autograd sums what reaches a leaf; so the norm is
always that of the whole gradient (theory.md 2).

A large parameter has no probe. Its layers *keep* the input and the output gradient of each use, and
`reldp.gradients.ghost` reads norms and sums from those.

Private to the package.

>>> recorder = Recorder({"w": torch.ones(3, requires_grad=True)}, ghost_names=())
>>> recorder.start(units=2, rows_per_unit=1)
>>> recorder.probe("w").shape
torch.Size([2, 3])
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reldp.errors import UnsupportedParameter
from reldp.gradients.products import sum_dtype

__all__ = ["KeptEmbedding", "KeptLinear", "Recorder"]


@dataclass(frozen=True, eq=False)
class KeptLinear:
    """One use of a linear layer: its input and the gradient of its output, by unit."""

    inputs: Tensor  # (units, positions, in)
    grads: Tensor  # (units, positions, out)

    def values(self) -> tuple[Tensor, Tensor]:
        """Everything that the weight's gradient is made of."""
        return self.inputs, self.grads


@dataclass(frozen=True, eq=False)
class KeptEmbedding:
    """One use of an embedding: its indices and the gradient of its output, by unit."""

    indices: Tensor  # (units, positions)
    grads: Tensor  # (units, positions, dim), zero where the index is the padding index

    def values(self) -> tuple[Tensor, Tensor]:
        """Everything that the table's gradient is made of."""
        return self.indices, self.grads


@dataclass(eq=False)
class Recorder:
    """Collect the per-unit gradients of one microbatch.

    Attributes:
        parameters: The trainable parameters by name.
        ghost_names: Names of the large parameters, whose uses are kept and which have no probe.
        units: Units of the current microbatch.
        rows: Rows of its forward pass.
        apart: Whether linear layers compute every unit by a matrix product of its own.
        flat: Names of the probes that the backward reached, and their joined gradients.
    """

    parameters: Mapping[str, Tensor]
    ghost_names: Collection[str]
    units: int = 0
    rows: int = 0
    apart: bool = False
    probes: dict[str, Tensor] = field(default_factory=dict)
    uses: dict[str, list[KeptLinear | KeptEmbedding]] = field(default_factory=dict)
    anchors: dict[torch.device, Tensor] = field(default_factory=dict)
    flat: tuple[list[str], Tensor] | None = None

    def start(self, *, units: int, rows_per_unit: int, apart: bool = False) -> None:
        """Make room for a microbatch of so many units."""
        self.units, self.rows, self.apart = units, units * rows_per_unit, apart
        self.uses, self.anchors, self.flat = {}, {}, None
        zeros: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self.probes = {}
        for name, parameter in self.parameters.items():
            if name not in self.ghost_names:
                key = parameter.device, sum_dtype(parameter.dtype)
                if key not in zeros:
                    zeros[key] = torch.zeros((), device=key[0], dtype=key[1])
                # A leaf of shape (units, *shape) over that single zero.
                self.probes[name] = zeros[key].expand(units, *parameter.shape).requires_grad_()
        for name in self.ghost_names:
            device = self.parameters[name].device
            self.anchors[device] = torch.zeros((), device=device, requires_grad=True)

    def clear(self) -> None:
        """Drop everything that was recorded."""
        self.probes, self.uses, self.anchors, self.flat = {}, {}, {}, None

    def probe(self, name: str) -> Tensor:
        """Return the leaf that receives the per-unit gradient of this parameter."""
        return self.probes[name]

    def anchor(self, device: torch.device) -> Tensor:
        """Return a leaf that makes the output of a kept layer differentiable; it receives nothing."""
        return self.anchors[device]

    def keep(self, name: str, use: KeptLinear | KeptEmbedding) -> None:
        """Record one use of a kept parameter."""
        self.uses.setdefault(name, []).append(use)

    def check_rows(self, name: str, value: Tensor) -> None:
        """Refuse an input whose first dimension is not the rows of the microbatch."""
        if value.dim() < 1 or value.shape[0] != self.rows:
            raise UnsupportedParameter(
                f"`{name}` must see {self.rows} rows in the first dimension, "
                f"got an input of shape {tuple(value.shape)}. "
                "Gradients per unit need every row in unit-major order in one forward."
            )
