"""From one vector per token to one vector per text.

All rows are padded on the right, so the first token is at 0 and the last at its length minus one,
whatever side the tokenizer itself would pad. Sums are in float32, also for bfloat16 activations.

Public: `pool`.

>>> import torch
>>> hidden = torch.tensor([[[1.0], [3.0], [99.0]]])  # (rows 1, tokens 3, dim 1)
>>> pool(hidden, torch.tensor([[1, 1, 0]]), "mean")
tensor([[2.]])
"""

import torch
from torch import Tensor

from reldp._validate import POOLINGS, check_choice
from reldp.errors import EncoderError

__all__ = ["pool"]


def pool(hidden: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """One vector per row.

    Args:
        hidden: Shape (rows, tokens, dim).
        mask: Shape (rows, tokens), 1 for a token and 0 for padding, padding on the right.
        pooling: ``"mean"`` over tokens, ``"cls"`` (the first token) or ``"last"`` (the last token).

    Returns:
        Shape (rows, dim), float32 or better.
    """
    check_choice("pooling", pooling, POOLINGS, error=EncoderError)
    hidden = hidden if hidden.dtype == torch.float64 else hidden.float()
    if pooling == "mean":
        weights = mask.to(hidden.dtype).unsqueeze(-1)  # (rows, tokens, 1)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1)
    if pooling == "cls":
        return hidden[:, 0]
    last = mask.sum(dim=1).long() - 1  # (rows,)
    return hidden[torch.arange(len(hidden), device=hidden.device), last]
