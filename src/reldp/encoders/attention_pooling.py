"""Attention pooling: a weighted mean over tokens whose weights are trained.

The weight of a token with the state h is exp(query . h), normalized over the tokens of its text, and an offset is
added to the mean. Both vectors start at zero, where it is mean pooling. So it has two numbers per dimension: noise
hides few numbers less than many, and a frozen model's states can be computed once.

Private to the package: `AttentionPooling`, `read_attention_pooling`, `write_attention_pooling`.

>>> pooling = AttentionPooling(1)
>>> hidden = torch.tensor([[[1.0], [3.0], [99.0]]])  # (rows 1, tokens 3, dim 1)
>>> pooling(hidden, torch.tensor([[1, 1, 0]])).tolist()
[[2.0]]
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from reldp._validate import shown
from reldp.encoders.folders import read_json, write_json
from reldp.encoders.model_files import check_weights_file
from reldp.encoders.soundness import refuse_non_finite
from reldp.errors import EncoderError

__all__ = ["AttentionPooling", "read_attention_pooling", "write_attention_pooling"]


class AttentionPooling(nn.Module):
    """From one vector per token to one vector per text, with trained weights of tokens."""

    def __init__(self, dim: int) -> None:
        """Start as mean pooling."""
        super().__init__()
        self.query = nn.Parameter(torch.zeros(dim))
        self.offset = nn.Parameter(torch.zeros(dim))

    def forward(self, hidden: Tensor, attention_mask: Tensor) -> Tensor:
        """Return vectors (rows, dim), float32 or better.

        Args:
            hidden: Shape (rows, tokens, dim).
            attention_mask: Shape (rows, tokens), 1 for a token and 0 for padding.
        """
        hidden = hidden if hidden.dtype == torch.float64 else hidden.float()
        scores = (hidden * self.query).sum(dim=-1)  # (rows, tokens)
        scores = scores.masked_fill(attention_mask == 0, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).unsqueeze(-1)  # (rows, tokens, 1)
        return (hidden * weights).sum(dim=-2) + self.offset


def write_attention_pooling(folder: Path, pooling: AttentionPooling) -> None:
    """Write settings and weights into a new folder."""
    from safetensors.torch import save_file

    write_json(folder / "config.json", {"dim": len(pooling.query)})
    weights = {name: value.detach().cpu().float() for name, value in pooling.state_dict().items()}
    save_file(weights, str(folder / "model.safetensors"))


def read_attention_pooling(folder: Path, dim: int) -> AttentionPooling:
    """Return the pooling that `write_attention_pooling` wrote, frozen.

    Args:
        folder: Its folder.
        dim: Hidden size of the model.

    Raises:
        EncoderError: The files are damaged, or made for another hidden size.
    """
    from safetensors.torch import load_file

    stated = read_json(folder / "config.json", "source").get("dim")
    weights = folder / "model.safetensors"
    if stated != dim or not weights.is_file():
        raise EncoderError(
            f"`source` must hold attention pooling for {dim} dimensions, got {shown(stated)} in {folder.name!r}."
        )
    check_weights_file(weights, is_small=True)
    values = load_file(weights)
    refuse_non_finite(values)
    pooling = AttentionPooling(dim)
    shapes = {name: value.shape for name, value in pooling.state_dict().items()}
    if {name: value.shape for name, value in values.items()} != shapes:
        raise EncoderError(
            f"`source` must hold a query and an offset of {dim} numbers, got others in {folder.name!r}."
        )
    pooling.load_state_dict(values)
    return pooling.requires_grad_(False)
