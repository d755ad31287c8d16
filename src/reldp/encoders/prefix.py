"""The frozen lower layers of a model, run separately from the trained layers.

If only the last layers are trained, the outputs of the layers below never change. These layers run
without gradients and without the padding that clip units need, or once per graph if their outputs
are stored (`HiddenTable`); a training step then computes the trained layers only. The states of a
text are a function of that text and public weights, so storing them does not affect privacy.

Works for any transformers model: the forward method of the model runs both times, with its masks,
positions and biases; only the lower layers return stored states instead of computing them.

Private to the package: `FrozenPrefix`, `HiddenTable`, `num_frozen_layers`.

>>> HiddenTable(states=np.zeros((3, 2), np.float32), offsets=np.array([0, 1, 3])).lengths
array([1, 2])
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp.encoders.adaptation import transformer_layers
from reldp.encoders.tokens import RowTable
from reldp.errors import EncoderError

__all__ = ["FrozenPrefix", "HiddenTable", "num_frozen_layers"]


@dataclass(frozen=True, kw_only=True)
class HiddenTable(RowTable):
    """States of every token of many texts after the frozen layers.

    Attributes:
        states: Shape (tokens, hidden size), float32.
        offsets: Shape (texts + 1,), int64: text i is ``states[offsets[i]:offsets[i + 1]]``.
    """

    states: npt.NDArray[np.float32] = field(repr=False)

    def rows(self, indices: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return padded states (rows, longest, hidden size) and attention mask (rows, longest)."""
        places, mask = self.places(indices)
        # Chosen, not multiplied: zero times what another text left is not always zero.
        return np.where(mask[:, :, None], self.states[places], np.float32(0)), mask.astype(np.int64)

    def join(self, other: "HiddenTable") -> "HiddenTable":
        """Return this table with the texts of the other after it."""
        return HiddenTable(
            states=np.concatenate([self.states, other.states]),
            offsets=self.joined_offsets(other),
        )


class _ReachedTheTop(Exception):
    """Control-flow signal that carries the states of the frozen layers."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class FrozenPrefix:
    """The first layers of a model; `below` runs them, `above` runs the model on their states."""

    def __init__(self, model: nn.Module, num_layers: int) -> None:
        """Wrap the forward of the first layers of a transformers model, in place."""
        self._model = model
        self._states: Tensor | None = None
        self._stop = False
        self._as_tuple = False
        self._dtype = torch.float32
        _, layers = transformer_layers(model)
        for index in range(num_layers):
            # Instance attributes shadow the class's forward; hooks and names stay as they are.
            forward = partial(self._run, layers[index].forward, index == num_layers - 1)
            layers[index].forward = forward

    def below(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """States (rows, tokens, hidden size) after the frozen layers, without gradients."""
        with torch.no_grad(), self._mode(stop=True):
            try:
                self._model(input_ids=input_ids, attention_mask=attention_mask)
            except _ReachedTheTop as reached:
                return reached.states
        raise EncoderError("`source` must run its layers in order, got a model that does not.")

    @contextmanager
    def above(self, states: Tensor) -> Iterator[None]:
        """Inside, the frozen layers answer with these states instead of computing.

        How they answer, and in which type, was seen when `below` last ran.
        """
        with self._mode(states=states.to(self._dtype)):
            yield

    @contextmanager
    def _mode(self, *, stop: bool = False, states: Tensor | None = None) -> Iterator[None]:
        self._stop, self._states = stop, states
        try:
            yield
        finally:
            self._stop, self._states = False, None

    def _run(self, forward: Callable[..., Any], last: bool, *args: Any, **kwargs: Any) -> Any:
        """One frozen layer: answers, or computes, or computes and stops."""
        if self._states is not None:
            return (self._states,) if self._as_tuple else self._states
        out = forward(*args, **kwargs)
        if last and self._stop:
            self._as_tuple = isinstance(out, tuple)
            states = out[0] if self._as_tuple else out
            self._dtype = states.dtype
            raise _ReachedTheTop(states)
        return out


def num_frozen_layers(model: nn.Module) -> int:
    """Return the number of layers below all trained ones; 0 if embeddings are trained."""
    path, layers = transformer_layers(model)
    parent = path.rpartition(".")[0]
    first = len(layers)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if name.startswith(f"{path}."):
            first = min(first, int(name.removeprefix(f"{path}.").split(".")[0]))
        elif "norm" not in name.removeprefix(f"{parent}.").split(".")[0].lower():
            return 0
    return first
