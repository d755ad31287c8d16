"""Graphs and model folders of the experiments, by name.

Graphs are the bundled ones, or folders below a data folder. `NAME-seen` and `NAME-unseen` are its two
parts for training and for evaluation: 80 and 20 % of the entities, without the relations between
the parts; entities of the same text are in one part. Encoders are folders below a model
folder (`benchmarks.experiments.encoders` makes two of them). MiniLM needs no folder.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from reldp import CappedGraph, EntityGraph
from reldp.errors import ConfigError
from reldp.graph import splits

CAPPING_SEED = 0
SPLIT_SEED = 0
SHARES = {"seen": 0.8, "unseen": 0.2}
_HUB_NAMES = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "bert-base": "google-bert/bert-base-uncased",
    "bert-large": "google-bert/bert-large-uncased",
    "llama-2-7b": "meta-llama/Llama-2-7b-hf",
}


class Inputs:
    """Graphs below a data folder and encoders below a model folder."""

    def __init__(self, data: Path | None = None, models: Path | None = None) -> None:
        self.data, self.models = data, models

    @lru_cache(maxsize=16)  # noqa: B019 # one instance per process
    def graph(self, name: str) -> EntityGraph:
        """Return a graph, or a part of one: a folder below the data folder, or a bundled one."""
        whole, _, part = name.rpartition("-")
        if part in SHARES:
            return self._parts(whole)[part]
        if self.data is not None and (self.data / name).is_dir():
            return EntityGraph.read(self.data / name)
        return EntityGraph.read(name)

    @lru_cache(maxsize=16)  # noqa: B019 # one instance per process
    def _parts(self, name: str) -> dict[str, EntityGraph]:
        return splits.split_entities(self.graph(name), SHARES, SPLIT_SEED, together="text")

    @lru_cache(maxsize=16)  # noqa: B019 # one instance per process
    def capped(self, name: str, max_degree: int) -> CappedGraph:
        """Return a graph with capped degrees; 0 keeps all relations, bounded by the largest degree."""
        graph = self.graph(name)
        if max_degree:
            return graph.cap_degrees(max_degree, seed=CAPPING_SEED)
        return graph.promise_degrees(int(np.bincount(graph.relations.ravel()).max()))

    def model(self, name: str) -> str | Path:
        """Return what `TextEncoder.load` takes for an encoder."""
        if self.models is not None and (self.models / name).is_dir():
            return self.models / name
        if name not in _HUB_NAMES:
            raise ConfigError(
                f"`encoder` must be a folder below --models, got {name!r}. See `encoders --help`."
            )
        return _HUB_NAMES[name]
