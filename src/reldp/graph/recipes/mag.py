"""Papers as entities, citations as relations: records of Microsoft Academic Graph and its successors, a paper per line.

A line is a JSON object with an id, a title, optionally an abstract, the ids of the references, and the authors with
their affiliations or countries. Several published spellings are known (:data:`FIELDS`): the JSON lines of the Open
Academic Graph and of AMiner's citation network, of MAPLE, and of OpenAlex. The text is the title and the first words of
the abstract. Directions are merged, and only citations between papers of the chosen countries count. The same files
give the same graph bit for bit.

Public: `mag`, `FIELDS`, `AUTHORS`. theory.md 2.2 states what preparing data means for the guarantee.

>>> paper({"id": 7, "title": "On lamps", "references": [5, "6"]}).related
('5', '6')
>>> abstract_text({"IndexLength": 2, "InvertedIndex": {"lamps": [1], "Bright": [0]}})
'Bright lamps'
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reldp._validate import check_choice, check_integer
from reldp.errors import GraphError, InputError
from reldp.graph.recipes.countries import country_words, paper_countries
from reldp.graph.recipes.gathering import Gathering, shortened
from reldp.graph.recipes.literals import MAX_LINE
from reldp.graph.recipes.prepared import PreparedGraph
from reldp.graph.recipes.record_lines import (
    RecordLines,
    TooManyIds,
    clean_text,
    record_id,
    record_ids,
)
from reldp.graph.record import GraphRecord
from reldp.graph.store.progress import Tick

__all__ = ["AUTHORS", "FIELDS", "Paper", "abstract_text", "mag", "paper"]

FIELDS: dict[str, tuple[str, ...]] = {
    "id": ("id", "paper", "paper_id", "_id"),
    "title": ("title", "display_name"),
    "abstract": ("abstract", "indexed_abstract", "abstract_inverted_index"),
    "references": ("references", "reference", "referenced_works"),
}
"""Names that each part of a record may have; the first that is there counts."""

AUTHORS = ("any", "all")
"""Whether one author of a country suffices, or every author with a known country must be of it."""

_MAX_INDEXED = 20_000  # of an abstract that is stored by the places of its words


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """One paper.

    Attributes:
        id: Its id.
        title: Its title, or "".
        abstract: Its abstract, or "".
        countries: Countries of each author with a known one.
        related: Ids of its references.
    """

    id: str
    title: str
    abstract: str
    countries: tuple[frozenset[str], ...]
    related: tuple[str, ...]


def paper(row: dict[str, Any]) -> Paper:
    """Return the paper of a record.

    Raises:
        ValueError: Its texts are not valid Unicode, or it has too many references.
    """
    return Paper(
        id=record_id(_part(row, "id")),
        title=clean_text(_part(row, "title")),
        abstract=clean_text(abstract_text(_part(row, "abstract"))),
        countries=tuple(frozenset(entry) for entry in paper_countries(row)),
        related=record_ids([_part(row, "references")]),
    )


def _part(row: dict[str, Any], name: str) -> Any:
    return next((row[field] for field in FIELDS[name] if row.get(field) is not None), None)


def abstract_text(value: object) -> object:
    """Return an abstract as text where it is stored by the places of its words; anything else as it is."""
    if not isinstance(value, dict):
        return value
    index = value.get("InvertedIndex", value)
    places = {
        place: word
        for word, entry in (index.items() if isinstance(index, dict) else ())
        for place in (entry if isinstance(entry, list) else ())
        if isinstance(place, int) and not isinstance(place, bool)
    }
    words, length = [], 0
    for place in sorted(places)[:_MAX_INDEXED]:
        words.append(str(places[place]))
        length += len(words[-1]) + 1
        if length > MAX_LINE:  # one long word at many places
            break
    return " ".join(words)


def _is_paper(row: dict[str, Any]) -> bool:
    return _part(row, "id") is not None and any(
        field in row for part in ("title", "references") for field in FIELDS[part]
    )


def mag(
    sources: Sequence[str | Path],
    *,
    countries: Sequence[str] = (),
    authors: str = "any",
    max_words: int = 70,
    license: str = "not stated",
    temp_dir: Path | None = None,
    report: Callable[[Tick], None] | None = None,
) -> PreparedGraph:
    """Make a graph from records of papers.

    Args:
        sources: JSON lines, plain or compressed; several files are one graph.
        countries: Only papers with authors of these countries; empty means every one. "USA" and "China" are known in
            their usual spellings and codes, any other country is taken as it is spelled in the files.
        authors: One of :data:`AUTHORS`. With "all", graphs of two countries share no paper.
        max_words: Maximum number of words taken from an abstract; 0 takes titles only.
        license: Under which terms the data may be used; the files do not say.
        temp_dir: Folder for temporary files, which are as sensitive as the data.
        report: Called with the progress.

    Returns:
        Entities (``id``, ``text``, ``domain``), relations, and the record of what was left out.

    Raises:
        GraphError: A file does not hold papers or is damaged, or no citation is left.
    """
    check_integer("max_words", max_words, error=InputError)
    check_choice("authors", authors, AUTHORS, error=InputError)
    wanted = list(dict.fromkeys(country_words(name) for name in countries))
    if not all(wanted):
        raise InputError("`country` must not be empty, got an empty one.")
    lines = RecordLines(
        sources,
        wanted="one paper per line, with id, title and references",
        is_record=_is_paper,
        report=report,
    )
    with Gathering(temp_dir, report) as gathering:
        drops = _gather(lines, gathering, wanted, authors, max_words)
        if wanted and not len(gathering):
            raise GraphError(
                f"`country` must name a country of the file's authors, got none of its {lines.num_lines:,} papers. "
                "Countries come from fields such as country or country_code, or from the end of an affiliation."
            )
        entities, citations = gathering.tables()
        drops += lines.drops + gathering.drops
    names = ", ".join(countries) or "all countries"
    record = GraphRecord(
        source=f"records of papers (MAG): {names}; citations",
        license=license,
        hashes=lines.hashes(),
        drops=dict(sorted(drops.items())),
        notes=(
            f"made by the recipe mag from {lines.num_lines:,} lines of {', '.join(p.name for p in lines.paths)}",
            f"an entity is a paper's id; its text is the title and up to {max_words} words of the abstract",
            f"papers with {authors} of their authors from {names}",
            "relations are citations between the entities of this graph only, directions merged",
        ),
    )
    return PreparedGraph(entities=entities, relations=citations, record=record)


def _gather(
    lines: RecordLines, gathering: Gathering, wanted: Sequence[str], authors: str, max_words: int
) -> Counter[str]:
    """Add the papers of the wanted countries; return what was left out."""
    drops: Counter[str] = Counter()
    for row in lines:
        try:
            entry = paper(row)
        except TooManyIds:
            drops["records_with_too_many_references"] += 1
            continue
        except ValueError:
            drops["records_with_broken_text"] += 1
            continue
        domain = _chosen(entry, wanted, authors)
        if domain is None:
            kind = "other_countries" if entry.countries else "unknown_countries"
            drops[f"records_of_{kind}"] += 1
            continue
        words = shortened(entry.abstract, max_words)
        gathering.add_titled(entry.id, entry.title, words, entry.related, domain)
    return drops


def _chosen(entry: Paper, wanted: Sequence[str], authors: str) -> str | None:
    """Return the country that a paper is of; "" if none was asked for, None if it is of none of the wanted."""
    if not wanted:
        return ""
    enough = any if authors == "any" else all
    mine = [name for name in wanted if any(name in one for one in entry.countries)]
    if not mine or not enough(one & set(wanted) for one in entry.countries):
        return None
    return mine[0]
