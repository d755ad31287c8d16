"""Products of the public Amazon metadata as entities: relations are "also bought" and the like.

Two published forms are read, a product per line: that of 2014 (lines as Python prints them, or JSON; `related` with
lists by kind, `categories` as a list of paths) and that of 2018 (JSON; `also_buy` and `also_view`, `category` as one
path, `description` as a list). The text is the title and the first words of the description, without markup.
Directions are merged, and only relations between products of the chosen categories count. The same files give the same
graph bit for bit.

Public: `amazon`, `CATEGORIES`, `RELATIONS`. theory.md 2.2 states what preparing data means for the guarantee.

>>> category_words("sports") == category_words("Sports_and_Outdoors") == category_words("Sports & Outdoors")
True
>>> row = {"asin": "B0", "title": "Bell", "also_buy": ["B1"], "category": ["Sports &amp; Outdoors", "Cycling"]}
>>> domain_of(row, [category_words("sports")]), product(row).related
('Sports & Outdoors', ('B1',))
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from reldp._validate import check_choice, check_integer
from reldp.errors import GraphError, InputError
from reldp.graph.recipes.gathering import Gathering, shortened
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

__all__ = ["CATEGORIES", "RELATIONS", "Product", "amazon", "category_words", "domain_of", "product"]

CATEGORIES = {
    "sports": "Sports & Outdoors",
    "cloth": "Clothing, Shoes & Jewelry",
    "clothing": "Clothing, Shoes & Jewelry",
}
"""Short names of the paper's two domains."""

RELATIONS = {
    "also_buy": ("also_buy", "also_bought"),
    "also_bought": ("also_buy", "also_bought"),
    "also_view": ("also_view", "also_viewed"),
    "also_viewed": ("also_view", "also_viewed"),
    "bought_together": ("bought_together",),
    "buy_after_viewing": ("buy_after_viewing",),
}
"""Kinds of relations by either form's name, and the fields that hold them."""

_PAGE_CODE = "getTime"  # titles of 2018 that are a page's program have this word
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One product.

    Attributes:
        id: Its asin.
        title: Its title; empty if it has none that can be read.
        description: Its description, or "".
        related: Ids of related products.
    """

    id: str
    title: str
    description: str
    related: tuple[str, ...]


@lru_cache(maxsize=4096)
def category_words(name: str) -> tuple[str, ...]:
    """Return a category in a form that does not depend on spelling: its path as lists of plain words."""
    name = CATEGORIES.get(name.strip().lower(), name)
    parts = (html.unescape(part).lower().replace("&", " and ") for part in name.split(">"))
    return tuple(" ".join(_NOT_A_WORD.split(part)).strip() for part in parts)


def product(row: dict[str, Any], fields: Sequence[str] = RELATIONS["also_buy"]) -> Product:
    """Return the product of a record of either form.

    Raises:
        ValueError: Its texts are not valid Unicode, or it has too many related products.
    """
    title = clean_text(row.get("title"))
    description = row.get("description")
    if isinstance(description, list):
        description = " ".join(part for part in description if isinstance(part, str))
    return Product(
        id=record_id(row.get("asin")),
        title="" if _PAGE_CODE in title else title,
        description=clean_text(description),
        related=record_ids(_related(row, fields)),
    )


def _paths(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Category paths of a record: a list of them, a single one, or the name of the top alone."""
    value = row.get("categories", row.get("category"))
    lists = value if isinstance(value, list) else []
    paths = [item for item in lists if isinstance(item, list)] or [lists]
    if not any(paths):
        paths = [[row.get("main_cat")]]
    for path in paths:
        names = tuple(name for name in map(clean_text, path) if name)
        if names:
            yield names


def _related(row: dict[str, Any], fields: Sequence[str]) -> list[object]:
    """Return the lists of related products of a record of either form."""
    nested = row.get("related")
    places = (row, nested if isinstance(nested, dict) else {})
    return [place.get(field) for place in places for field in fields]


def domain_of(row: dict[str, Any], wanted: Sequence[tuple[str, ...]] = ()) -> str | None:
    """Return the top of a record's first category path that is wanted.

    Args:
        row: The record.
        wanted: Paths of :func:`category_words`; empty means every one.

    Returns:
        The name; "" if the record has no category and none is wanted, None if it has none that is wanted.
    """
    paths = list(_paths(row))
    if not wanted:
        return paths[0][0] if paths else ""
    for path in paths:
        words = tuple(category_words(name)[0] for name in path)
        if any(words[: len(part)] == part for part in wanted):
            return path[0]
    return None


def _is_product(row: dict[str, Any]) -> bool:
    return isinstance(row.get("asin"), str) and not {"reviewText", "reviewerID"} & row.keys()


def amazon(
    sources: Sequence[str | Path],
    *,
    categories: Sequence[str] = (),
    relations: Sequence[str] = ("also_buy",),
    max_words: int = 70,
    license: str = "not stated",
    temp_dir: Path | None = None,
    report: Callable[[Tick], None] | None = None,
) -> PreparedGraph:
    """Make a graph from product metadata.

    Args:
        sources: Files of the published forms, plain or compressed; several files are one graph.
        categories: Only products with a category path that starts so: a top category ("Sports & Outdoors", or a name of
            :data:`CATEGORIES`), or a path ("Sports & Outdoors > Cycling"); empty means every one.
        relations: Kinds of relations, of :data:`RELATIONS`.
        max_words: Maximum number of words taken from a description; 0 takes titles only.
        license: Under which terms the data may be used; the files do not say.
        temp_dir: Folder for temporary files, which are as sensitive as the data.
        report: Called with the progress.

    Returns:
        Entities (``id``, ``text``, ``domain``), relations, and the record of what was left out.

    Raises:
        GraphError: A file is no product metadata or damaged, or no relation is left.
    """
    check_integer("max_words", max_words, error=InputError)
    for kind in relations:
        check_choice("relation", kind, RELATIONS, error=InputError)
    fields = tuple(dict.fromkeys(name for kind in relations for name in RELATIONS[kind]))
    wanted = [category_words(name) for name in categories]
    if not fields or any(not part for path in wanted for part in path):
        raise InputError("`relation` and `category` must not be empty, got an empty one.")
    lines = RecordLines(
        sources,
        wanted="one product per line, with asin and title",
        is_record=_is_product,
        report=report,
    )
    forms: set[str] = set()
    with Gathering(temp_dir, report) as gathering:
        drops = _gather(lines, gathering, fields, wanted, max_words, forms)
        if categories and not len(gathering):
            raise GraphError(
                f"`category` must name a category of the file, got none of its {lines.num_lines:,} products. "
                "A top category is written as in the file, a lower one as a path such as 'Sports & Outdoors > Cycling'."
            )
        entities, pairs = gathering.tables()
        drops += lines.drops + gathering.drops
    names = ", ".join(dict.fromkeys(CATEGORIES.get(c.lower(), c) for c in categories))
    kinds = ", ".join(dict.fromkeys(RELATIONS[kind][0] for kind in relations))
    record = GraphRecord(
        source=f"Amazon product metadata: {names or 'all categories'}; {kinds}",
        license=license,
        hashes=lines.hashes(),
        drops=dict(sorted(drops.items())),
        notes=(
            f"made by the recipe amazon from {lines.num_lines:,} lines of {', '.join(p.name for p in lines.paths)}",
            # Not in `version`, which runs publish: a single product decides whether a form occurs.
            f"lines are in the form of {' and '.join(sorted(forms))}",
            f"an entity is an asin; its text is the title and up to {max_words} words of the description",
            f"relations are {kinds}, directions merged, between the entities of this graph only",
        ),
    )
    return PreparedGraph(entities=entities, relations=pairs, record=record)


def _gather(
    lines: RecordLines,
    gathering: Gathering,
    fields: Sequence[str],
    wanted: Sequence[tuple[str, ...]],
    max_words: int,
    forms: set[str],
) -> Counter[str]:
    """Add the products of the wanted categories; return what was left out."""
    drops: Counter[str] = Counter()
    for row in lines:
        forms.add("2014" if "related" in row or "categories" in row else "2018")
        try:
            domain = domain_of(row, wanted)
            if domain is None:
                drops["records_of_other_categories"] += 1
                continue
            entry = product(row, fields)
        except TooManyIds:
            drops["records_with_too_many_related_products"] += 1
            continue
        except ValueError:
            drops["records_with_broken_text"] += 1
            continue
        words = shortened(entry.description, max_words)
        gathering.add_titled(entry.id, entry.title, words, entry.related, domain)
    return drops
