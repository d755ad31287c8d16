r"""Debian source packages as entities: texts are descriptions, relations are dependencies.

Binary packages are merged into their source package, so ``libfoo1`` and ``libfoo-dev`` are one
entity, described by the binary that stands for it (:func:`representative`). A relation joins two
sources when a binary of one names a binary of the other in Depends, Pre-Depends, Recommends,
Suggests or Enhances: the first alternative of each, and a virtual package where exactly one package
provides it. Packages with more than ``hub_degree`` relations (the C library says nothing about what
a program is for) are left out first, then whatever has no relation. Rows are sorted by id and the
same lists give the same graph bit for bit.

Public: :func:`read_lists`, :func:`download_lists`, :func:`debian`. theory.md 2.2 states
what preparing data means for the guarantee.

>>> describe("say hello\n Greets you, and\n .\n the world.", max_words=3)
'say hello. Greets you, and'
"""

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa

from reldp._validate import as_integer, check_choice, check_integer
from reldp.errors import GraphError, InputError
from reldp.graph.recipes.deb import apt_get, paragraphs, read_text
from reldp.graph.recipes.prepared import PreparedGraph, sha256_file
from reldp.graph.record import GraphRecord

__all__ = [
    "APT_LISTS",
    "Binary",
    "PackageLists",
    "debian",
    "describe",
    "download_lists",
    "read_lists",
    "representative",
]

APT_LISTS = Path("/var/lib/apt/lists")
"""Where apt keeps the package lists of a Debian or Ubuntu machine."""

FIELDS = ("Depends", "Pre-Depends", "Recommends", "Suggests", "Enhances")
"""Control fields that make relations."""

LICENSE = (
    "descriptions: the license of each package (its debian/copyright file); package lists: public"
)

_MAX_RELEASE = 1 << 24  # a release file lists a few thousand files, and its first lines are read
_AUXILIARY = ("-dev", "-doc", "-dbg", "-data", "-common", "-utils", "-examples", "-l10n")
_WORD = re.compile(r"\S+")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One binary package of a list.

    Attributes:
        name: Its name.
        source: The source package it is built from.
        section: Its archive section, such as ``perl``.
        description: Short description, then the long one if the lists have it, as in the control
            format.
        needs: Names it relates to: the first alternative of every clause of :data:`FIELDS`.
        provides: Virtual packages it provides.
    """

    name: str
    source: str
    section: str
    description: str
    needs: tuple[str, ...]
    provides: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PackageLists:
    """The binary packages that a machine's lists offer, and where the lists came from.

    Attributes:
        binaries: Distinct by name; the largest list is read first and wins.
        release: Words for people, such as ``Debian 12.15 bookworm``.
        hashes: Sha256 by list name, of the files as they lie on disk.
        num_described: How many binaries have a long description.
        num_repeated: How many entries of later lists were passed over as already known.
    """

    binaries: Sequence[Binary] = field(repr=False)
    release: str
    hashes: Mapping[str, str]
    num_described: int
    num_repeated: int


def _names(clauses: str) -> tuple[str, ...]:
    """First alternative of every clause, without version, architecture and duplicates."""
    matches = (_NAME.match(clause.strip()) for clause in clauses.split(","))
    return tuple(dict.fromkeys(match.group() for match in matches if match))


def _binary(fields: Mapping[str, str], description: str) -> Binary:
    clauses = ",".join(fields[name] for name in FIELDS if fields.get(name))
    return Binary(
        name=fields["Package"],
        source=fields.get("Source", fields["Package"]).partition(" ")[0],
        section=fields.get("Section", "").rpartition("/")[2],
        description=description,
        needs=_names(clauses),
        provides=_names(fields.get("Provides", "")),
    )


def _list_name(path: Path) -> str:
    """Return the part of an apt list's name that names the archive and not the mirror."""
    _, cut, rest = path.name.partition("_dists_")
    return rest if cut else path.name


def _plain_name(path: Path) -> str:
    return re.sub(r"\.(gz|xz|bz2|lz4|zst)$", "", path.name)


def _release(folder: Path) -> str:
    """Origin, version and codename of the largest release file, as that file says them."""
    releases = [path for path in folder.iterdir() if _plain_name(path).endswith("Release")]
    if not releases:
        return "a Debian archive of unknown release"
    for path in releases:
        if not path.is_file():
            raise GraphError(
                f"`source` must hold release files that are regular files, got {path.name}, which is not one."
            )
    largest = max(releases, key=lambda path: (path.stat().st_size, path.name))
    text = read_text(largest, limit=_MAX_RELEASE)
    fields: dict[str, str] = {}
    for line in text.split("\n")[:30]:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name, value.strip())
    words = [fields.get(name, "") for name in ("Origin", "Version", "Codename")]
    return " ".join(word for word in words if word) or "a Debian archive of unknown release"


def _translations(paths: Sequence[Path]) -> dict[str, str]:
    """Long English descriptions by package name; the first list that has one wins."""
    descriptions: dict[str, str] = {}
    for path in paths:
        for fields in paragraphs(read_text(path)):
            if "Package" in fields and "Description-en" in fields:
                descriptions.setdefault(fields["Package"], fields["Description-en"])
    return descriptions


def _by_size(folder: Path, ending: str) -> list[Path]:
    paths = [path for path in folder.iterdir() if path.is_file()]
    paths = [path for path in paths if _plain_name(path).endswith(ending)]
    return sorted(paths, key=lambda path: (-path.stat().st_size, path.name))


def read_lists(folder: str | Path = APT_LISTS) -> PackageLists:
    """Read the package lists of a folder, by default those of this machine.

    Args:
        folder: Holds apt's ``*_Packages`` and, for long descriptions, ``*_Translation-en``; any
            compression.

    Raises:
        GraphError: There is no package list, or one is damaged.
    """
    folder = Path(folder)
    packages = _by_size(folder, "Packages") if folder.is_dir() else []
    if not packages:
        raise GraphError(
            f"`source` must hold apt package lists, got none in {folder.name!r}. "
            "Run apt-get update first, or use --download."
        )
    translations = _by_size(folder, "Translation-en")
    long_texts = _translations(translations)
    binaries: dict[str, Binary] = {}
    repeated = described = 0
    for fields in _entries(packages):
        if fields["Package"] in binaries:
            repeated += 1
            continue
        text = long_texts.get(fields["Package"], fields.get("Description", ""))
        described += "\n" in text
        binaries[fields["Package"]] = _binary(fields, text)
    return PackageLists(
        binaries=tuple(binaries.values()),
        release=_release(folder),
        hashes={_list_name(path): sha256_file(path) for path in (*packages, *translations)},
        num_described=described,
        num_repeated=repeated,
    )


def _entries(packages: Sequence[Path]) -> Iterator[dict[str, str]]:
    for path in packages:
        for fields in paragraphs(read_text(path)):
            if "Package" in fields:
                yield fields


def download_lists() -> PackageLists:
    """Fetch the lists of the machine's mirrors, with long descriptions, and read them.

    They go to a temporary folder; the machine's own lists are not touched; root is not needed.
    """
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder) / "lists"
        (lists / "partial").mkdir(parents=True)
        (Path(folder) / "cache" / "archives" / "partial").mkdir(parents=True)
        options = (
            f"Dir::State::Lists={lists}",
            f"Dir::Cache={folder}/cache",
            "Acquire::Languages=en",
        )
        apt_get([*(f"--option={option}" for option in options), "update"], Path(folder))
        return read_lists(lists)


def describe(description: str, max_words: int) -> str:
    """One line of text: the short description, and the first words of the long one."""
    short, _, long = description.partition("\n")
    lines = (line for line in long.split("\n") if line != " .")  # a lone full stop is an empty line
    # Word by word: a description of someone's list may have millions.
    words = [m.group() for m in islice(_WORD.finditer(" ".join(lines)), max_words)]
    return " ".join(f"{short}. {' '.join(words)}".split()) if words else " ".join(short.split())


def representative(source: str, binaries: Sequence[Binary]) -> Binary:
    """Return the binary that describes a source: of its name, else of the shortest main name."""
    for binary in binaries:
        if binary.name == source:
            return binary
    main = [binary for binary in binaries if not binary.name.endswith(_AUXILIARY)]
    return min(main or binaries, key=lambda binary: (len(binary.name), binary.name))


def _pairs(binaries: Sequence[Binary]) -> set[tuple[str, str]]:
    """Unordered pairs of sources that depend on one another."""
    source_of = {binary.name: binary.source for binary in binaries}
    providers: dict[str, list[str]] = defaultdict(list)
    for binary in binaries:
        for name in binary.provides:
            providers[name].append(binary.source)
    for name, sources in providers.items():
        if len(sources) == 1:
            source_of.setdefault(name, sources[0])
    return {
        (min(binary.source, source_of[name]), max(binary.source, source_of[name]))
        for binary in binaries
        for name in binary.needs
        if name in source_of and source_of[name] != binary.source
    }


def _hubs(pairs: set[tuple[str, str]], hub_degree: int | None) -> set[str]:
    """Return sources with more relations than ``hub_degree`` in the whole graph."""
    if hub_degree is None:
        return set()
    degree = Counter(end for pair in pairs for end in pair)
    return {name for name, count in degree.items() if count > hub_degree}


def debian(
    lists: PackageLists,
    *,
    hub_degree: int | None = 300,
    max_words: int = 70,
    domains: Collection[str] = (),
) -> PreparedGraph:
    """Make a graph of source packages.

    Args:
        lists: From :func:`read_lists` or :func:`download_lists`.
        hub_degree: Packages with more relations than this are left out; None keeps all.
        max_words: Words of the long description that a text keeps.
        domains: Only sources whose describing binary is in these archive sections; empty means
            every one.

    Returns:
        Entities (``id``, ``text``, ``domain``: the archive section), relations, and the record of
        the source.
    """
    if hub_degree is not None:
        check_integer("hub_degree", as_integer(hub_degree), low=1, error=InputError)
    check_integer("max_words", as_integer(max_words), error=InputError)
    face = _faces(lists.binaries)
    _check_domains(domains, face)
    all_pairs = _pairs(lists.binaries)
    hubs = _hubs(all_pairs, hub_degree)
    chosen = {source for source in face if not domains or face[source].section in domains}
    open_to = chosen - hubs
    pairs = {pair for pair in all_pairs if open_to.issuperset(pair)}
    related = {source for pair in pairs for source in pair}
    texts = {source: describe(face[source].description, max_words) for source in related}
    # A package without any description has no text to learn from.
    selected = sorted(pair for pair in pairs if all(texts[end] for end in pair))
    ids = sorted({end for pair in selected for end in pair})
    if not ids:
        raise GraphError("`source` must leave at least one relation, got a choice with none.")
    sections = [face[i].section for i in ids]
    columns = {"id": ids, "text": [texts[i] for i in ids], "domain": sections}
    entities = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    drops = {
        "packages_of_other_sections": len(face) - len(chosen),
        "hub_packages": len(chosen & hubs),
        "packages_without_relation": len(open_to) - len(ids),
        "relations_without_text": len(pairs) - len(selected),
    }
    notes = _notes(lists, hub_degree, max_words, domains)
    return PreparedGraph.from_pairs(entities, selected, _record(lists, drops, notes))


def _faces(binaries: Sequence[Binary]) -> dict[str, Binary]:
    """Return the binary that describes each source."""
    built: dict[str, list[Binary]] = defaultdict(list)
    for binary in binaries:
        built[binary.source].append(binary)
    return {source: representative(source, group) for source, group in built.items()}


def _record(lists: PackageLists, drops: Mapping[str, int], notes: tuple[str, ...]) -> GraphRecord:
    record = GraphRecord(
        source="Debian package lists, binaries merged into their source packages",
        version=lists.release,
        license=LICENSE,
        hashes=lists.hashes,
        notes=notes,
    )
    return record.with_drops(drops)


def _check_domains(domains: Collection[str], face: Mapping[str, Binary]) -> None:
    known = sorted({binary.section for binary in face.values()})
    for domain in domains:
        check_choice("domain", domain, known, error=InputError)


def _notes(
    lists: PackageLists, hub_degree: int | None, max_words: int, domains: Collection[str]
) -> tuple[str, ...]:
    chosen = " and ".join(sorted(domains)) or "every archive section"
    hubs = f"without packages of more than {hub_degree} relations" if hub_degree else "hubs kept"
    described = lists.num_described
    return (
        f"made by the recipe debian from {chosen}, {hubs}",
        f"relations are {', '.join(FIELDS)}: first alternatives; virtual packages of one provider",
        f"texts are the short description and {max_words} words of the long one; {described:,} of "
        f"{len(lists.binaries):,} binary packages have a long one",
        f"{lists.num_repeated:,} entries of further lists repeat a package and were passed over",
    )
