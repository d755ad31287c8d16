"""The torch module of a text encoder: backbone, pooling, dense layers, normalization.

Takes token ids, or the states that the frozen lower layers gave for them. All rows are padded on
the right and independent of one another.

Private to the package: `TextModule`.

>>> TextModule.forward.__doc__.splitlines()[0]
'Embeddings (rows, dim) of right-padded rows.'
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from reldp.encoders.architecture import adds_mask, has_plain_positions
from reldp.encoders.attention_pooling import AttentionPooling
from reldp.encoders.loading import DenseLayer
from reldp.encoders.pooling import pool
from reldp.encoders.prefix import FrozenPrefix, num_frozen_layers
from reldp.encoders.saving import base_model
from reldp.losses.unit_length import unit_length

__all__ = ["TextModule"]


class TextModule(nn.Module):
    """Token ids to embeddings."""

    def __init__(
        self,
        backbone: nn.Module,
        *,
        pooling: str,
        dense: Sequence[DenseLayer],
        normalize: bool,
        autocast: bool,
        attention: AttentionPooling | None = None,
    ) -> None:
        """Join the parts.

        Args:
            backbone: A transformers model, or a PEFT model around one, adapted already.
            pooling: From tokens to a text.
            dense: Linear layers after pooling, each with its activation.
            normalize: Whether embeddings get length 1.
            autocast: Whether the backbone runs in mixed bfloat16.
            attention: Trained pooling, in place of ``pooling``.
        """
        super().__init__()
        self.backbone = backbone
        if attention is not None:
            self.set_attention(attention)
        self.pooling = pooling
        self.dense = nn.ModuleList(layer.linear for layer in dense)
        self.activations = nn.ModuleList(layer.activation for layer in dense)
        self.normalize = normalize
        self.autocast = autocast
        model = base_model(backbone)
        trained = [name for name, p in model.named_parameters() if p.requires_grad]
        # One row of positions per text, so that a position's gradient belongs to a row.
        positions = any("position_embeddings" in name for name in trained)
        self.positions = positions and has_plain_positions(model)
        self.num_frozen = num_frozen_layers(model) if trained else 0
        self.adds_mask = adds_mask(model)
        self.prefix = FrozenPrefix(model, self.num_frozen) if self.num_frozen else None
        if self.prefix is not None:
            # States may come from another encoder like this one, before this one made any.
            one = torch.ones((1, 1), dtype=torch.int64, device=next(model.parameters()).device)
            self.below(one, one)

    def forward(
        self,
        attention_mask: Tensor,
        input_ids: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """Embeddings (rows, dim) of right-padded rows.

        Args:
            attention_mask: Shape (rows, tokens), 1 for a token.
            input_ids: Shape (rows, tokens).
            hidden: Shape (rows, tokens, hidden size), in place of ids: see `below`.
        """
        states = self.states(attention_mask, input_ids, hidden)
        if self.attention is None:
            embeddings = pool(states, attention_mask, self.pooling)
        else:
            embeddings = self.attention(states, attention_mask)
        for linear, activation in zip(self.dense, self.activations, strict=True):
            embeddings = activation(linear(embeddings))
        return unit_length(embeddings) if self.normalize else embeddings

    @property
    def attention(self) -> AttentionPooling | None:
        """Trained pooling, in place of ``pooling``; None without."""
        return cast(AttentionPooling | None, self._modules.get("trained_pooling"))

    def set_attention(self, pooling: AttentionPooling) -> None:
        """Pool with trained weights; a module without them has no attribute, so that its identity is the same."""
        self.trained_pooling = pooling

    def states(
        self,
        attention_mask: Tensor,
        input_ids: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """Return the states (rows, tokens, hidden size) of the last layer, for the arguments of `forward`."""
        with self._mixed(attention_mask.device):
            if hidden is not None:
                assert self.prefix is not None
                with self.prefix.above(hidden):
                    # The ids are looked up and forgotten: the frozen layers answer for them.
                    out = self.backbone(
                        input_ids=torch.zeros_like(attention_mask),
                        attention_mask=self._mask(attention_mask),
                    )
            else:
                out = self.backbone(
                    input_ids=input_ids,
                    attention_mask=self._mask(attention_mask),
                    **self._positions(attention_mask),
                )
        states: Tensor = out.last_hidden_state
        return states

    def below(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """States (rows, tokens, hidden size) of the frozen layers, without gradients."""
        assert self.prefix is not None
        with self._mixed(attention_mask.device):
            return self.prefix.below(input_ids, attention_mask)

    def _mixed(self, device: torch.device) -> torch.autocast | nullcontext[None]:
        """Mixed precision, if asked for."""
        return torch.autocast(device.type, dtype=torch.bfloat16) if self.autocast else nullcontext()

    def _mask(self, mask: Tensor) -> Tensor:
        """Return the mask as the backbone takes it; what is added to scores is made here, on the device.

        Transformers would read the mask back to see whether it is needed, and build it from a
        number on the CPU: neither can be captured (`reldp.gradients.cuda_graphs`).
        """
        if not self.adds_mask:
            return mask
        dtype = next(self.backbone.parameters()).dtype
        return (1 - mask)[:, None, None, :].to(dtype) * torch.finfo(dtype).min  # (rows, 1, 1, T)

    def _positions(self, mask: Tensor) -> dict[str, Tensor]:
        """Explicit positions 0, 1, 2, ... (rows, tokens), where they are trained."""
        if not self.positions:
            return {}
        places = torch.arange(mask.shape[1], device=mask.device)
        return {"position_ids": places.expand(mask.shape[0], -1)}
