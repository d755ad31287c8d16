"""A frozen text encoder with a trained head: private learning without a GPU.

The frozen model encodes every text of the graph once; a training step then touches only the cached
vectors and the head, so thousands of steps take a minute. The vectors are a public function of each
entity's own text, so caching them changes nothing about privacy.

What is saved is a whole text encoder: the head becomes Dense modules of sentence-transformers.

Public: `HeadEncoder`, made by ``TextEncoder.load(..., train="head")``.

>>> from reldp.encoders.text import TextEncoder
>>> issubclass(HeadEncoder, TextEncoder)
True
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reldp.encoders.adaptation import Adaptation
from reldp.encoders.encoder import Encoder
from reldp.encoders.features import FeatureEncoder, FeatureTable
from reldp.encoders.frozen import FrozenTextEncoder
from reldp.encoders.loading import DenseLayer, Pretrained
from reldp.encoders.sentence_modules import MAX_MODULES
from reldp.errors import EncoderError

__all__ = ["HeadEncoder"]


class HeadEncoder(FrozenTextEncoder):
    """A text encoder of which only a head after pooling is trained.

    Attributes:
        module: The head alone.
    """

    def __init__(
        self,
        pretrained: Pretrained,
        how: Adaptation,
        *,
        hidden: Sequence[int] = (),
        dim: int | None = None,
        normalize: bool | None = None,
        **settings: Any,
    ) -> None:
        """Freeze the model and put a head on it.

        Args:
            pretrained: Loaded model.
            how: Which of its weights are trained: none.
            hidden: Hidden widths of the head.
            dim: Length of an embedding after the head (default: the model's).
            normalize: Whether embeddings have length 1 (default: as the model says).
            settings: Further arguments of `TextEncoder`.
        """
        normalize = pretrained.normalize if normalize is None else normalize
        super().__init__(pretrained, how, normalize=False, **settings)
        self._head = FeatureEncoder(
            super().dim,
            hidden=hidden,
            dim=dim,
            activation="tanh",
            normalize=normalize,
            seed=how.seed,
        )
        free = MAX_MODULES - 3 - len(pretrained.dense)  # beside model, pooling and normalization
        if len(self._head.layers) > free:
            raise EncoderError(
                f"`head_hidden` must have at most {free - 1} widths for this model, got {len(hidden)}: a saved model "
                f"with more than {MAX_MODULES} modules is not loaded."
            )
        self.module = self._head.module
        self._described["normalize"] = normalize
        self._described["adaptation"] = {
            "train": "head",
            "hidden": list(hidden),
            "dim": self._head.dim,
            "activation": "tanh",
            "seed": how.seed,
        }

    @property
    def dim(self) -> int:
        """Length of an embedding after the head."""
        return self._head.dim

    def rows(self, table: Any, indices: Any) -> dict[str, Tensor]:
        """Return cached vectors (rows, hidden size) of the entities asked for."""
        return self._head.rows(table, indices)

    def synthetic_rows(
        self, table: Any, count: int, *, length: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Random vectors in place of the frozen model's."""
        return Encoder.synthetic_rows(self, table, count, length=length, generator=generator)

    def _outputs(self, tokens: Any) -> FeatureTable:
        """Return the frozen model's vector of every text."""
        return FeatureTable(features=self._tabulate(super()._embed_tokens, tokens))

    def _embed_tokens(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return the frozen model, then the head."""
        embeddings: Tensor = self.module(super()._embed_tokens(inputs))
        return embeddings

    def _dense_layers(self) -> list[DenseLayer]:
        """Return the model's own dense layers, then the head's: an activation follows all but the last."""
        linears = self._head.layers
        last = len(linears) - 1
        return super()._dense_layers() + [
            DenseLayer(linear=linear, activation=nn.Identity() if i == last else nn.Tanh())
            for i, linear in enumerate(linears)
        ]
