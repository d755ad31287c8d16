"""Encoders of entities: text, dense features or a torch module in, embeddings out.

    table = encoder.table(graph)                          # once per graph
    embeddings = encoder.embed(encoder.rows(table, ids))  # every step, with gradients

`Encoder` is the protocol; `Column`, `Array` and `PerEntity` say what a `ModuleEncoder`'s module gets.

>>> FeatureEncoder(3).describe()["kind"]
'features'
"""

from reldp._optional import text_packages

with text_packages():
    from reldp.encoders.encoder import Encoder
    from reldp.encoders.features import FeatureEncoder
    from reldp.encoders.inputs import Array, Column, PerEntity
    from reldp.encoders.module import ModuleEncoder
    from reldp.encoders.text import TextEncoder
    from reldp.encoders.token_rows import TokenRows

__all__ = [
    "Array",
    "Column",
    "Encoder",
    "FeatureEncoder",
    "ModuleEncoder",
    "PerEntity",
    "TextEncoder",
    "TokenRows",
]
