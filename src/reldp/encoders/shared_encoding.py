"""Embeddings computed by all processes that torchrun started, each of a part of the entities.

Every process gets all embeddings. Without torchrun, the encoder computes them alone. All processes must ask for the
same entities, since each waits for the parts of the others.

Public inside the package: `encode_together`.

>>> import numpy as np
>>> from reldp.encoders import FeatureEncoder
>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_lists(["a", "b"], [("a", "b")], features=np.eye(2, dtype=np.float32))
>>> encode_together(FeatureEncoder(2, dim=3), graph, np.arange(2)).shape
(2, 3)
"""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import nn

from reldp.encoders.sharding import is_sharded
from reldp.errors import InputError
from reldp.processes import join_processes

if TYPE_CHECKING:
    from reldp.graph import CappedGraph, EntityGraph

__all__ = ["encode_together"]


def encode_together(
    encoder: Any,
    graph: "EntityGraph | CappedGraph",
    entities: npt.NDArray[np.int64],
    *,
    batch_size: int | None = None,
) -> npt.NDArray[Any]:
    """Return the embeddings (entities, dim) of some entities.

    Args:
        encoder: The encoder, with the same weights in all processes.
        graph: The graph that holds the entities.
        entities: Their indices, the same in all processes.
        batch_size: Number of entities in a batch of the encoder.

    Raises:
        InputError: Processes ask for different entities.
    """
    processes = join_processes()
    if is_sharded(getattr(encoder, "module", nn.Identity())):
        raise InputError(
            "`encoder` must have whole weights to encode entities, got sharded ones, as during training with "
            "shard_weights. Evaluate after training."
        )
    if processes.is_alone:
        return encoder.encode_graph(graph, entities, batch_size=batch_size)  # type: ignore[no-any-return]
    asked = hashlib.sha256(np.ascontiguousarray(entities, np.int64).tobytes()).digest()
    if len({*processes.gather(asked, about="embeddings")}) > 1:
        raise InputError("`entities` must be the same in all processes, got different ones.")
    part = entities[processes.rank :: processes.size]
    with processes.reporting():
        vectors = (
            np.asarray(encoder.encode_graph(graph, part, batch_size=batch_size), np.float32)
            if len(part)
            else np.zeros((0, 0), np.float32)
        )
    parts = [
        np.frombuffer(data, np.float32)
        for data in processes.gather(vectors.tobytes(), about="embeddings")
    ]
    dim = len(parts[0]) // max(1, len(entities[:: processes.size]))
    joined = np.empty((len(entities), dim), np.float32)
    for rank, values in enumerate(parts):
        joined[rank :: processes.size] = values.reshape(-1, dim) if dim else 0.0
    return joined
