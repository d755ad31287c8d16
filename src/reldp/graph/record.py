"""Where a graph comes from and what was left out of it on the way.

The record travels with the graph: into the folder it is written to (``record.json``) and through
splits and capping. Only its `provenance` (source, version, license) reaches a run's public files.
Everything else is sensitive: counts of dropped rows, notes that may quote sizes, and hashes of the
source's files are computed from private data without noise, and stay with the graph.

Public: `GraphRecord`, `PROVENANCE`.

>>> record = GraphRecord(source="a shop").with_drops({"self_relations": 2})
>>> record.with_drops({"self_relations": 1}).drops
{'self_relations': 3}
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from reldp._validate import is_integer, unique_names
from reldp.errors import GraphError

__all__ = ["PROVENANCE", "GraphRecord"]

PROVENANCE = ("source", "version", "license")
_LONGEST = 20_000  # characters of each of these
"""Fields of a record that may be published."""


@dataclass(frozen=True, kw_only=True)
class GraphRecord:
    """Provenance of a graph.

    Attributes:
        source: What the data is, in words; never a path on somebody's machine. Published with
            every run, like version and license: do not put a number of rows here.
        version: Version of the source.
        license: Under which terms the source may be used.
        hashes: sha256 of the source's files, by name; sensitive.
        drops: How many rows were left out on request, by kind; sensitive.
        notes: What else was done to the data, in order, one sentence each; sensitive.
        capped_at: The smallest degree bound that relations were dropped for, if any were.
        relation_types: Names of the relations' types if they were declared (`EntityGraph.with_types`).
    """

    source: str = ""
    version: str = ""
    license: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)
    drops: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    capped_at: int | None = None
    relation_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in PROVENANCE:
            value = getattr(self, name)
            _require(isinstance(value, str), name, "text", value)
            _require(
                len(value) <= _LONGEST, name, f"text of at most {_LONGEST:,} characters", value
            )
        _require(_is_mapping(self.hashes, str), "hashes", "text by file name", self.hashes)
        _require(_is_mapping(self.drops, int), "drops", "counts by kind", self.drops)
        _require(_is_texts(self.notes), "notes", "a tuple of sentences", self.notes)
        cap = self.capped_at
        valid = cap is None or (is_integer(cap) and cap >= 1)
        _require(valid, "capped_at", "a positive integer or None", cap)
        names = self.relation_types
        _require(_is_texts(names), "relation_types", "a tuple of texts", names)
        # Copies, so that a caller who keeps changing its dict cannot change the record.
        object.__setattr__(self, "hashes", dict(self.hashes))
        object.__setattr__(self, "drops", dict(self.drops))

    @property
    def provenance(self) -> dict[str, str]:
        """What a run publishes about the data's origin: nothing that is counted from the data."""
        return {name: getattr(self, name) for name in PROVENANCE}

    def with_drops(self, drops: Mapping[str, int]) -> "GraphRecord":
        """Return the record with these counts added; kinds with a count of zero are not mentioned."""
        total = dict(self.drops)
        for kind, count in drops.items():
            if count:
                total[kind] = total.get(kind, 0) + count
        return replace(self, drops=total)

    def with_note(self, note: str) -> "GraphRecord":
        """Return the record with one more sentence."""
        return replace(self, notes=(*self.notes, note))

    def with_cap(self, max_degree: int) -> "GraphRecord":
        """Return the record of a graph from which relations were dropped for a degree bound."""
        cap = max_degree if self.capped_at is None else min(self.capped_at, max_degree)
        return replace(self, capped_at=cap)

    def to_json(self) -> str:
        """Return the record as one JSON object; types are in it only where they were declared."""
        values = asdict(self)
        if not self.relation_types:
            del values["relation_types"]
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "GraphRecord":
        """Return the record that `to_json` wrote.

        Raises:
            GraphError: The text is not such a record.
        """
        try:
            values: Any = json.loads(text, object_pairs_hook=unique_names)
        except (ValueError, RecursionError) as error:
            where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
            raise GraphError(
                f"record.json must hold one JSON object, got damaged JSON{where}."
            ) from None
        if not isinstance(values, dict):
            raise GraphError(f"record.json must hold one JSON object, got {_kind(values)}.")
        names = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise GraphError(
                f"record.json must hold only {', '.join(sorted(names))}, got {len(unknown)} other "
                "names too."
            )
        for name in ("notes", "relation_types"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        return cls(**values)


def _is_texts(value: object) -> bool:
    """Whether value is a tuple of texts."""
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _is_mapping(value: object, kind: type) -> bool:
    """Whether value maps text to `kind` (an int being a count)."""
    if not isinstance(value, Mapping):
        return False
    return all(
        isinstance(key, str)
        and isinstance(item, kind)
        and not isinstance(item, bool)
        and not (isinstance(item, int) and item < 0)
        for key, item in value.items()
    )


def _require(valid: bool, name: str, rule: str, value: object) -> None:
    if not valid:
        raise GraphError(f"`{name}` of a graph's record must be {rule}, got {_kind(value)}.")


def _kind(value: object) -> str:
    """Return the kind of a value without quoting it: a wrong file may hold anything."""
    names = {str: "text", list: "a list", tuple: "a list", dict: "an object", int: "a number"}
    return names.get(type(value), type(value).__name__)
