"""What a recipe made: tables, the record of their source, and the notice they must carry.

Guarantees: the record names files and never machine paths, and the folder that
:meth:`PreparedGraph.write` makes is complete only when the call returns (a folder that already
holds a graph is refused). Public: :class:`PreparedGraph`, :func:`check_new`, :func:`sha256_file`. theory.md 2.2
states what preparing data means for the guarantee.

>>> import pyarrow as pa
>>> entities = pa.table({"id": ["a", "b"], "text": ["one", "two"]})
>>> prepared = PreparedGraph.from_pairs(entities, [("a", "b")], GraphRecord(source="by hand"))
>>> prepared.graph().num_relations
1
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.record import GraphRecord

__all__ = ["NOTICE", "PreparedGraph", "check_new", "sha256_file"]

NOTICE = "NOTICE.txt"
"""File of a graph folder that holds the notice its license asks for."""


@dataclass(frozen=True, kw_only=True)
class PreparedGraph:
    """Tables that a recipe made, and their record.

    Attributes:
        entities: Arrow table with ``id``, ``text`` and, where the source has one, ``domain``.
        relations: Arrow table with ``source`` and ``target``: distinct unordered pairs.
        record: Where they came from and what was left out.
        notice: Text that the license wants kept with every copy; empty if none.
    """

    entities: Any = field(repr=False)
    relations: Any = field(repr=False)
    record: GraphRecord
    notice: str = field(default="", repr=False)

    @classmethod
    def from_pairs(
        cls,
        entities: Any,
        pairs: Sequence[tuple[str, str]],
        record: GraphRecord,
        notice: str = "",
    ) -> "PreparedGraph":
        """Put pairs of ids into the relations table."""
        relations = pa.table(
            {
                "source": pa.array([source for source, _ in pairs], pa.string()),
                "target": pa.array([target for _, target in pairs], pa.string()),
            }
        )
        return cls(entities=entities, relations=relations, record=record, notice=notice)

    def graph(self, *, show_ids: bool = False) -> EntityGraph:
        """Return the validated graph; errors show ids only where asked to."""
        return EntityGraph.from_arrow(
            self.entities, self.relations, record=self.record, show_ids=show_ids
        )

    def write(self, folder: str | Path, *, show_ids: bool = False) -> EntityGraph:
        """Write a graph folder with its record and notice; return the graph."""
        folder = Path(folder)
        check_new(folder)
        graph = self.graph(show_ids=show_ids)
        graph.write(folder)
        if self.notice:
            (folder / NOTICE).write_text(self.notice, encoding="utf-8")
        return graph


def check_new(folder: Path) -> None:
    """Refuse a folder that holds something.

    Raises:
        GraphError: It does, or it is no folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GraphError(f"`output` must be a new or empty folder, got {folder.name!r} in use.")


def sha256_file(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
