r"""Builds a graph store from files of any size.

    ids of entities -> engine      columns of entities -> entities.arrow
    relations -> joined by the engine -> checked, merged -> relations.npy, degrees.npy, types.npy
    everything -> fingerprint, hashes of blocks -> store.json -> renamed into place

A build works in a hidden folder beside the store, `.NAME.partial`, which is renamed when it is complete and
on the disk. Whatever ends a build earlier leaves the previous store as it was; what an interrupted build left
behind is removed by the next one. The same source gives the same store, byte for byte.

Public: `build_store`.

>>> import tempfile
>>> from reldp import EntityGraph
>>> with tempfile.TemporaryDirectory() as folder:
...     _ = (Path(folder) / "entities.csv").write_text("id,text\na,x\nb,y\n")
...     _ = (Path(folder) / "relations.csv").write_text("source,target\na,b\n")
...     build_store(folder, Path(folder) / "store").num_relations
...     EntityGraph.read(Path(folder) / "store") == EntityGraph.read(folder)
1
True
"""

import dataclasses
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from reldp._real_path import real_path
from reldp._remove_tree import remove_tree
from reldp.errors import GraphError, RunError
from reldp.graph.budget_link import BUDGET_FILES, carry_budget, kept_budget, refuse_two_budgets
from reldp.graph.reading import read_record
from reldp.graph.relation_types import declared_names
from reldp.graph.size_store import RELEASE_FILES, kept_releases
from reldp.graph.sources import drop_kinds
from reldp.graph.store.blocks import hash_blocks
from reldp.graph.store.contents import trust
from reldp.graph.store.engine import opened
from reldp.graph.store.entity_pass import ENTITIES, FEATURES, write_entities
from reldp.graph.store.manifest import MANIFEST, Manifest, is_store
from reldp.graph.store.places import exclusive, put, settle
from reldp.graph.store.progress import Progress, Tick
from reldp.graph.store.relation_pass import DEGREES, RELATIONS, TYPES, write_relations
from reldp.graph.store.settings import BuildSettings
from reldp.graph.store.source_files import find_files
from reldp.graph.store.stored_graph import StoredGraph
from reldp.runs.durable import disk_errors, sync_folder, write_durably

__all__ = ["build_store"]

_FILES = (MANIFEST, ENTITIES, FEATURES, RELATIONS, TYPES, DEGREES)
_FOLDERS = ("capped", "names", "parts", "tokens")  # what is computed from a store
_SHOWN = 3


def build_store(
    source: str | PathLike[str],
    output: str | PathLike[str],
    *,
    entities: str | None = None,
    relations: str | None = None,
    drop: Iterable[str] = (),
    settings: BuildSettings | None = None,
    overwrite: bool = False,
    show_ids: bool = False,
    report: Callable[[Tick], None] | None = None,
) -> StoredGraph:
    """Build a graph store from a folder of files, larger than memory if need be.

    Args:
        source: Graph folder as `EntityGraph.read` takes it; `entities` and `relations` may also be
            folders of files there.
        output: Folder of the store.
        entities: Pattern of the entities' files, relative to the source.
        relations: Pattern of the relations' files, relative to the source.
        drop: Kinds of damage to drop and count instead of refusing (`sources.DROPPABLE`).
        settings: Memory, threads and the folder for temporary files.
        overwrite: Replace a store that is already there, once the new one is complete.
        show_ids: Whether errors may show ids; by default they give counts and places only.
        report: Called with the progress.

    Returns:
        The store, opened.

    Raises:
        GraphError: A file is missing or damaged, the tables do not form a graph, the output holds what is no part
            of a store, or the store cannot be written. The output is as it was before.
        ConfigError: Source and output have different budgets.
    """
    settings, kinds = settings or BuildSettings(), drop_kinds(drop)
    target = Path(output)
    try:
        with (
            disk_errors(target),
            _partial(Path(source), target, overwrite) as folder,
            _scratch(folder, settings) as scratch,
        ):
            _build(
                Path(source),
                (entities, relations),
                folder,
                scratch,
                kinds,
                settings,
                Progress(report),
                show_ids=show_ids,
            )
            _put(folder, target, Path(source))
    except RunError as error:
        raise GraphError(str(error)) from error
    return StoredGraph.open(target)


def _build(
    source: Path,
    patterns: tuple[str | None, str | None],
    folder: Path,
    scratch: Path,
    drop: frozenset[str],
    settings: BuildSettings,
    progress: Progress,
    *,
    show_ids: bool,
) -> None:
    """Write all files of a store and its manifest into a folder."""
    nodes, edges = (
        find_files(source, role, pattern=pattern, drop=drop, show_ids=show_ids, scratch=scratch)
        for role, pattern in zip(("entities", "relations"), patterns, strict=True)
    )
    record = read_record(source / "record.json")
    declared = record.relation_types
    if declared:
        declared = declared_names(declared, "relation_types")
    with opened(settings, scratch) as engine:
        entities = write_entities(nodes, folder, drop, engine, progress, show_ids=show_ids)
        relations = write_relations(
            edges,
            entities,
            folder,
            scratch,
            drop,
            engine,
            progress,
            declared=declared,
            memory_bytes=settings.memory_bytes // 4,
            show_ids=show_ids,
        )
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    with progress.phase("hashing", len(names), "files") as advance:
        files = {}
        for name in names:
            files[name] = hash_blocks(
                folder / name, entities.boundaries if name == ENTITIES else None
            )
            advance(1)
    manifest = Manifest(
        num_entities=entities.num_entities,
        num_relations=relations.num_relations,
        columns=entities.columns,
        feature_size=entities.feature_size,
        type_names=relations.type_names,
        fingerprint="",
        record=record.with_drops(entities.drops).with_drops(relations.drops),
        files=files,
    )
    with progress.phase("computing the fingerprint"):
        value = StoredGraph(folder, manifest).content_fingerprint()
        manifest = dataclasses.replace(manifest, fingerprint=value)
    trust(manifest)
    sync_folder(folder)
    write_durably(folder / MANIFEST, manifest.to_json().encode(), mode=0o600)


def _check_target(target: Path, overwrite: bool) -> None:
    """Refuse to write over anything but a store, and over that only on request and if nothing else is lost.

    Raises:
        GraphError: One of these.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise GraphError(f"A store must be written to a folder, got a file at {str(target)!r}.")
    if is_store(target):
        if not overwrite:
            raise GraphError(
                "The folder must not hold a store already, got one. Choose another folder or set "
                "`overwrite`."
            )
        foreign = sorted(path.name for path in target.iterdir() if not _is_of_store(path.name))
        if foreign:
            more = f" and {len(foreign) - _SHOWN:,} more" if len(foreign) > _SHOWN else ""
            raise GraphError(
                f"A store that is replaced must hold nothing else, got {', '.join(map(repr, foreign[:_SHOWN]))}{more}, "
                "which would be lost. Move it elsewhere first."
            )
    elif any(target.iterdir()):
        raise GraphError("The folder of a store must be new or empty, got other files in it.")


@contextmanager
def _partial(source: Path, target: Path, overwrite: bool) -> Iterator[Path]:
    """Make the folder of a build, and remove it if the build ends early; one build at a time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.parent / f".{target.name}.partial"
    try:
        with exclusive(target.parent / f".{target.name}.lock", wait=False):
            settle(target)
            _check_target(target, overwrite)
            refuse_two_budgets(source, target)
            remove_tree(folder)  # of a build that was interrupted
            folder.mkdir(mode=0o700)
            try:
                yield folder
            finally:
                remove_tree(folder)
    except BlockingIOError:
        raise GraphError(
            f"Another process must not build {target.name} at the same time, but one does. Wait for it."
        ) from None


@contextmanager
def _scratch(folder: Path, settings: BuildSettings) -> Iterator[Path]:
    """Make a folder for temporary files, which hold private data like the source."""
    place = folder / "scratch"
    if settings.temp_dir is not None:
        # One name per store, whose builder holds a lock: the next build removes what this one may leave.
        name = hashlib.sha256(os.fsencode(real_path(folder))).hexdigest()[:24]
        place = Path(settings.temp_dir) / f"reldp-build-{name}"
        remove_tree(place)
    place.mkdir(mode=0o700, parents=True)
    try:
        yield place
    finally:
        remove_tree(place)


def _is_of_store(name: str) -> bool:
    """Whether a store writes a file or folder of this name, or it is given to the new store."""
    preserved = (*BUDGET_FILES, *RELEASE_FILES)
    return name in (*_FILES, *_FOLDERS, *preserved) or name.startswith(f".{BUDGET_FILES[0]}.")


def _put(folder: Path, target: Path, source: Path) -> None:
    """Put a complete store into place; releases of private sizes and the budget stay with the graph.

    Without a budget of its own the store names that of its source.
    """
    remove_tree(folder / "scratch")
    with kept_releases(target, folder), kept_budget(target, folder):
        _check_target(target, overwrite=True)  # others may have come while it was built
        carry_budget(source, folder)
        put(folder, target)
