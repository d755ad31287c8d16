"""Encoders of entities: text or dense features in, embeddings out; scores and losses on them.

    table = encoder.table(graph)                          # once per graph
    embeddings = encoder.embed(encoder.rows(table, ids))  # every step, with gradients
    losses = RelationLoss(loss="infonce")(units, ends, mask)

>>> FeatureEncoder(3).describe()["kind"]
'features'
"""

from reldp.encoders.encoder import Encoder
from reldp.encoders.features import FeatureEncoder
from reldp.encoders.losses import RelationLoss, unit_losses
from reldp.encoders.text import TextEncoder

__all__ = ["Encoder", "FeatureEncoder", "RelationLoss", "TextEncoder", "unit_losses"]
