"""Countries of a paper's authors, as citation data give them: fields, codes, or the end of an affiliation.

A country is compared in a plain form, so that "USA", "U.S.A.", "us" and "United States of America" are one. The
two countries of the paper have their usual spellings here; any other country is taken as it is spelled.

Inside the package: `country_words`, `paper_countries`.

>>> country_words("P.R. China") == country_words("CHN") == country_words("cn")
True
>>> paper_countries({"authors": [{"name": "A. Bee", "org": "Lamp Institute, Springfield, IL, USA"}]})
[{'usa'}]
"""

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["country_words", "paper_countries"]

_SPELLINGS = {
    "usa": ("us", "u s", "u s a", "united states", "united states of america", "the united states"),
    "china": (
        "cn", "chn", "pr china", "p r china", "prc", "peoples republic of china", "people s republic of china",
        "the people s republic of china", "mainland china",
    ),
}  # fmt: skip
_PLAIN = {spelling: name for name, all_ in _SPELLINGS.items() for spelling in all_}
_NOT_A_LETTER = re.compile(r"[^\w]+|_")
# Where a record keeps its authors, and where an author or an institution keeps its country.
_AUTHORS = ("authors", "author", "authorships")
_COUNTRY = ("country", "countries", "country_code", "affiliation_country", "affiliation_countries")
_AFFILIATION = ("org", "orgs", "affiliation", "affiliations", "raw_affiliation_strings")
_PLACES = ("institution", "institutions", *_AFFILIATION)


def country_words(name: str) -> str:
    """Return a country in a form that does not depend on spelling; "" if there is nothing in it."""
    plain = " ".join(_NOT_A_LETTER.sub(" ", name.lower()).split())
    return _PLAIN.get(plain, plain)


def paper_countries(row: dict[str, Any]) -> list[set[str]]:
    """Return the countries of each author whose country is known; of the record itself if no author's is."""
    known = []
    for name in _AUTHORS:
        authors = row.get(name)
        for author in authors if isinstance(authors, list) else []:
            if isinstance(author, dict) and (countries := set(_countries(author))):
                known.append(countries)
    if known:
        return known
    venue = row.get("venue")
    stated = set(_countries(row)) or (set(_countries(venue)) if isinstance(venue, dict) else set())
    return [stated] if stated else []


def _countries(place: dict[str, Any]) -> Iterator[str]:
    """Countries that a record, an author or an institution states; else those at the end of its affiliations."""
    stated = [word for name in _COUNTRY for word in _texts(place.get(name))]
    for name in _PLACES:
        inner = place.get(name)
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, dict):
                stated += [word for key in _COUNTRY for word in _texts(item.get(key))]
    if stated:
        yield from filter(None, map(country_words, stated))
        return
    for name in _AFFILIATION:
        for affiliation in _texts(place.get(name)):
            last = re.split(r"[,;]", affiliation.rstrip(" .,;"))[-1]
            if word := country_words(last):
                yield word


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]
