"""Any torch module as an encoder: a CNN over images, a tabular network, a transformer of one's own.

    encoder = ModuleEncoder(cnn, {"image": Column("features", shape=(1, 28, 28))})

`inputs` says what each argument of the module's ``forward`` gets for an entity (`reldp.encoders.inputs`).
The module must return one vector per row, and a row's vector must depend on that row alone. This, and
that its gradients per clip unit are exact, is checked on public random rows when the encoder is made
(`reldp.encoders.module_checks`), so that a module which cannot be trained is refused before anything
private is read.

The module's code is not saved: `ModuleEncoder.load` takes the module from your program, and fills in
the weights. Weights must not come from the private data.

Public: `ModuleEncoder`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_arrow({"id": [1, 2], "text": ["a", "b"], "age": [30, 50], "size": [1.5, 2]},
...                                {"source": [1], "target": [2]})
>>> encoder = ModuleEncoder(nn.Linear(2, 4), ["age", "size"])
>>> encoder.dim, encoder.encode_graph(graph).shape
(4, (2, 4))
"""

import ast
import hashlib
import inspect
import json
import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._torch_state import plain_torch
from reldp._validate import check_flag
from reldp.encoders.encoder import Encoder, entities_of
from reldp.encoders.folders import new_folder, read_json, state_hash, write_json
from reldp.encoders.input_rows import Input
from reldp.encoders.model_files import check_weights_file
from reldp.encoders.module_checks import check_gradients, check_kind, check_outputs
from reldp.encoders.module_table import ModuleTable, named_inputs
from reldp.encoders.tokens import checked_indices
from reldp.errors import EncoderError
from reldp.gradients.fallback import without_fast_path
from reldp.losses.unit_length import unit_length

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["ModuleEncoder"]

_NUMBERS_AT_ONCE = 1 << 22  # numbers of all rows that are embedded at a time without gradients
_PUBLIC_ROWS = 16


class ModuleEncoder(Encoder):
    """A torch module whose rows are independent."""

    @plain_torch()
    def __init__(
        self,
        module: nn.Module,
        inputs: "Mapping[str, Input | str | list[str]] | Input | str | list[str]",
        *,
        normalize: bool = False,
    ) -> None:
        """Check a module on public random rows, and switch it to evaluation mode.

        Args:
            module: The module; trained in place. Parameters that should stay as they are need
                ``requires_grad=False``.
            inputs: What each argument of ``module.forward`` gets for an entity, by name: a `Column`, an
                `Array`, a `PerEntity`, the name of a column of numbers, or a list of such names. A module
                with one argument may get its input without the name.
            normalize: Whether embeddings are scaled to length 1.

        Raises:
            EncoderError: The module or the inputs break a rule; the message says which.
            UnsupportedParameter: A trainable parameter has no gradient per clip unit.
        """
        check_kind(module)
        check_flag("normalize", normalize, error=EncoderError)
        self.module = module.eval()
        self._inputs = _Inputs(named_inputs(module, inputs))
        self.normalize = normalize
        self._check_saveable()
        self._dim = check_outputs(module, self.embed, self._public_rows)
        check_gradients(module, self.embed, self._public_rows)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self._dim

    @property
    def num_values(self) -> dict[str, int]:
        """How many whole numbers an input may hold, from 0, by the names of such inputs."""
        given = self._inputs.by_name.items()
        return {name: i.num_values for name, i in given if i.num_values is not None}

    def table(self, graph: "EntityGraph | CappedGraph", *, pool: Any = None) -> ModuleTable:
        """Return the inputs of the graph's entities, then of a public pool, which is another graph."""
        table = self._rows_of(graph)
        return table if pool is None else table.join(self._rows_of(pool, "pool"))

    def rows(self, table: ModuleTable, indices: Any) -> dict[str, Tensor]:
        """Return the arguments of the module for the entities asked for."""
        places = checked_indices(indices, len(table))
        return {
            name: self._inputs.by_name[name].tensor(rows.take(places)).to(self.device)
            for name, rows in table.rows().items()
        }

    def embed(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """Return the embeddings (rows, dim) of rows, with gradients."""
        with without_fast_path():  # without gradients, compute what is computed with them
            embeddings: Tensor = self.module(**inputs)
        return unit_length(embeddings) if self.normalize else embeddings

    def synthetic_rows(
        self, table: Any, count: int, *, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return random numbers of the stated shapes."""
        return {
            name: given.random(count, generator).to(self.device)
            for name, given in self._inputs.by_name.items()
        }

    @plain_torch()
    def public_embeddings(self) -> npt.NDArray[np.float32]:
        """Return embeddings of public random rows."""
        with torch.inference_mode():
            return self.embed(self._public_rows(_PUBLIC_ROWS, 2)).float().cpu().numpy()

    def encode_graph(
        self,
        graph: "EntityGraph | CappedGraph",
        indices: Any = None,
        *,
        batch_size: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the embeddings of the graph's entities, or of those at `indices`."""
        table = self._rows_of(graph, indices=indices)
        numbers = sum(math.prod(given.shape) for given in self._inputs.by_name.values())
        step = max(1, min(4096, _NUMBERS_AT_ONCE // numbers))
        return self._encode_rows(
            table, np.arange(len(table)), step if batch_size is None else batch_size
        )

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the weights and a description; `load` reads them, together with the module's code."""
        from safetensors.torch import save_file

        with new_folder(folder, overwrite=overwrite) as new:
            weights = {
                name: value.detach().cpu().clone().contiguous()
                for name, value in self.module.state_dict().items()
            }
            save_file(weights, str(new / "model.safetensors"))
            write_json(new / "encoder.json", self.describe())

    @classmethod
    def load(cls, folder: str | Path, module: nn.Module, inputs: Any) -> Self:
        """Return a saved encoder.

        Args:
            folder: Folder that `save` or a run wrote: ``run/model``.
            module: The module of the same code; its weights are replaced by the saved ones.
            inputs: As when it was trained.

        Raises:
            EncoderError: The folder holds something else, or the module or the inputs are others.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        place = Path(folder)
        values = read_json(place / "encoder.json")
        if not isinstance(values, dict) or values.get("kind") != "module":
            raise EncoderError(f"`folder` must hold a module encoder, got {place.name!r}.")
        check_kind(module)
        described = {name: given.describe() for name, given in named_inputs(module, inputs).items()}
        if _shapes(described) != _shapes(values.get("inputs")):
            raise EncoderError(
                "`inputs` must be those that the module was trained with, got others."
            )
        try:
            check_weights_file(place / "model.safetensors")
            module.load_state_dict(load_file(str(place / "model.safetensors")))
        except (RuntimeError, OSError, SafetensorError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise EncoderError(
                f"`module` must be the one that was saved as {values.get('module')}, got "
                f"{_name(module)}: {reason}."
            ) from error
        encoder = cls(module, inputs, normalize=bool(values.get("normalize")))
        encoder.check_finite()
        encoder.source = place
        return encoder

    def describe(self) -> dict[str, Any]:
        """Return the module's class, the hash of its source, its inputs, and the hash of what is frozen.

        Trained weights are left out: a ledger has the hash of their start.
        """
        trainable = self.trainable()
        frozen = {n: v for n, v in self.module.state_dict().items() if n not in trainable}
        is_whole = all(parameter.requires_grad for parameter in self.module.parameters())
        trained = "all" if is_whole and trainable else "some" if trainable else "no"
        described = {
            "kind": "module",
            "module": _name(self.module),
            "source_sha256": _source_sha256(self.module),
            "inputs": {name: i.describe() for name, i in self._inputs.by_name.items()},
            "dim": self._dim,
            "normalize": self.normalize,
            "num_trainable": sum(value.numel() for value in trainable.values()),
            "frozen_sha256": state_hash(frozen),
            "adaptation": {"train": f"{trained} parameters"},
        }
        return dict(json.loads(json.dumps(described)))

    def _public_rows(self, count: int, seed: int) -> dict[str, Tensor]:
        """Return public random rows from a seed."""
        generator = torch.Generator().manual_seed(seed)
        return self.synthetic_rows(None, count, length=1, generator=generator)

    def _rows_of(self, graph: Any, argument: str = "graph", indices: Any = None) -> ModuleTable:
        """Return the rows of a graph's entities, or of those at some indices."""
        from reldp.graph import CappedGraph, EntityGraph

        if not isinstance(graph, EntityGraph | CappedGraph):
            raise EncoderError(
                f"`{argument}` must be an EntityGraph for a module, got {type(graph).__name__}."
            )
        entities = entities_of(graph)
        count = entities.num_entities
        chosen = np.arange(count) if indices is None else checked_indices(indices, count)
        return ModuleTable.of(self._inputs.by_name, entities, chosen)

    def _check_saveable(self) -> None:
        """Refuse a module whose state is more than tensors."""
        for name, value in self.module.state_dict().items():
            if not isinstance(value, Tensor):
                raise EncoderError(
                    f"`module` must have tensors as its state, got {type(value).__name__} at {name!r}. It could "
                    "not be saved without pickle."
                )


class _Inputs:
    """The inputs, in an object of their own: hashes of an encoder's attributes are public, data is not."""

    def __init__(self, by_name: dict[str, Input]) -> None:
        self.by_name = by_name


def _name(module: nn.Module) -> str:
    """Return the name of a module's class."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def _shapes(described: Any) -> Any:
    """Return shapes and numbers of values of described inputs."""
    if not isinstance(described, dict):
        return None
    return {name: (i["shape"], i["num_values"]) for name, i in described.items()}


def _source_sha256(module: nn.Module) -> str | None:
    """Return the hash of the source of a module's classes, without comments; None if it is not in files."""
    kinds = {type(child) for child in module.modules()}
    written = sorted((k for k in kinds if not k.__module__.startswith("torch.")), key=_place)
    digest = hashlib.sha256()
    try:
        for kind in written:
            tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
            digest.update(f"{_place(kind)}\0{ast.dump(tree)}\0".encode())
    except (OSError, TypeError, SyntaxError):
        return None
    return digest.hexdigest()


def _place(kind: type) -> str:
    return kind.__qualname__
