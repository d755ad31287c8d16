"""An MLP on dense features: the encoder for entities that are vectors, not texts.

Features are used exactly as given. Centring or scaling them by statistics of the private graph
would leak those statistics, so it is never done here; use public constants.

A linear encoder that keeps the dimension starts as the identity, so training starts from what the
features already know (a head on a frozen text encoder starts at that encoder's quality). All layers
are plain ``Linear`` modules with an activation between them, so a saved head is a chain of
sentence-transformers ``Dense`` modules.

Public: `FeatureEncoder`, `FeatureTable`.

>>> encoder = FeatureEncoder(2)
>>> encoder.encode(np.array([[3.0, 4.0]]))
array([[3., 4.]], dtype=float32)
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._torch_state import float32_by_default, plain_torch
from reldp._validate import check_choice, check_flag, check_integer, refuse
from reldp.encoders.encoder import Encoder, entities_of
from reldp.encoders.folders import new_folder, read_json, state_hash, write_json
from reldp.encoders.model_files import check_weights_file
from reldp.encoders.tokens import checked_indices
from reldp.errors import EncoderError
from reldp.losses.unit_length import unit_length

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["ACTIVATIONS", "FeatureEncoder", "FeatureTable"]

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


_MAX_WIDTH = 2**17


@dataclass(frozen=True, kw_only=True)
class FeatureTable:
    """Dense features of many entities, shape (entities, dim), float32."""

    features: npt.NDArray[np.float32] = field(repr=False)

    def __len__(self) -> int:
        return len(self.features)

    def join(self, other: Self) -> Self:
        """Return this table with the rows of the other after it."""
        return type(self)(features=np.concatenate([self.features, other.features]))


class FeatureMlp(nn.Module):
    """Linear layers with an activation between them, and an optional normalization at the end."""

    def __init__(self, dims: Sequence[int], activation: str, bias: bool, normalize: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(before, after, bias=bias) for before, after in pairwise(dims)
        )
        self.activation = ACTIVATIONS[activation]()
        self.normalize = normalize

    def forward(self, features: Tensor) -> Tensor:
        """Embeddings (rows, dim) of features (rows, in_dim)."""
        for position, layer in enumerate(self.layers):
            features = layer(self.activation(features) if position else features)
        return unit_length(features) if self.normalize else features


class FeatureEncoder(Encoder):
    """An MLP on dense features."""

    @float32_by_default()
    def __init__(
        self,
        in_dim: int,
        *,
        hidden: Sequence[int] = (),
        dim: int | None = None,
        activation: str = "relu",
        bias: bool = True,
        normalize: bool = False,
        seed: int = 0,
    ) -> None:
        """Build the MLP.

        Args:
            in_dim: Length of a feature vector.
            hidden: Widths of the hidden layers; none makes a linear encoder.
            dim: Length of an embedding; ``in_dim`` unless given.
            activation: ``"relu"``, ``"tanh"`` or ``"gelu"``, between layers.
            bias: Whether the layers have one.
            normalize: Whether embeddings are scaled to length 1.
            seed: Of the starting weights, which are public.
        """
        _check_hidden(hidden)
        dims = [in_dim, *hidden, in_dim if dim is None else dim]
        for name, width in zip(["in_dim", *["hidden"] * len(hidden), "dim"], dims, strict=True):
            check_integer(name, width, low=1, high=_MAX_WIDTH, error=EncoderError)
        for name, flag in (("bias", bias), ("normalize", normalize)):
            check_flag(name, flag, error=EncoderError)
        check_choice("activation", activation, ACTIVATIONS, error=EncoderError)
        check_integer("seed", seed, low=-(2**63), high=2**64 - 1, error=EncoderError)
        self.settings: dict[str, Any] = {
            "in_dim": in_dim,
            "hidden": list(hidden),
            "dim": dims[-1],
            "activation": activation,
            "bias": bias,
            "normalize": normalize,
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            mlp = FeatureMlp(dims, activation, bias, normalize).eval()
        self.layers = [layer for layer in mlp.layers if isinstance(layer, nn.Linear)]
        if len(dims) == 2 and dims[0] == dims[1]:
            _set_identity(self.layers[0])
        self.module = mlp
        self._start_hash = state_hash(self.module.state_dict())

    def public_embeddings(self) -> npt.NDArray[np.float32]:
        """Embeddings of zeros, of ones and of each single coordinate of the first few."""
        width = int(self.settings["in_dim"])
        rows = np.concatenate(
            [np.zeros((1, width)), np.ones((1, width)), np.eye(min(64, width), width)]
        )
        return self.encode(rows)

    @classmethod
    def for_graph(cls, graph: "EntityGraph | CappedGraph", **settings: Any) -> Self:
        """Return an encoder as wide as the graph's features."""
        return cls(int(_features_of(graph).shape[1]), **settings)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self.settings["dim"])

    def table(self, graph: "EntityGraph | CappedGraph", *, pool: Any = None) -> FeatureTable:
        """Return the graph's features, then those of a public pool (another graph or an array)."""
        table = self._checked(_features_of(graph))
        return table if pool is None else table.join(self._checked(_features_of(pool)))

    def rows(self, table: FeatureTable, indices: Any) -> dict[str, Tensor]:
        """Features (rows, in_dim) of the entities asked for."""
        chosen = table.features[checked_indices(indices, len(table))]
        return {"features": torch.from_numpy(chosen).to(self.device)}

    @plain_torch()
    def encode(self, features: Any, *, batch_size: int | None = None) -> npt.NDArray[np.float32]:
        """Embeddings (rows, dim) of feature vectors (rows, in_dim) or of a table."""
        table = features if isinstance(features, FeatureTable) else self._checked(features)
        out = np.empty((len(table), self.dim), dtype=np.float32)
        step = 4096 if batch_size is None else batch_size
        check_integer("batch_size", step, low=1, error=EncoderError)
        with torch.inference_mode():
            for start in range(0, len(table), step):
                stop = min(start + step, len(table))
                rows = self.rows(table, np.arange(start, stop))
                out[start:stop] = self.embed(rows).cpu().numpy()
        return out

    def encode_graph(
        self,
        graph: "EntityGraph | CappedGraph",
        indices: Any = None,
        *,
        batch_size: int | None = None,
    ) -> npt.NDArray[np.float32]:
        """Embeddings of the graph's entities, or of those asked for."""
        features = _features_of(graph)
        if indices is not None:
            features = features[checked_indices(indices, len(features))]
        return self.encode(features, batch_size=batch_size)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write ``encoder.json`` and ``model.safetensors``; `load` reads them."""
        from safetensors.torch import save_file

        with new_folder(folder, overwrite=overwrite) as new:
            save_file(
                {
                    name: value.cpu().contiguous()
                    for name, value in self.module.state_dict().items()
                },
                str(new / "model.safetensors"),
            )
            write_json(new / "encoder.json", {"kind": "features", **self.settings})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the encoder that `save` wrote."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        place = Path(folder)
        values = read_json(place / "encoder.json")
        if not isinstance(values, dict) or values.pop("kind", None) != "features":
            raise EncoderError(f"`folder` must hold a feature encoder, got {place.name!r}.")
        if not (place / "model.safetensors").exists():
            raise EncoderError(
                f"`folder` must hold a whole feature encoder, got {place.name!r} without model.safetensors. Copy or "
                "save it again."
            )
        try:
            stored = check_weights_file(place / "model.safetensors")
            _check_widths(values, stored)
            encoder = cls(values.pop("in_dim"), **values)
            encoder.module.load_state_dict(load_file(str(place / "model.safetensors")))
        except (KeyError, TypeError, RuntimeError, OSError, SafetensorError) as error:
            words = str(error).replace(str(place), place.name)
            reason = (words.splitlines() or [type(error).__name__])[0].rstrip(".:")
            raise EncoderError(
                f"`folder` must hold a whole feature encoder, got {place.name!r}: {reason}."
            ) from error
        encoder.check_finite()
        encoder.source = place
        encoder._start_hash = state_hash(encoder.module.state_dict())
        return encoder

    def describe(self) -> dict[str, Any]:
        """Return the settings and the hash of the starting weights."""
        described = {"kind": "features", **self.settings, "base_weights_sha256": self._start_hash}
        return dict(json.loads(json.dumps(described)))

    def _checked(self, features: Any) -> FeatureTable:
        """Return the features as a table, if they are finite and as wide as the first layer."""
        try:
            array = np.ascontiguousarray(features, dtype=np.float32)
        except (ValueError, TypeError, OverflowError):  # it would quote the value
            raise EncoderError(
                "`features` must be a matrix of numbers, got rows of several lengths or values "
                "that are no numbers."
            ) from None
        if array.ndim != 2 or array.shape[1] != self.settings["in_dim"]:
            raise EncoderError(
                f"`features` must have shape (entities, {self.settings['in_dim']}), "
                f"got {array.shape}."
            )
        if not np.isfinite(array).all():
            first = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise EncoderError(f"`features` must be finite, got a bad value in row {first}.")
        return FeatureTable(features=array)


def _features_of(graph: Any) -> npt.NDArray[np.float32]:
    """Return the features of a graph, or an array of features as it is."""
    features = graph if isinstance(graph, np.ndarray) else entities_of(graph).features
    if features is None:
        raise EncoderError(
            "`graph` must have features, got text only. Use TextEncoder for entities with text."
        )
    return np.asarray(features)


def _check_hidden(hidden: object) -> None:
    """Refuse what is no list of widths; a file may hold anything."""
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        refuse("hidden", "a list of widths", hidden, error=EncoderError)


def _check_widths(settings: dict[str, Any], stored: dict[str, tuple[int, ...]]) -> None:
    """Refuse widths of other layers than the stored ones, before memory is used for them."""
    _check_hidden(settings.get("hidden", ()))
    widths = [settings["in_dim"], *settings.get("hidden", ())]
    widths.append(settings["in_dim"] if settings.get("dim") is None else settings["dim"])
    for width in widths:
        check_integer("in_dim, hidden and dim", width, low=1, high=_MAX_WIDTH, error=EncoderError)
    weights = [shape for name, shape in stored.items() if name.endswith(".weight")]
    if len(weights) != len(widths) - 1:
        raise RuntimeError(f"encoder.json has {len(widths) - 1} layers, the file {len(weights)}")
    for layer, (before, after) in enumerate(pairwise(widths)):
        name = f"layers.{layer}.weight"
        if stored.get(name) != (after, before):
            raise RuntimeError(f"size mismatch for {name}: {stored.get(name)} is stored")


def _set_identity(layer: nn.Linear) -> None:
    """Make a square linear layer the identity."""
    with torch.no_grad():
        nn.init.eye_(layer.weight)
        if layer.bias is not None:
            layer.bias.zero_()
