"""A text encoder whose model is frozen: its outputs are computed once per text, and what comes after is trained.

The outputs are a public function of each entity's own text, so storing them changes nothing about privacy.

Private to the package: `FrozenTextEncoder`.

>>> issubclass(FrozenTextEncoder, TextEncoder)
True
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

import torch

from reldp.encoders.text import TextEncoder

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["FrozenTextEncoder"]


class FrozenTextEncoder(TextEncoder):
    """A frozen text model and a small trained module after it.

    Attributes:
        table_is_exact: False, because a table holds what the frozen model computed.
    """

    table_is_exact = False

    def to(self, device: str | torch.device) -> Self:
        """Move what is trained and the frozen model."""
        super().to(device)
        self._text.to(device)
        return self

    def eval(self) -> Self:
        """Switch dropout off, in what is trained and in the frozen model."""
        self._text.eval()
        return super().eval()

    def table(
        self,
        graph: "EntityGraph | CappedGraph",
        *,
        pool: Any = None,
        keep_states: bool = False,
        tokenize: str | None = None,
    ) -> Any:
        """Return the frozen model's outputs for every text, computed once and always kept.

        Args:
            graph: Graph of texts.
            pool: Public pool: another graph or a list of texts.
            keep_states: Without effect: the outputs of the whole frozen model are kept.
            tokenize: Without effect: all texts are tokenized ahead.
        """
        return self._outputs(super().table(graph, pool=pool, tokenize="ahead"))

    @abstractmethod
    def _outputs(self, tokens: Any) -> Any:
        """Return the table of the frozen model's outputs for a table of tokens."""
