"""Text pairs of earlier systems (JSONL with ``q_text`` and ``k_text``) as a graph of entities.

PvGaLM, Patton and the reference code of the entity-level paper store one linked pair of texts per
line. A privacy guarantee speaks about entities, so the recipe must know which texts belong to the
same one: by ids where the lines have them, else **identical text is one entity**, and the record
says so. Then an entity whose text is spelled in two ways counts as two, and each is protected only
on its own: give ids where you have them.

Guarantees: directions are merged, repeated and self-pairs are counted in the record, a pair is
never dropped silently, and an id with two texts is refused unless the first is asked for. Public:
:func:`pairs`. theory.md 2.2 states what preparing data means for the guarantee.

>>> row = {"q_text": "tent", "k_text": "sleeping bag"}
>>> find_ids([row]) is None
True
>>> find_ids([{**row, "q_id": 7, "k_id": 9}])
('q_id', 'k_id')
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError, InputError
from reldp.graph.compression import open_unpacked
from reldp.graph.disclosure import SHOW_HINT
from reldp.graph.formats import BLOCK_BYTES
from reldp.graph.recipes.prepared import PreparedGraph, sha256_file
from reldp.graph.recipes.record_lines import check_file
from reldp.graph.record import GraphRecord

__all__ = ["ID_FIELDS", "find_ids", "pairs"]

ID_FIELDS = (("q_id", "k_id"), ("q_idx", "k_idx"), ("q_asin", "k_asin"), ("q_node", "k_node"))
"""Names of id fields that are recognized by default."""

_SNIFFED = 100  # lines looked at to find id fields


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of a plain or compressed file.

    Raises:
        GraphError: The file is damaged or no UTF-8, unpacks to too much, or has a line that is too long.
    """
    number = 0
    with open_unpacked(path) as stream:
        while block := stream.readline(BLOCK_BYTES + 1):
            if len(block) > BLOCK_BYTES:
                raise GraphError(
                    f"{path.name}, line {number + 1} must have at most {BLOCK_BYTES:,} bytes, got more."
                )
            for line in block.splitlines():  # a carriage return alone ends a line too
                number += 1
                try:
                    yield number, line.decode("utf-8")
                except UnicodeDecodeError:
                    raise GraphError(f"{path.name} must be UTF-8 text, got other bytes.") from None


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with the words that say where each stands; empty lines are passed over."""
    for number, line in _lines(path):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            raise GraphError(
                f"{where} must be one JSON object, got broken JSON ({reason})."
            ) from None
        if not isinstance(row, dict):
            raise GraphError(f"{where} must be one JSON object, got {type(row).__name__}.")
        yield where, row


def find_ids(rows: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """Return the names of the id fields that every row has, or None."""
    for query, key in ID_FIELDS:
        if rows and all(query in row and key in row for row in rows):
            return query, key
    return None


def _value(row: dict[str, Any], name: str, where: str, kinds: tuple[type, ...]) -> str:
    value = row.get(name)
    if not isinstance(value, kinds) or isinstance(value, bool) or not str(value).strip():
        words = "text" if kinds == (str,) else "text or an integer"
        got = "nothing" if value is None or value == "" else type(value).__name__
        raise GraphError(f"{where}: {name} must be {words}, got {got}.")
    try:
        str(value).encode("utf-8")
    except UnicodeEncodeError:
        raise GraphError(
            f"{where}: {name} must be valid Unicode, got half a character (a lone surrogate)."
        ) from None
    return str(value)


@dataclass
class _Gathered:
    """What the files held: texts by entity in order of appearance, and distinct unordered pairs."""

    texts: dict[str, str] = field(default_factory=dict)
    pairs: dict[tuple[str, str], None] = field(default_factory=dict)
    num_rows: int = 0
    num_self: int = 0
    num_repeated: int = 0
    conflicts: list[tuple[str, str]] = field(default_factory=list)

    def add(self, endpoints: tuple[str, str], texts: tuple[str, str], where: str) -> None:
        self.num_rows += 1
        for entity, text in zip(endpoints, texts, strict=True):
            if self.texts.setdefault(entity, text) != text:
                self.conflicts.append((where, entity))
        pair = (min(endpoints), max(endpoints))
        if endpoints[0] == endpoints[1]:
            self.num_self += 1
        elif pair in self.pairs:
            self.num_repeated += 1
        else:
            self.pairs[pair] = None


def _gather(paths: Sequence[Path], ids: tuple[str, str] | None, *, by_text: bool) -> _Gathered:
    gathered = _Gathered()
    for path in paths:
        for where, row in _rows(path):
            texts = (_value(row, "q_text", where, (str,)), _value(row, "k_text", where, (str,)))
            if ids is None:
                if not by_text:
                    _refuse_id(row, where)
                gathered.add(texts, texts, where)
                continue
            first, second = (_value(row, name, where, (str, int)) for name in ids)
            gathered.add((first, second), texts, where)
    return gathered


def _refuse_id(row: Mapping[str, Any], where: str) -> None:
    """Refuse an id where not all lines have ids: what an entity is, and who is protected, would not follow from it."""
    for name in (name for names in ID_FIELDS for name in names):
        if name in row:
            raise GraphError(
                f"{where} must have no {name}, since not all lines have ids of both sides, got one. Give every line "
                "ids and name them with --id-fields, or let equal texts be one entity with --by-text."
            )


def _ids_of(
    paths: Sequence[Path], id_fields: tuple[str, str] | None, by_text: bool
) -> tuple[str, str] | None:
    """Return the fields that identify an entity: as given, else recognized on the first lines, else none."""
    if by_text or id_fields is not None:
        return id_fields
    first: list[dict[str, Any]] = []
    for _, row in _rows(paths[0]):
        first.append(row)
        if len(first) == _SNIFFED:
            break
    return find_ids(first)


def pairs(
    sources: Sequence[str | Path],
    *,
    id_fields: tuple[str, str] | None = None,
    by_text: bool = False,
    keep_first_text: bool = False,
    license: str = "not stated",
    show_ids: bool = False,
) -> PreparedGraph:
    """Make a graph from files of text pairs.

    Args:
        sources: JSONL files, plain or compressed (gzip, bzip2, Zstandard); several files are one graph.
        id_fields: Names of the two fields that identify the entities; recognized
            (:data:`ID_FIELDS`) if not given.
        by_text: Let identical text be one entity even where ids are present.
        keep_first_text: Let an id that comes with several texts keep the first, counted in the
            record.
        license: Under which terms the data may be used; earlier systems' files do not say.
        show_ids: Whether errors may show ids; by default they give counts and lines only.

    Returns:
        Entities (``id``, ``text``), relations, and a record that says what an entity is.
    """
    paths = [Path(source) for source in sources]
    if not paths:
        raise InputError("`sources` must name at least one file, got none.")
    for path in paths:
        check_file(path)
    if by_text and id_fields is not None:
        raise InputError("`by_text` and `id_fields` exclude one another, got both.")
    ids = _ids_of(paths, id_fields, by_text)
    gathered = _gather(paths, ids, by_text=by_text)
    if gathered.conflicts and not keep_first_text:
        places = [f"{at}: {entity!r}" if show_ids else at for at, entity in gathered.conflicts[:3]]
        raise GraphError(
            f"The source must give every id one text, got {len(gathered.conflicts)} lines with "
            f"another, first in {', '.join(places)}. Use --keep-first-text to take the first."
            f"{'' if show_ids else ' ' + SHOW_HINT}"
        )
    if not gathered.pairs:
        raise GraphError("The source must hold at least one pair of two entities, got none.")
    return _prepared(gathered, ids, paths, license)


def _prepared(
    gathered: _Gathered, ids: tuple[str, str] | None, paths: Sequence[Path], license: str
) -> PreparedGraph:
    """Tables and record; without ids, entities are numbered in order of appearance."""
    linked = {end for pair in gathered.pairs for end in pair}
    names = [entity for entity in gathered.texts if entity in linked]
    new_id = {name: name if ids else str(number) for number, name in enumerate(names)}
    entities = pa.table(
        {
            "id": pa.array([new_id[name] for name in names], pa.string()),
            "text": pa.array([gathered.texts[name] for name in names], pa.string()),
        }
    )
    if ids:
        identity = f"an entity is what {ids[0]} and {ids[1]} name"
    else:
        identity = "the source has no ids: identical text is one entity, each spelling another"
    counts = {
        "self_relations": gathered.num_self,
        "duplicate_relations": gathered.num_repeated,
        "texts_after_the_first_of_an_id": len(gathered.conflicts),
    }
    record = GraphRecord(
        source="text pairs (q_text, k_text) from " + ", ".join(path.name for path in paths),
        license=license,
        hashes={path.name: sha256_file(path) for path in paths},
        drops={kind: count for kind, count in counts.items() if count},
        notes=(
            f"made by the recipe pairs from {gathered.num_rows} lines; directions are merged",
            identity,
        ),
    )
    relations = [(new_id[source], new_id[target]) for source, target in gathered.pairs]
    return PreparedGraph.from_pairs(entities, relations, record)
