"""WordNet graphs that come with the package, loaded by name.

Nouns to train on, verbs to test on and adjectives to validate on: real texts, real relations, and a
real gain from private fine-tuning. They are what the recipe ``wordnet`` makes from WordNet 3.0,
before any capping, each with its record and Princeton's notice. Guarantees: the files are checked
against pinned sha256 sums before they are read, so a graph by this name is always the same graph.

Public: :data:`BUNDLED`, :func:`load`, :func:`open_graph`; :func:`remake` is for maintainers.
theory.md 5 quotes results on nouns and verbs.

>>> load("wordnet-verbs")
EntityGraph(13,639 entities, 15,145 relations, text)
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from os import PathLike
from pathlib import Path

from reldp._validate import check_choice
from reldp.errors import GraphError
from reldp.graph.entity_graph import EntityGraph
from reldp.graph.recipes.prepared import NOTICE, PreparedGraph, sha256_file
from reldp.graph.recipes.wordnet import WordNetSource, wordnet
from reldp.graph.sources import drop_kinds

__all__ = ["BUNDLED", "BundledGraph", "load", "notice", "open_graph", "remake"]


@dataclass(frozen=True, kw_only=True)
class BundledGraph:
    """A graph inside the package.

    Attributes:
        part: The part of speech it is made of.
        summary: What it is and what it is for, in one line.
        sha256: Hex digests of the tables, by file name.
    """

    part: str
    summary: str
    sha256: Mapping[str, str]


BUNDLED: dict[str, BundledGraph] = {
    "wordnet-nouns": BundledGraph(
        part="noun",
        summary="82,115 noun synsets of WordNet 3.0, for training",
        sha256={
            "entities.parquet": "79c6f67f71e03e4ad607536e0460b909c7ab60c504ea6f3d6498532db13a41b5",
            "relations.parquet": "951c3e49fc81c369e6f2a812eec55761ae09f2dfcc2cbf0cda45a5ddc7a37427",
        },
    ),
    "wordnet-verbs": BundledGraph(
        part="verb",
        summary="13,639 verb synsets of WordNet 3.0, for testing",
        sha256={
            "entities.parquet": "a552074c4c10b6c24a30cb68339c9eae5d0cda12bbec8ff7608e893ba80f113a",
            "relations.parquet": "40024bed0c2a0b1a73fcaf3ea31c5b4c28fe58f7fc86b1a2b0681316c9795aac",
        },
    ),
    "wordnet-adjectives": BundledGraph(
        part="adjective",
        summary="13,315 adjective synsets of WordNet 3.0, for validation",
        sha256={
            "entities.parquet": "39c001d0761660c781a0503705366cd6de25e64ad0c3bbe263c939748fba45d1",
            "relations.parquet": "3b157702483f2779ee66597a8e4861e5433e50d2ba529d9999ac487a4933d5f4",
        },
    ),
}
"""The graphs there are, by name."""


def _entry(name: str) -> BundledGraph:
    return BUNDLED[check_choice("name", name, BUNDLED, error=GraphError)]


def load(name: str) -> EntityGraph:
    """Return the bundled graph of that name.

    Raises:
        GraphError: There is none of that name, or the installed files are not the ones shipped.
    """
    expected = _entry(name).sha256
    with as_file(files("reldp.graph") / "data" / name) as folder:
        for file, digest in expected.items():
            if not (folder / file).is_file() or sha256_file(folder / file) != digest:
                raise GraphError(
                    f"`{name}` must be the graph that was shipped, got another {file}. "
                    "Reinstall reldp."
                )
        graph = EntityGraph.read(folder)
    return dataclasses.replace(graph, folder=None)  # nothing of a user's is stored in the package


def notice(name: str) -> str:
    """Return the license notice of a bundled graph; it must accompany every copy of the graph."""
    _entry(name)
    return (files("reldp.graph") / "data" / name / NOTICE).read_text(encoding="utf-8")


def open_graph(
    path_or_name: str | PathLike[str], *, drop: Iterable[str] = (), show_ids: bool = False
) -> EntityGraph:
    """Return a graph folder, or a bundled graph by its name; a folder that exists always wins.

    Args:
        path_or_name: Where it is, or what it is called.
        drop: Kinds of damage in a folder to drop and count, as in `EntityGraph.read`.
        show_ids: Whether errors may show ids, as in `EntityGraph.read`.

    Raises:
        GraphError: It is neither.
    """
    name, kinds = str(path_or_name), drop_kinds(drop)
    if not Path(path_or_name).exists():
        if name in BUNDLED:
            return load(name)
        raise GraphError(
            f"The graph must be a folder or one of {', '.join(BUNDLED)}, got {name!r}, "
            "which is neither."
        )
    return EntityGraph.read(path_or_name, drop=kinds, show_ids=show_ids)


def _write_compact(prepared: PreparedGraph, folder: Path) -> None:
    """Return the folder of a graph at the smallest size that Parquet readers still understand."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    tables = {"entities": prepared.entities, "relations": prepared.relations}
    encodings = {
        "entities": {"id": "DELTA_BYTE_ARRAY", "text": "DELTA_LENGTH_BYTE_ARRAY"},
        "relations": {"source": "DELTA_BYTE_ARRAY", "target": "DELTA_BYTE_ARRAY"},
    }
    for name, table in tables.items():
        pq.write_table(
            table,
            folder / f"{name}.parquet",
            compression="zstd",
            compression_level=22,
            use_dictionary=["domain"] if name == "entities" else False,
            column_encoding=encodings[name],
            data_page_size=1 << 26,  # one page per column: the compressor sees the whole of it
            write_statistics=False,
        )
    (folder / "record.json").write_text(prepared.record.to_json(), encoding="utf-8")
    (folder / NOTICE).write_text(prepared.notice, encoding="utf-8")


def remake(source: WordNetSource, folder: str | PathLike[str]) -> dict[str, dict[str, str]]:
    """Make the bundled folders anew from WordNet, for maintainers.

    Args:
        source: From the recipe ``wordnet``.
        folder: Where the folders of :data:`BUNDLED` go; none of them may exist.

    Returns:
        The sha256 sums to pin, by graph and file name.
    """
    sums: dict[str, dict[str, str]] = {}
    for name, entry in BUNDLED.items():
        place = Path(folder) / name
        _write_compact(wordnet(source, parts=[entry.part]), place)
        sums[name] = {
            file: hashlib.sha256((place / file).read_bytes()).hexdigest() for file in entry.sha256
        }
    return sums
