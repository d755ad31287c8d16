"""InfoNCE of every relation of a tuple, where negatives are the endpoints of other relations (theory.md 2.6).

A tuple then holds several relations: the positive, and those that its negatives come from, two rows each.
Every one of them is compared with all pairs of entities from two different relations of the tuple, and the
loss is the sum over them: a function of the tuple alone. A masked relation (it shares an entity with another one of the
tuple) has no term, and a masked entity is compared with nothing.

Private to the package: `relations_loss`.

>>> import torch
>>> from reldp.losses.loss import LossBatch
>>> rows = torch.eye(2)[[0, 0, 1, 1]][None]  # two relations between equal embeddings, orthogonal to each other
>>> batch = LossBatch.of([[0, 0]], [[False, False]])
>>> relations_loss(rows, batch, score="cosine", temperature=1.0)  # 2 log(1 + 4 exp(0 - 1))
tensor([1.8097])
"""

import math

import torch
from torch import Tensor

from reldp.errors import ConfigError
from reldp.losses.loss import LossBatch, check_batch
from reldp.losses.unit_length import unit_length

__all__ = ["relations_loss"]


def relations_loss(
    embeddings: Tensor, batch: LossBatch, *, score: str, temperature: float
) -> Tensor:
    """Return the sum over the relations of each tuple, (tuples,).

    Args:
        embeddings: Both endpoints of each relation of each tuple, the positive first, (tuples, 2 + k, dim).
        batch: The mask of the tuples.
        score: ``"cosine"`` or ``"dot"``.
        temperature: Every score is divided by it.

    Raises:
        ConfigError: The number of negatives is odd.
    """
    check_batch(embeddings, batch)
    count = embeddings.shape[1]
    if count % 2:
        raise ConfigError(
            "`pairing` relations needs the endpoints of other relations as negatives, got an odd number of them, "
            f"{count - 2}. Use negatives='relations' in the plan, or another pairing."
        )
    rows = embeddings if embeddings.dtype == torch.float64 else embeddings.float()
    if score == "cosine":
        rows = unit_length(rows)
    hidden = torch.nn.functional.pad(batch.mask, (2, 0), value=False)  # (tuples, 2 + k)
    starts = torch.arange(0, count, 2, device=rows.device)
    positive = (rows[:, starts] * rows[:, starts + 1]).sum(
        dim=-1
    ) / temperature  # (tuples, relations)
    first, second = torch.triu_indices(count, count, offset=1, device=rows.device)
    within = (first // 2) == (second // 2)  # masked, not selected: a CUDA graph has fixed shapes
    compared = (rows @ rows.transpose(1, 2))[:, first, second] / temperature  # (tuples, pairs)
    compared = compared.masked_fill(hidden[:, first] | hidden[:, second] | within, -math.inf)
    shared = compared[:, None].expand(-1, len(starts), -1)
    scores = torch.cat([positive[:, :, None], shared], dim=2)
    terms = torch.logsumexp(scores, dim=2) - positive
    return terms.masked_fill(hidden[:, starts] | hidden[:, starts + 1], 0.0).sum(dim=1)
