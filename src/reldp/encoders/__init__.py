"""Encoders of entities: text or dense features in, embeddings out.

    table = encoder.table(graph)                          # once per graph
    embeddings = encoder.embed(encoder.rows(table, ids))  # every step, with gradients

>>> FeatureEncoder(3).describe()["kind"]
'features'
"""

from reldp.encoders.encoder import Encoder
from reldp.encoders.features import FeatureEncoder
from reldp.encoders.text import TextEncoder
from reldp.encoders.token_rows import TokenRows

__all__ = ["Encoder", "FeatureEncoder", "TextEncoder", "TokenRows"]
