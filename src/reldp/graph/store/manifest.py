"""The manifest of a store: what it holds, and the hashes of all its blocks.

It is written last, into a folder that is then renamed: a folder without a manifest is no store. The hash of
the manifest is the store's build hash, which stands for all of its content. What it states must fit together:
a manifest that somebody edited is refused when it is read.

Public: `Manifest`, `MANIFEST`, `is_store`. Inside the package: `is_fingerprint`.

>>> is_store(Path("no such folder"))
False
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from reldp.errors import GraphError, RunError
from reldp.graph.record import GraphRecord
from reldp.graph.relation_types import declared_names
from reldp.graph.store.blocks import FileBlocks
from reldp.graph.store.entity_pass import ENTITIES, FEATURES
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES
from reldp.runs.plain_files import read_plain
from reldp.runs.strict_json import parse_json

__all__ = ["MANIFEST", "Manifest", "is_fingerprint", "is_store"]

MANIFEST = "store.json"
FORMAT = "reldp graph store 1"
_LARGEST = 10**9  # bytes


def is_store(path: Path) -> bool:
    """Return whether a folder is a graph store."""
    return (path / MANIFEST).is_file()


def is_fingerprint(value: object) -> bool:
    """Return whether a value is a SHA-256 in hexadecimal digits."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


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
            GraphError: It is damaged, or of another format, or states what does not fit together.
        """
        try:
            values = parse_json(read_plain(folder / MANIFEST, limit=_LARGEST), MANIFEST)
            known = values["format"] == FORMAT
            manifest = cls._from_values(values) if known else None
        except RunError as error:
            raise GraphError(str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise GraphError(
                f"{MANIFEST} must be the manifest of a store, got a damaged one. Build the store again."
            ) from None
        if manifest is None:
            raise GraphError(
                f"{MANIFEST} must have the format {FORMAT!r}, got another one. Build the store "
                "again with this version."
            )
        broken = [rule for rule, holds in manifest._rules().items() if not holds]
        if broken:
            raise GraphError(
                f"{MANIFEST} must {broken[0]}, got something else. Build the store again."
            )
        return manifest

    @classmethod
    def _from_values(cls, values: Any) -> "Manifest":
        """Return the manifest in parsed JSON; any of several errors means that there is none."""
        return cls(
            num_entities=_count(values["num_entities"]),
            num_relations=_count(values["num_relations"]),
            columns=_texts(values["columns"]),
            feature_size=_count(values["feature_size"]),
            type_names=_texts(values["type_names"]),
            fingerprint=_text(values["fingerprint"]),
            record=GraphRecord.from_json(json.dumps(values["record"])),
            files={str(k): FileBlocks.from_json(v) for k, v in values["files"].items()},
        )

    def _rules(self) -> dict[str, bool]:
        """Return what must hold of a store's manifest by itself, and whether it does."""
        columns, files, declared = set(self.columns), set(self.files), self.record.relation_types
        has_features = "features" in columns
        needed = {ENTITIES, RELATIONS, DEGREES} | ({FEATURES} if has_features else set())
        needed |= {TYPES} if self.type_names else set()
        # A graph whose relations have types may have none of them left, and then no type.
        optional = set() if self.num_relations else {TYPES}
        return {
            "count at least one entity": self.num_entities >= 1,
            "name each column once": len(columns) == len(self.columns),
            "name no column owner, which a store cannot have": not columns & {"owner"},
            "name the column protected in small letters": not any(
                _is_like(name, "protected") and "protected" not in columns for name in columns
            ),
            "name the column id, and text or features": "id" in columns
            and bool(columns & {"text", "features"}),
            "name the files of its columns, relations and types": needed <= files
            and files <= needed | optional,
            "state the length of its features": (self.feature_size > 0) == has_features,
            "name types in order, each once": _in_order(self.type_names),
            "name the types that its record declares": not declared
            or tuple(sorted(declared)) == self.type_names,
            "hold a fingerprint of 64 hexadecimal digits": is_fingerprint(self.fingerprint),
        }


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("count")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if type(values) is not list:
        raise ValueError("texts")
    return tuple(map(_text, values))


def _is_like(name: str, column: str) -> bool:
    """Return whether a column would be overlooked for the way it is written."""
    return name != column and name.strip().lower() == column


def _in_order(names: tuple[str, ...]) -> bool:
    """Return whether a graph may have types of these names."""
    try:
        return not names or names == declared_names(names)
    except GraphError:
        return False
