"""The `Encoder` protocol: everything that training, evaluation and auditing use of an encoder.

A *table* holds the inputs of all entities and is made once per graph. One training step computes
``embed(rows(table, entities))`` for the entities of its clip units, unit after unit.

An encoder must have six members: `module`, `dim`, `table`, `rows`, `save` and `describe`. The others
have defaults here. Nothing else is looked at; docs/extending.md has the table of all members, and
`tests/training/test_encoder_protocol.py` trains, resumes, evaluates and verifies with an encoder that
raises for any other.

Guarantees: `module` holds every parameter that training may change and is always in evaluation
mode (no dropout: a re-executed step must give the same bits, theory.md 6); a row's embedding
depends on that row alone, so modules that mix rows of a batch are refused.

Public: `Encoder` (the common base). Public inside the package: `entities_of`, `refuse_batch_mixing`.

>>> sorted(Encoder.__abstractmethods__)
['describe', 'dim', 'rows', 'save', 'table']
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._progress import tick
from reldp._torch_state import plain_torch
from reldp._validate import check_integer, refuse
from reldp.encoders.soundness import refuse_non_finite, refuse_non_finite_rows
from reldp.encoders.token_rows import TokenRows
from reldp.encoders.tokens import checked_indices
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["Encoder", "entities_of", "refuse_batch_mixing"]

_ROWS_AT_ONCE = 256


class Encoder(ABC):
    """Entities in, embeddings out.

    Attributes:
        module: The torch module that `embed` runs.
        table_is_exact: Whether a table holds the graph's data as it is. What a model computed from
            it may differ in the last bits on another machine.
        source: The folder or hub name that its weights were loaded from, if any.
    """

    module: nn.Module
    table_is_exact = True
    source: str | Path | None = None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of an embedding."""

    @abstractmethod
    def table(self, graph: "EntityGraph | CappedGraph", *, pool: Any = None) -> Any:
        """Return the inputs of the graph's entities, then those of a public pool.

        A table is an array or an object whose attributes are arrays, numbers and texts: they are hashed, so that
        a resumed run is known to use the same. Its ``len`` is the number of entities.

        Args:
            graph: The graph; the entities of a `CappedGraph` are in its attribute ``graph``.
            pool: Public entities from which negatives are drawn, with ``negatives="public"``.
        """

    @abstractmethod
    def rows(self, table: Any, indices: Any) -> dict[str, Tensor]:
        """Return inputs of `embed` by name for some entities, one row each, on the module's device.

        Args:
            table: The result of `table`.
            indices: Entities by their place in the table; an entity may be there more than once.
        """

    @abstractmethod
    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the encoder to a folder."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what this encoder is, as plain JSON values with a text `kind`; equal for equal starting points."""

    def embed(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the embeddings (rows, dim) of rows, with gradients; calls the module with the inputs by name."""
        embeddings: Tensor = self.module(**inputs)
        return embeddings

    def token_rows(self, table: Any) -> TokenRows:
        """Return the lengths of rows that have tokens; by default, all rows have one shape."""
        return TokenRows.without_tokens(len(table))

    def synthetic_rows(
        self, table: Any, count: int, *, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return public random inputs of `embed`, of the kinds and sizes that `rows` gives.

        A step is checked on these (`reldp.training.locality`). Override this for inputs that are
        not vectors of numbers.

        Args:
            table: The result of `table`; nothing but kinds and sizes is taken from it.
            count: Number of rows.
            length: Number of tokens of a row, where rows have tokens.
            generator: Source of random numbers, on the CPU.
        """
        inputs = {}
        for name, value in self.rows(table, [0]).items():
            if not value.is_floating_point():
                raise EncoderError(
                    f"`synthetic_rows` must be written for an encoder with inputs such as {name!r}, "
                    "got none. Steps are checked on public random rows."
                )
            random = torch.randn((count, *value.shape[1:]), generator=generator)
            inputs[name] = random.to(value)
        return inputs

    def encode_graph(
        self,
        graph: "EntityGraph | CappedGraph",
        indices: Any = None,
        *,
        batch_size: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the embeddings (entities, dim) of the graph's entities, or of those at `indices`.

        Args:
            graph: The graph.
            indices: Entities, in the order of the result (default: all).
            batch_size: Number of rows embedded at a time.
        """
        table = self.table(graph)
        places = np.arange(len(table)) if indices is None else checked_indices(indices, len(table))
        return self._encode_rows(table, places, batch_size)

    def public_embeddings(self) -> npt.NDArray[np.float32]:
        """Return embeddings (inputs, dim) of a few public inputs, for `check_finite`; none by default."""
        return np.zeros((0, self.dim), np.float32)

    def check_finite(self) -> None:
        """Refuse weights, or embeddings of public inputs, that are not finite.

        Training with them would spend the whole budget and learn nothing.
        """
        refuse_non_finite(dict(self.module.named_parameters()))
        refuse_non_finite_rows(self.public_embeddings())

    def eval(self) -> Self:
        """Switch dropout and the like off, in every module that `table` and `embed` run."""
        self.module.eval()
        return self

    @property
    def device(self) -> torch.device:
        """Device of the module: of its parameters, else of its buffers; the CPU where it has neither."""
        held = chain(self.module.parameters(), self.module.buffers())
        return next((tensor.device for tensor in held), torch.device("cpu"))

    def to(self, device: str | torch.device) -> Self:
        """Move the module; a device that is not there, or holds no numbers, is refused."""
        try:
            if torch.device(device).type == "meta":
                raise EncoderError("`device` must exist here, got meta, which holds no numbers.")
            self.module.to(device)
        except (RuntimeError, AssertionError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            raise EncoderError(f"`device` must exist here, got {device!s}. {reason}.") from error
        return self

    def trainable(self) -> dict[str, nn.Parameter]:
        """Return the parameters that training changes, by name."""
        return {name: p for name, p in self.module.named_parameters() if p.requires_grad}

    def load_trainable(self, values: Mapping[str, Tensor]) -> None:
        """Set the trainable parameters; names and shapes must agree exactly."""
        parameters = self.trainable()
        if set(values) != set(parameters):
            odd = sorted(set(values) ^ set(parameters))[0]
            raise EncoderError(
                f"`values` must name exactly the trainable parameters, got a difference at {odd!r}."
            )
        for name, parameter in parameters.items():
            if values[name].shape != parameter.shape:
                raise EncoderError(
                    f"`values` must have the shape {tuple(parameter.shape)} for {name!r}, "
                    f"got {tuple(values[name].shape)}."
                )
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(values[name])

    @plain_torch()
    def _encode_rows(
        self, table: Any, places: npt.NDArray[np.int64], batch_size: int | None
    ) -> npt.NDArray[np.float32]:
        """Return the embeddings of entities of a table, computed in batches without gradients."""
        step = _ROWS_AT_ONCE if batch_size is None else batch_size
        check_integer("batch_size", step, low=1, error=EncoderError)
        out = np.empty((len(places), self.dim), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(places), step):
                rows = self.rows(table, places[start : start + step])
                out[start : start + step] = self.embed(rows).float().cpu().numpy()
                tick("embedding", min(start + step, len(places)), len(places))
        return out


def entities_of(graph: "EntityGraph | CappedGraph") -> "EntityGraph":
    """Return the graph that holds the entities' texts and features, behind a degree bound or not."""
    from reldp.graph import CappedGraph, EntityGraph

    given: object = graph
    if isinstance(given, CappedGraph):
        return given.graph
    if not isinstance(given, EntityGraph):
        fix = "A pool may also be a list of texts, or a NumPy matrix of features."
        rule = "an EntityGraph or a CappedGraph"
        refuse("graph", rule, given, error=EncoderError, fix=fix)
    return given


def refuse_batch_mixing(module: nn.Module) -> None:
    """Refuse batch normalization, which lets one row change the embeddings of others."""
    for name, child in module.named_modules():
        if isinstance(child, nn.modules.batchnorm._NormBase):
            raise EncoderError(
                f"`module` must not mix rows of a batch, got {type(child).__name__} at {name!r}. "
                "Every clip unit must depend on itself alone; use layer normalization."
            )
