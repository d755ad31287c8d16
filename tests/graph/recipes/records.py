"""Files in the published forms of product metadata and of paper records; every product and paper is invented."""

import gzip
import json
from pathlib import Path

# Lines of 2014, as Python printed them: single quotes, double ones around an apostrophe, escapes, no order of keys.
PRODUCTS_2014 = (
    "{'asin': 'B00LAMP001', 'title': \"Rider's Front Lamp\", 'price': 19.95, 'imUrl': 'http://img.example/1.jpg', "
    "'related': {'also_bought': ['B00BELL002', 'B00TENT003', 'B00GONE999'], 'also_viewed': ['B00TENT003'], "
    "'bought_together': ['B00BELL002']}, 'salesRank': {'Sports & Outdoors': 1200}, "
    "'categories': [['Sports & Outdoors', 'Cycling', 'Lights']]}",
    "{'asin': 'B00BELL002', 'description': 'A loud bell.\\nFits 22 mm bars &amp; <b>forks</b>.', "
    "'title': 'Brass Bell', 'related': {'also_bought': ['B00LAMP001', 'B00BELL002'], "
    "'buy_after_viewing': ['B00TENT003']}, 'categories': [['Sports & Outdoors', 'Cycling']]}",
    "{'asin': 'B00TENT003', 'title': 'Tent for Two', 'related': {'also_viewed': ['B00LAMP001']}, "
    "'categories': [['Home'], ['Sports & Outdoors', 'Camping']]}",
    "{'asin': 'B00SOCK004', 'title': 'Caf\\xe9 Socks', 'related': {'also_bought': ['B00HATS005', 'B00BELL002']}, "
    "'categories': [['Clothing, Shoes & Jewelry', 'Women'], ['Sports & Outdoors', 'Running']]}",
    "{'asin': 'B00HATS005', 'title': 'Straw Hat', 'related': {'also_bought': ['B00SOCK004']}, "
    "'categories': [['Clothing, Shoes & Jewelry', 'Men']]}",
    "{'asin': 'B00NAME006', 'related': {'also_bought': ['B00LAMP001']}, 'categories': [['Sports & Outdoors']]}",
    "{'asin': 'B00LAMP001', 'title': 'The same id again', 'categories': [['Sports & Outdoors']]}",
)

PRODUCTS_2018 = (
    {
        "category": ["Sports &amp; Outdoors", "Sports &amp; Fitness", "Racquet Sports"],
        "tech1": "", "description": ["A light racquet.", "Strung by hand.", ""], "fit": "", "title": "Racquet 27",
        "also_buy": ["C00BALL002", "C00GRIP003"], "tech2": "", "brand": "Acme", "feature": ["27 inches"],
        "rank": ["1,234 in Sports"], "also_view": ["C00BALL002"], "main_cat": "Sports & Outdoors",
        "date": "", "price": "$39.00", "asin": "C00RACK001", "imageURL": [],
    },
    {
        "category": ["Sports & Outdoors"], "description": ["Three balls."], "title": "Tennis Balls",
        "also_buy": ["C00RACK001"], "also_view": [], "main_cat": "Sports & Outdoors", "asin": "C00BALL002",
    },
    {
        "category": [], "description": [], "title": "Grip Tape", "also_buy": ["C00RACK001"],
        "also_view": ["C00BALL002"], "main_cat": "Sports & Outdoors", "asin": "C00GRIP003",
    },
    {"category": ["Sports & Outdoors"], "title": "var aPageStart = (new Date()).getTime();", "asin": "C00CODE004"},
    {
        "category": ["Books", "Sports & Outdoors"], "title": "A Book on Tennis", "also_buy": ["C00RACK001"],
        "asin": "0000000005",
    },
)  # fmt: skip

PAPERS = (
    {  # as of the Open Academic Graph
        "id": "p1", "title": "On lamps", "abstract": "Lamps are bright.", "references": ["p2", "p3", "p9"],
        "authors": [{"name": "A. Bee", "org": "Lamp Institute, Springfield, IL, USA"}], "venue": "Lamps", "year": 2011,
    },
    {  # as of AMiner's citation network
        "id": "p2", "title": "Wicks revisited", "references": ["p1"],
        "indexed_abstract": {"IndexLength": 2, "InvertedIndex": {"wick": [1], "The": [0]}},
        "authors": [
            {"name": "C. Dee", "org": "Institute of Oil, Wuhan, P.R. China."},
            {"name": "E. Eff", "org": "Lamp Institute, United States"},
        ],
    },
    {  # as of MAPLE, with countries beside it
        "paper": "p3", "title": "Flames", "reference": ["p1", "p3"], "country": "USA", "venue": "Fire",
        "author": ["77"],
    },
    {  # as of OpenAlex
        "id": "p4", "display_name": "Glass", "abstract_inverted_index": {"Clear": [0]},
        "referenced_works": ["p2", "p5"],
        "authorships": [{"institutions": [{"country_code": "CN"}], "countries": ["CN"]}],
    },
    {"id": "p5", "title": "Oil", "references": ["p4", "p2"], "authors": [{"org": "Dept. of Oils, Tsingdao, China"}]},
    {"id": "p6", "title": "Nowhere", "references": ["p1"], "authors": [{"name": "No Org"}]},
)  # fmt: skip


def write_2014(path: Path, *more: str) -> Path:
    data = "".join(line + "\n" for line in (*PRODUCTS_2014, *more)).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_lines(path: Path, *rows: object) -> Path:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def pairs_of(prepared) -> list[tuple[str, str]]:
    columns = prepared.relations.to_pydict()
    return list(zip(columns["source"], columns["target"], strict=True))


def texts_of(prepared) -> dict[str, str]:
    return dict(zip(*(prepared.entities[name].to_pylist() for name in ("id", "text")), strict=True))
