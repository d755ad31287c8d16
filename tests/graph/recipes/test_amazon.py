import random

import pytest

from reldp.errors import GraphError, InputError
from reldp.graph import EntityGraph
from reldp.graph.recipes import record_lines
from reldp.graph.recipes.amazon import amazon
from tests.graph.recipes.records import (
    PRODUCTS_2014,
    PRODUCTS_2018,
    pairs_of,
    texts_of,
    write_2014,
    write_lines,
)

LAMP, BELL, TENT, SOCK, HATS = "B00LAMP001", "B00BELL002", "B00TENT003", "B00SOCK004", "B00HATS005"


@pytest.fixture
def old(tmp_path):
    return write_2014(tmp_path / "meta_Sports_and_Outdoors.json.gz")


@pytest.fixture
def new(tmp_path):
    return write_lines(tmp_path / "meta_2018.json.gz", *PRODUCTS_2018)


def test_the_form_of_2014_gives_products_of_a_category_and_counts_the_rest(old):
    made = amazon([old], categories=["sports"])
    assert pairs_of(made) == [(BELL, LAMP), (BELL, SOCK), (LAMP, TENT)]
    assert texts_of(made) == {
        BELL: "Brass Bell. A loud bell. Fits 22 mm bars & forks .",
        LAMP: "Rider's Front Lamp",
        SOCK: "Café Socks",
        TENT: "Tent for Two",
    }
    assert set(made.entities["domain"].to_pylist()) == {"Sports & Outdoors"}
    assert made.record.drops == {
        "duplicate_relations": 1,  # the bell names the lamp too
        "records_of_other_categories": 1,
        "records_without_title": 1,
        "relations_to_absent_ids": 2,
        "repeated_ids": 1,
        "self_relations": 1,
    }
    assert made.record.source == "Amazon product metadata: Sports & Outdoors; also_buy"
    assert "lines are in the form of 2014" in made.record.notes


def test_the_form_of_2018_is_read_too(new):
    made = amazon([new], categories=["Sports_and_Outdoors"], license="by hand")
    assert pairs_of(made) == [("C00BALL002", "C00RACK001"), ("C00GRIP003", "C00RACK001")]
    assert texts_of(made)["C00RACK001"] == "Racquet 27. A light racquet. Strung by hand."
    assert made.record.drops["records_of_other_categories"] == 1  # a book on sports is a book
    assert (
        made.record.drops["records_without_title"] == 1
    )  # a title that is a page's program is none
    assert "lines are in the form of 2018" in made.record.notes
    assert made.record.license == "by hand"
    assert list(made.record.hashes) == ["meta_2018.json.gz"]


@pytest.mark.parametrize(
    ("relations", "pairs"),
    [
        (["also_bought"], [(BELL, LAMP), (BELL, SOCK), (HATS, SOCK), (LAMP, TENT)]),
        (["also_view"], [(LAMP, TENT)]),
        (["bought_together"], [(BELL, LAMP)]),
        (["buy_after_viewing", "also_viewed"], [(BELL, TENT), (LAMP, TENT)]),
    ],
)
def test_relations_are_chosen_by_either_forms_name(old, relations, pairs):
    assert pairs_of(amazon([old], relations=relations)) == pairs


def test_categories_are_tops_or_paths(old):
    cloth = amazon([old], categories=["cloth"])
    assert pairs_of(cloth) == [(HATS, SOCK)]
    assert set(cloth.entities["domain"].to_pylist()) == {"Clothing, Shoes & Jewelry"}
    cycling = amazon([old], categories=["Sports & Outdoors > Cycling"])
    assert pairs_of(cycling) == [(BELL, LAMP)]
    both = amazon([old], categories=["sports", "clothing"])
    assert both.record.source.startswith(
        "Amazon product metadata: Sports & Outdoors, Clothing, Shoes & Jewelry"
    )
    assert len(texts_of(both)) == 5
    with pytest.raises(
        GraphError, match="`category` must name a category of the file, got none of its 7 products"
    ):
        amazon([old], categories=["Cycling"])


def test_titles_only_and_few_words(old):
    assert texts_of(amazon([old], max_words=0))[BELL] == "Brass Bell"
    assert texts_of(amazon([old], max_words=2))[BELL] == "Brass Bell. A loud"


def test_the_same_products_give_the_same_bytes_in_any_order_and_form(tmp_path, old):
    made = amazon([old]).write(tmp_path / "a")
    again = amazon([old]).write(tmp_path / "b")
    names = ["entities.parquet", "record.json", "relations.parquet"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).stat().st_mode & 0o777 == 0o600
    lines = list(PRODUCTS_2014[:-1])
    random.Random(0).shuffle(lines)
    other = tmp_path / "shuffled.json"
    other.write_text("\n".join(lines))
    assert amazon([other]).graph().fingerprint == made.fingerprint == again.fingerprint
    assert EntityGraph.read(tmp_path / "a").fingerprint == made.fingerprint
    assert str(tmp_path) not in (tmp_path / "a" / "record.json").read_text()


def test_what_is_published_about_a_graph_depends_on_the_settings_alone(tmp_path, old, new):
    settings = {"categories": ["sports"], "license": "by hand"}
    assert (
        amazon([old], **settings).record.provenance == amazon([new], **settings).record.provenance
    )
    both = amazon([old, new], **settings).record
    assert both.provenance == amazon([old], **settings).record.provenance
    assert "lines are in the form of 2014 and 2018" in both.notes


def test_damaged_lines_are_counted(tmp_path):
    deep = "{'asin': 'B00DEEP007', 'title': " + "[" * 5000
    broken = "{'asin': 'B00HALF008', 'title': '\\ud83d', 'categories': []}"
    path = write_2014(tmp_path / "meta.json", deep, broken, "{'asin': open('x')}", '{"asin": 7}')
    drops = amazon([path]).record.drops
    assert (drops["malformed_lines"], drops["records_with_broken_text"]) == (3, 1)


def test_odd_values_are_passed_over(tmp_path):
    rows = [
        {"asin": "a", "title": "x", "also_buy": ["b", None, 7, "", ["b"]], "category": "Sports", "description": 3},
        {"asin": "b", "title": "y", "also_buy": "a", "related": ["a"], "categories": [["Sports", None], "x"]},
        {"asin": " ", "title": "z", "also_buy": {}, "category": None},
        {"asin": "c", "title": ["z"], "main_cat": 7},
    ]  # fmt: skip
    made = amazon([write_lines(tmp_path / "odd.json", *rows)])
    assert pairs_of(made) == [("a", "b")]
    assert made.record.drops == {
        "records_without_id": 1, "records_without_title": 1, "relations_to_absent_ids": 2, "duplicate_relations": 2,
    }  # fmt: skip


def test_reviews_and_other_files_are_no_metadata(tmp_path, old):
    reviews = write_lines(
        tmp_path / "reviews.json", {"asin": "B0", "reviewerID": "A1", "reviewText": "x"}
    )
    with pytest.raises(
        GraphError, match=r"reviews\.json must hold one product per line, with asin and title"
    ):
        amazon([reviews])
    for settings in (
        {"relations": ["bought"]},
        {"categories": [" > "]},
        {"max_words": -1},
        {"relations": []},
    ):
        with pytest.raises(InputError, match="must"):
            amazon([old], **settings)


def test_a_product_with_more_related_ones_than_any_has_is_left_out_and_counted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(record_lines, "_MAX_IDS", 3)
    rows = [
        {"asin": "a", "title": "x", "also_buy": ["b", "c"], "related": {"also_bought": ["b"]}},
        {"asin": "b", "title": "y", "also_buy": "none"},
        {"asin": "c", "title": "z", "also_buy": ["a", "b"], "related": {"also_bought": ["a", "b"]}},
    ]  # fmt: skip
    made = amazon([write_lines(tmp_path / "products.json", *rows)])
    assert pairs_of(made) == [("a", "b")]
    assert made.record.drops["records_with_too_many_related_products"] == 1
