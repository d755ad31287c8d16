"""The encoder with which the training step is audited: gradients as adversarial as the guarantee allows.

A guarantee holds for every encoder, so the auditor brings one whose gradients can be computed by hand. An entity i has
two public vectors a_i and c_i and the embedding ``s a_i + c_i``, where the scalar s is the sum of the outputs of one
linear layer whose weights are zero. With dot scores the score of i and j changes with s at the rate a_i.c_j + a_j.c_i,
and the hinge loss of a tuple at the sum of these rates over its negatives, less the rate of its positive. The
gradient of every tuple is this number times one fixed direction. `reldp.auditing.roles` chooses a and c.

Public to `reldp.auditing`: `ProbeEncoder`, `LOSS`, `NUM_WEIGHTS`, `probe_table`, `unit_gradients`.

>>> encoder = ProbeEncoder(1)
>>> rows = np.array([[2.0, 0, 1, 1], [0, 3.0, 1, 1]], dtype=np.float32)  # a, c and the layer's input
>>> encoder.encode(rows).tolist()  # with zero weights an embedding is c
[[0.0], [3.0]]
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp.encoders import FeatureEncoder
from reldp.encoders.features import FeatureTable
from reldp.losses import HingeLoss, LossBatch

__all__ = ["LOSS", "NUM_WEIGHTS", "ProbeEncoder", "probe_table", "unit_gradients"]

_INPUTS, _OUTPUTS = 2, 4
NUM_WEIGHTS = _INPUTS * _OUTPUTS
# A margin that no score reaches keeps the hinge linear: the loss is a sum of scores.
LOSS: Mapping[str, Any] = {
    "score": "dot",
    "temperature": 1.0,
    "margin": 1e7,
    "pairing": "one",
}


class ProbeModule(nn.Module):
    """Rows ``[a, c, input of the layer]`` in, embeddings ``s a + c`` out."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.probe = nn.Linear(_INPUTS, _OUTPUTS, bias=False)
        nn.init.zeros_(self.probe.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Embeddings (rows, dim) of rows (rows, 2 dim + inputs)."""
        moving, still, given = torch.split(features, [self.dim, self.dim, _INPUTS], dim=1)
        scale: Tensor = self.probe(given).sum(dim=1, keepdim=True)
        return scale * moving + still


class ProbeEncoder(FeatureEncoder):
    """A feature encoder with one linear layer, whose weights stay zero."""

    def __init__(self, dim: int) -> None:
        """Build the encoder for vectors a and c of this length."""
        super().__init__(2 * dim + _INPUTS, dim=dim, bias=False)
        self.module = ProbeModule(dim).eval()
        self.layers = [self.module.probe]


def probe_table(moving: npt.NDArray[np.float64], still: npt.NDArray[np.float64]) -> FeatureTable:
    """Return the table of entities with these vectors a and c, (entities, dim) each."""
    given = np.ones((len(moving), _INPUTS))
    rows = np.concatenate([moving, still, given], axis=1)
    return FeatureTable(features=np.ascontiguousarray(rows, dtype=np.float32))


def unit_gradients(
    table: FeatureTable,
    entities: npt.NDArray[np.int64],
    endpoints: npt.NDArray[np.int8],
    mask: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Unclipped gradient of each unit by plain autograd, one unit at a time, (units, weights).

    The reference for tests: it shares nothing with the gradient engine.
    """
    encoder = ProbeEncoder((table.features.shape[1] - _INPUTS) // 2)
    loss = HingeLoss(**LOSS)
    (weight,) = encoder.trainable().values()
    gradients = np.zeros((len(entities), NUM_WEIGHTS))
    for place in range(len(entities)):
        rows = encoder.embed(encoder.rows(table, entities[place]))[None]
        one = slice(place, place + 1)
        value = loss(rows, LossBatch.of(endpoints[one], mask[one]))
        (gradient,) = torch.autograd.grad(value.sum(), [weight])
        gradients[place] = gradient.reshape(-1).double().numpy()
    return gradients
