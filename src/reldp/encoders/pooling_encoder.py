"""A frozen text encoder with trained pooling: private learning in a minute on a CPU.

Only the weights of tokens in the mean over a text are trained (`reldp.encoders.attention_pooling`), two numbers per
dimension. The frozen model runs once per text; a training step then touches its stored outputs. They are a public
function of each entity's own text, so storing them changes nothing about privacy.

What is saved is a whole text encoder. sentence-transformers loads it where reldp is installed too.

Private to the package: `PoolingEncoder`, made by ``TextEncoder.load(..., train="pooling")``.

>>> issubclass(PoolingEncoder, FrozenTextEncoder)
True
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from reldp._progress import tick
from reldp._torch_state import plain_torch
from reldp.encoders.adaptation import Adaptation
from reldp.encoders.attention_pooling import AttentionPooling
from reldp.encoders.frozen import FrozenTextEncoder
from reldp.encoders.loading import Pretrained
from reldp.encoders.prefix import HiddenTable
from reldp.errors import EncoderError
from reldp.losses.unit_length import unit_length

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["PoolingEncoder"]


class PooledStates(nn.Module):
    """Embeddings from the outputs of a frozen model."""

    def __init__(self, pooling: AttentionPooling, normalize: bool) -> None:
        super().__init__()
        self.pooling = pooling
        self.normalize = normalize

    def forward(self, attention_mask: Tensor, hidden: Tensor) -> Tensor:
        """Return embeddings (rows, dim) of states (rows, tokens, dim)."""
        embeddings: Tensor = self.pooling(hidden, attention_mask)
        return unit_length(embeddings) if self.normalize else embeddings


class PoolingEncoder(FrozenTextEncoder):
    """A text encoder of which only the pooling is trained.

    Attributes:
        module: The pooling alone.
    """

    def __init__(self, pretrained: Pretrained, how: Adaptation, **settings: Any) -> None:
        """Freeze the model and put trained pooling on it; see `TextEncoder.load` for the arguments.

        Raises:
            EncoderError: The model does not end with mean pooling.
        """
        super().__init__(pretrained, how, **settings)
        if self._described["pooling"] != "mean" or pretrained.dense or pretrained.attention:
            raise EncoderError(
                "`train` must not be pooling for this model: trained pooling starts as mean pooling, without layers "
                f"after it, got {self._described['pooling']} pooling"
                f"{' and layers after it' if pretrained.dense or pretrained.attention else ''}."
            )
        pooling = AttentionPooling(self.dim)
        self._text.set_attention(pooling)
        self.module = PooledStates(pooling, self._described["normalize"]).eval()
        self._described["adaptation"] = {"train": "pooling"}

    def states(self, graph: "EntityGraph | CappedGraph", indices: Any = None) -> HiddenTable:
        """Return the frozen model's outputs for the graph's entities, or for those at `indices`, in that order."""
        return self._outputs(self._tokenize_graph(graph, indices))

    def encode_states(
        self, table: HiddenTable, *, batch_size: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the embeddings (texts, dim) of texts whose `states` are known."""
        return self._encode_rows(table, np.arange(len(table)), batch_size)

    @plain_torch()
    def _outputs(self, tokens: Any) -> HiddenTable:
        """Return the frozen model's outputs for every token of all texts."""
        lengths = tokens.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        states = np.empty((offsets[-1], self.dim), np.float32)
        done = 0
        for places, outputs in self._tabulate_with(lambda rows: self._text.states(**rows), tokens):
            for place, row in zip(places, outputs.float().cpu().numpy(), strict=True):
                states[offsets[place] : offsets[place + 1]] = row[: lengths[place]]
            done += len(places)
            tick("encoding", done, len(lengths))
        return HiddenTable(states=states, offsets=offsets)
