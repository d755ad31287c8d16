"""WordNet synsets as entities: text is ``words: gloss``, relations are WordNet's pointers.

Antonyms, derivational links and pertainyms are left out (:data:`LEFT_OUT`): they join single words
rather than meanings. Directions are merged, so hypernym and hyponym are one relation, and a synset
without any relation inside the chosen part is not an entity. Guarantees: ids are stable
(``n02084071`` is the noun at that offset of its file), rows are sorted by id, and the same source
gives the same graph bit for bit. Public: :func:`read_dict`, :func:`read_package`,
:func:`download_package`, :func:`wordnet`. theory.md 2.2 states what preparing data means
for the guarantee.

>>> line = "00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which exists"
>>> synset = parse_synset(line, part="noun")
>>> synset.id, synset.text, synset.pointers
('n00001740', 'entity: that which exists', (('~', 'n00001930'),))
"""

import hashlib
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from reldp._validate import check_choice
from reldp.errors import GraphError, InputError
from reldp.graph.recipes.deb import apt_get, read_deb, read_file
from reldp.graph.recipes.prepared import PreparedGraph
from reldp.graph.record import GraphRecord

__all__ = [
    "DOMAINS",
    "INSTALLED",
    "LEFT_OUT",
    "PARTS",
    "Synset",
    "WordNetSource",
    "download_package",
    "parse_synset",
    "read_dict",
    "read_package",
    "wordnet",
]

INSTALLED = Path("/usr/share/wordnet")
"""Where Debian's ``wordnet-base`` puts the dict folder."""

PARTS: dict[str, str] = {"noun": "n", "verb": "v", "adjective": "a", "adverb": "r"}
"""Parts of speech, and the letter that starts the ids of their synsets."""

LEFT_OUT: dict[str, str] = {
    "!": "antonyms",
    "+": "derivationally related forms",
    "\\": "pertainyms",
}
"""Pointer symbols that make no relation."""

# fmt: off
DOMAINS: tuple[str, ...] = (
    "adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact",
    "noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event",
    "noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object",
    "noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process",
    "noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time",
    "verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition",
    "verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion",
    "verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather", "adj.ppl",
)
# fmt: on
"""Names of the lexicographer files, in WordNet's numbering: the ``domain`` column."""

_FILES = {"noun": "data.noun", "verb": "data.verb", "adjective": "data.adj", "adverb": "data.adv"}
_MAX_WORDS = 4  # a text stays a text and not a thesaurus entry
_ADJECTIVE_MARKER = re.compile(r"\((?:a|p|ip)\)$")  # syntactic position, as in galore(ip)


@dataclass(frozen=True, slots=True)
class Synset:
    """One synset of a data file.

    Attributes:
        id: Part letter and offset, such as ``n02084071``.
        domain: Its lexicographer file, one of :data:`DOMAINS`.
        text: Up to four words and the gloss.
        pointers: Pairs of (symbol, id), in file order.
    """

    id: str
    domain: str
    text: str
    pointers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class WordNetSource:
    """The data files of a WordNet release and where they came from.

    Attributes:
        name: A name people know, such as ``Debian wordnet-base 1:3.0-37``.
        files: Contents by file name, such as ``data.noun``.
    """

    name: str
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def notice(self) -> str:
        """Princeton's license as the data file carries it; it must travel with every copy."""
        lines = []
        for line in _text(self, _first_file(self)).split("\n"):
            if not line.startswith("  "):
                break
            lines.append(re.sub(r"^  \d+ ", "", line).rstrip())
        return "\n".join(lines).strip() + "\n"

    @property
    def version(self) -> str:
        """The release that the license header names, such as ``3.0``."""
        match = re.search(r"WordNet (\d+(?:\.\d+)*) Copyright", self.notice)
        if match is None:
            raise GraphError(
                "`source` must start with Princeton's license, got a data file without it. "
                "The license allows redistribution only with the notice: use the original files."
            )
        return match.group(1)


def _first_file(source: WordNetSource) -> str:
    return next(name for name in _FILES.values() if name in source.files)


def _text(source: WordNetSource, name: str) -> str:
    try:
        return source.files[name].decode("utf-8")
    except UnicodeDecodeError as error:
        raise GraphError(
            f"`source` must be UTF-8 text, got other bytes at offset {error.start} of {name}."
        ) from None


def _checked(name: str, files: Mapping[str, bytes]) -> WordNetSource:
    if not files:
        wanted = ", ".join(_FILES.values())
        raise GraphError(f"`source` must hold WordNet data files ({wanted}), got none in {name}.")
    return WordNetSource(name=name, files=files)


def read_dict(folder: str | Path) -> WordNetSource:
    """Read a WordNet dict folder: the one with ``data.noun`` in it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise GraphError(
            f"`source` must be a folder or a .deb, got {folder.name!r}, which is neither."
        )
    files = {name: folder / name for name in _FILES.values()}
    contents = {name: read_file(path) for name, path in files.items() if path.is_file()}
    return _checked(f"WordNet dict folder {folder.name}", contents)


def read_package(path: str | Path) -> WordNetSource:
    """Read the data files from Debian's ``wordnet-base`` package; needs neither root nor dpkg."""
    path = Path(path)
    package = read_deb(path, prefix="usr/share/wordnet/data.")
    files = {name.rpartition("/")[2]: data for name, data in package.files.items()}
    version = package.control.get("Version", "of unknown version")
    label = f"Debian {package.control.get('Package', path.name)} {version}"
    return _checked(label, {name: files[name] for name in _FILES.values() if name in files})


def download_package() -> WordNetSource:
    """Fetch ``wordnet-base`` from the machine's Debian mirror and read it."""
    with tempfile.TemporaryDirectory() as folder:
        apt_get(["download", "wordnet-base"], Path(folder))
        packages = sorted(Path(folder).glob("*.deb"))
        if not packages:
            raise GraphError("`download` must bring the package wordnet-base, got no file.")
        return read_package(packages[0])


def parse_synset(line: str, part: str) -> Synset:
    """Parse one line of a data file (the format is wndb(5WN)).

    Raises:
        ValueError, IndexError: The line is not a synset; the caller knows its number.
    """
    head, bar, gloss = line.partition(" | ")
    if not bar:
        raise ValueError("no gloss")
    tokens = head.split()
    num_words = int(tokens[3], 16)
    words = [
        _ADJECTIVE_MARKER.sub("", word).replace("_", " ")
        for word in tokens[4 : 4 + 2 * num_words : 2]
    ]
    rest = tokens[4 + 2 * num_words :]
    num_pointers = int(rest[0])
    if len(rest) < 1 + 4 * num_pointers or not tokens[0].isdigit():
        raise ValueError("fewer pointers than announced")
    pointers = tuple(
        # A satellite adjective ("s") lives in the adjectives' file and shares their offsets.
        (rest[i], rest[i + 2].replace("s", "a") + rest[i + 1])
        for i in range(1, 1 + 4 * num_pointers, 4)
    )
    text = ", ".join(words[:_MAX_WORDS]) + ": " + gloss.strip()
    return Synset(PARTS[part] + tokens[0], DOMAINS[int(tokens[1])], text, pointers)


def _synsets(source: WordNetSource, part: str) -> Iterator[Synset]:
    name = _FILES[part]
    if name not in source.files:
        raise GraphError(f"`part` {part} needs the file {name}, got a source without it.")
    for number, line in enumerate(_text(source, name).split("\n"), start=1):
        if not line or line.startswith("  "):
            continue
        try:
            yield parse_synset(line, part)
        except (ValueError, IndexError, KeyError):
            raise GraphError(
                f"`source` must follow the WordNet data format, got another in {name}, "
                f"line {number}."
            ) from None


def _relations(synsets: Mapping[str, Synset]) -> list[tuple[str, str]]:
    """Distinct unordered pairs inside the chosen synsets, sorted."""
    pairs = {
        (min(synset.id, target), max(synset.id, target))
        for synset in synsets.values()
        for symbol, target in synset.pointers
        if symbol not in LEFT_OUT and target in synsets and target != synset.id
    }
    return sorted(pairs)


def _check_choices(name: str, chosen: Iterable[str], known: Collection[str]) -> None:
    for value in chosen:
        check_choice(name, value, known, error=InputError)


def wordnet(
    source: WordNetSource,
    *,
    parts: Collection[str] = ("noun",),
    domains: Collection[str] = (),
) -> PreparedGraph:
    """Make a graph of synsets.

    Args:
        source: From :func:`read_dict`, :func:`read_package` or :func:`download_package`.
        parts: Parts of speech to take, of :data:`PARTS`; relations across the chosen parts are
            kept.
        domains: Only these lexicographer files, of :data:`DOMAINS`; empty means every one.

    Returns:
        Entities (``id``, ``text``, ``domain``), relations, and the record of the source.
    """
    _check_choices("part", parts, PARTS)
    _check_choices("domain", domains, DOMAINS)
    chosen = [part for part in PARTS if part in parts]
    if not chosen:
        raise InputError("`part` must name at least one part of speech, got none.")
    synsets = {
        synset.id: synset
        for part in chosen
        for synset in _synsets(source, part)
        if not domains or synset.domain in domains
    }
    pairs = _relations(synsets)
    ids = sorted({end for pair in pairs for end in pair})
    if not ids:
        raise GraphError("`domain` must leave at least one relation, got a choice with none.")
    entities = pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "text": pa.array([synsets[i].text for i in ids], pa.string()),
            "domain": pa.array([synsets[i].domain for i in ids], pa.string()),
        }
    )
    record = GraphRecord(
        source=source.name,
        version=f"WordNet {source.version}",
        license="WordNet license (Princeton University); the notice must travel with every copy",
        hashes={
            _FILES[part]: hashlib.sha256(source.files[_FILES[part]]).hexdigest() for part in chosen
        },
        notes=_notes(chosen, domains, len(ids), len(synsets)),
    )
    return PreparedGraph.from_pairs(entities, pairs, record, notice=source.notice)


def _notes(
    parts: Sequence[str], domains: Collection[str], num_entities: int, num_synsets: int
) -> tuple[str, ...]:
    chosen = ", ".join(sorted(domains)) or "every domain"
    left_out = ", ".join(LEFT_OUT.values())
    unrelated = num_synsets - num_entities
    return (
        f"made by the recipe wordnet from {', '.join(parts)}, {chosen}",
        f"relations are WordNet's pointers, directions merged, without {left_out}",
        f"{unrelated:,} of {num_synsets:,} synsets have no relation in this choice: left out",
    )
