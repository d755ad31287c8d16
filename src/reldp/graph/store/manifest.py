"""The manifest of a store: what it holds, and the hashes of all its blocks.

It is written last, into a folder that is then renamed: a folder without a manifest is no store. The hash of
the manifest is the store's build hash, which stands for all of its content.

Public: `Manifest`, `MANIFEST`, `is_store`.

>>> is_store(Path("no such folder"))
False
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reldp.errors import GraphError, RunError
from reldp.graph.record import GraphRecord
from reldp.graph.store.blocks import FileBlocks
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["MANIFEST", "Manifest", "is_store"]

MANIFEST = "store.json"
FORMAT = "reldp graph store 1"
_LARGEST = 10**9  # bytes


def is_store(path: Path) -> bool:
    """Return whether a folder is a graph store."""
    return (path / MANIFEST).is_file()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a store holds; sensitive, because it counts.

    Attributes:
        num_entities: Number of entities.
        num_relations: Number of relations.
        columns: Names of the entities' columns.
        feature_size: Length of the feature vectors, 0 without features.
        type_names: Names of the relations' types; empty without types.
        fingerprint: The graph's, as `EntityGraph.fingerprint` is.
        record: Where the graph comes from and what was left out.
        files: Blocks of each file, by name.
    """

    num_entities: int
    num_relations: int
    columns: tuple[str, ...]
    feature_size: int
    type_names: tuple[str, ...]
    fingerprint: str
    record: GraphRecord = field(repr=False)
    files: dict[str, FileBlocks] = field(repr=False)

    def to_json(self) -> str:
        """Return the manifest as JSON, the same for the same content."""
        values = {
            "format": FORMAT,
            "num_entities": self.num_entities,
            "num_relations": self.num_relations,
            "columns": list(self.columns),
            "feature_size": self.feature_size,
            "type_names": list(self.type_names),
            "fingerprint": self.fingerprint,
            "record": json.loads(self.record.to_json()),
            "files": {name: blocks.to_json() for name, blocks in self.files.items()},
        }
        return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n"

    @cached_property
    def build_hash(self) -> str:
        """SHA-256 of the manifest, and through the hashes in it of the whole store; sensitive."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Return the manifest of a store.

        Raises:
            GraphError: It is damaged, or of another format.
        """
        try:
            values = parse_json(read_plain(folder / MANIFEST, limit=_LARGEST), MANIFEST)
            if values["format"] != FORMAT:
                raise GraphError(
                    f"{MANIFEST} must have the format {FORMAT!r}, got another one. Build the store "
                    "again with this version."
                )
            return cls(
                num_entities=_count(values["num_entities"]),
                num_relations=_count(values["num_relations"]),
                columns=tuple(map(str, values["columns"])),
                feature_size=_count(values["feature_size"]),
                type_names=tuple(map(str, values["type_names"])),
                fingerprint=str(values["fingerprint"]),
                record=GraphRecord.from_json(json.dumps(values["record"])),
                files={str(k): FileBlocks.from_json(v) for k, v in values["files"].items()},
            )
        except RunError as error:
            raise GraphError(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise GraphError(
                f"{MANIFEST} must be the manifest of a store, got a damaged one. Build the store again."
            ) from None


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("count")
    return value
