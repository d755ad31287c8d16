"""Graphs and token tables as plain arrays: prepared where the graphs are, read where the GPU is.

`prepare` writes one ``.npz`` per graph (relations; relations kept at every degree bound) and one
per graph and encoder (token ids). `Inputs` reads them with numpy alone, so a machine without
pyarrow can train: what it gets is a real `CappedGraph`, whose bound is checked again.

Graphs are the bundled ones by name, or folders below a data folder by theirs.
"""

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reldp.errors import ConfigError
from reldp.graph import CappedGraph
from reldp.graph.capped import CappingReport

if TYPE_CHECKING:
    from reldp.encoders import TextEncoder
    from reldp.encoders.tokens import TokenTable
    from reldp.graph import EntityGraph

CAPPING_SEED = 0


@dataclass(frozen=True, kw_only=True)
class PlainGraph:
    """Entities and relations as numbers: what sampling and evaluation need of a graph."""

    num_entities: int
    relations: npt.NDArray[np.int64]
    protected: npt.NDArray[np.bool_] = field(repr=False)

    @cached_property
    def num_relations(self) -> int:
        """How many relations there are."""
        return len(self.relations)


def open_graph(name: str, data: Path | None) -> "EntityGraph":
    """A bundled graph, or a folder below the data folder."""
    from reldp.graph import EntityGraph, bundled

    if name in bundled.BUNDLED:
        return bundled.load(name)
    if data is None or not (data / name).is_dir():
        raise ConfigError(f"`graph` must be bundled or a folder of the data folder, got {name!r}.")
    return EntityGraph.read(data / name)


def prepare_graph(graph: "EntityGraph", name: str, folder: Path, max_degrees: set[int]) -> None:
    """Writes a graph's relations, and what is left of them at every bound; 0 means no bound.

    Bounds of a file that is there already are kept: other cells may need them.
    """
    max_degrees = max_degrees | _bounds(folder / f"{name}.npz")
    arrays: dict[str, Any] = {"relations": graph.relations.astype(np.int32)}
    reports = {}
    for bound in sorted(max_degrees - {0}):
        capped = graph.cap_degrees(bound, seed=CAPPING_SEED)
        arrays[f"capped-{bound}"] = capped.relations.astype(np.int32)
        reports[str(bound)] = asdict(capped.report)
    facts = {"num_entities": graph.num_entities, "reports": reports}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", facts=np.array(json.dumps(facts)), **arrays)


def _bounds(path: Path) -> set[int]:
    """The bounds that a graph was prepared at; none if it was not."""
    if not path.is_file():
        return set()
    with np.load(path, allow_pickle=False) as file:
        return {int(bound) for bound in json.loads(str(file["facts"]))["reports"]}


def prepare_tokens(
    graph: "EntityGraph", name: str, encoder: "TextEncoder", word: str, folder: Path
) -> None:
    """Writes the token table of a graph for an encoder at its maximum length."""
    table = encoder.table(graph)
    kind = np.uint16 if table.ids.max(initial=0) < 2**16 else np.int32
    np.savez_compressed(
        folder / tokens_file(name, word, encoder.max_length),
        ids=table.ids.astype(kind),
        lengths=table.lengths.astype(np.int16),
        pad_id=np.array(table.pad_id),
    )


def tokens_file(graph: str, encoder: str, max_length: int) -> str:
    """Name of the file with a graph's tokens."""
    return f"{graph}.{encoder}-{max_length}.npz"


class Inputs:
    """Prepared arrays of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @lru_cache(maxsize=16)  # noqa: B019 # one instance per process
    def _graph_file(self, name: str) -> dict[str, npt.NDArray[Any]]:
        path = self.folder / f"{name}.npz"
        if not path.is_file():
            raise ConfigError(f"`graph` must be prepared first, got {name!r}. Run prepare.")
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}

    def graph(self, name: str) -> PlainGraph:
        """All relations of a graph."""
        arrays = self._graph_file(name)
        count = int(json.loads(str(arrays["facts"]))["num_entities"])
        return PlainGraph(
            num_entities=count,
            relations=arrays["relations"].astype(np.int64),
            protected=np.ones(count, dtype=np.bool_),
        )

    def capped(self, name: str, max_degree: int) -> CappedGraph:
        """The graph at a bound; at 0, all of it with its own largest degree as a promise."""
        arrays, graph = self._graph_file(name), self.graph(name)
        if max_degree:
            if f"capped-{max_degree}" not in arrays:
                raise ConfigError(f"`max_degree` must be prepared first, got {max_degree}.")
            relations, bound = arrays[f"capped-{max_degree}"].astype(np.int64), "capped"
            report = json.loads(str(arrays["facts"]))["reports"][str(max_degree)]
        else:
            relations, bound = graph.relations, "promised"
            max_degree = int(np.bincount(relations.ravel()).max())
            count = len(relations)
            report = {
                "max_degree": max_degree,
                "num_protected": graph.num_entities,
                "num_relations_before": count,
                "num_relations": count,
                "num_over": 0,
                "largest_degree_before": max_degree,
            }
        return CappedGraph(
            graph=graph,  # type: ignore[arg-type] # its numbers are all that is asked of it
            relations=relations,
            max_degree=max_degree,
            degree_bound=bound,
            report=CappingReport(**report),
        )

    @lru_cache(maxsize=16)  # noqa: B019 # one instance per process
    def tokens(self, name: str, encoder: str, max_length: int) -> "TokenTable":
        """The token table of a graph."""
        from reldp.encoders.tokens import TokenTable

        path = self.folder / tokens_file(name, encoder, max_length)
        if not path.is_file():
            raise ConfigError(f"`tokens` must be prepared first, got none in {path.name}.")
        with np.load(path, allow_pickle=False) as file:
            lengths = file["lengths"].astype(np.int64)
            return TokenTable(
                ids=file["ids"].astype(np.int32),
                offsets=np.concatenate([[0], np.cumsum(lengths)]),
                pad_id=int(file["pad_id"]),
            )
