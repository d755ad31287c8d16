import pytest

from reldp.errors import GraphError, InputError
from reldp.graph.recipes import record_lines
from reldp.graph.recipes.mag import abstract_text, mag
from tests.graph.recipes.records import PAPERS, pairs_of, texts_of, write_lines


@pytest.fixture
def papers(tmp_path):
    return write_lines(tmp_path / "papers.jsonl.gz", *PAPERS)


def test_papers_of_a_country_cite_one_another(papers):
    made = mag([papers], countries=["USA"])
    assert pairs_of(made) == [("p1", "p2"), ("p1", "p3")]
    assert texts_of(made) == {
        "p1": "On lamps. Lamps are bright.",
        "p2": "Wicks revisited. The wick",
        "p3": "Flames",
    }
    assert set(made.entities["domain"].to_pylist()) == {"usa"}
    assert made.record.drops == {
        "duplicate_relations": 2,
        "records_of_other_countries": 2,
        "records_of_unknown_countries": 1,
        "relations_to_absent_ids": 1,
        "self_relations": 1,
    }
    assert made.record.source == "records of papers (MAG): USA; citations"


def test_with_all_authors_two_countries_share_no_paper(papers):
    china = mag([papers], countries=["China"])
    assert pairs_of(china) == [("p2", "p4"), ("p2", "p5"), ("p4", "p5")]
    assert pairs_of(mag([papers], countries=["CHN"], authors="all")) == [("p4", "p5")]
    assert pairs_of(mag([papers], countries=["United States"], authors="all")) == [("p1", "p3")]
    both = mag([papers], countries=["USA", "China"], authors="all")
    assert "p2" in texts_of(both)


def test_without_a_country_every_paper_counts(papers, tmp_path):
    made = mag([papers], max_words=0)
    assert len(texts_of(made)) == 6
    assert texts_of(made)["p2"] == "Wicks revisited"
    second = write_lines(tmp_path / "more.jsonl", {"id": "p9", "title": "Later", "references": []})
    assert ("p1", "p9") in pairs_of(mag([papers, second]))


def test_the_same_papers_give_the_same_bytes(papers, tmp_path):
    for name in ("a", "b"):
        mag([papers], countries=["USA"]).write(tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ({"b": [1, 2], "a": [0]}, "a b b"),
        ({"InvertedIndex": {"a": [0, "x", True]}}, "a"),
        ({"InvertedIndex": 3}, ""),
        ({"a": 7}, ""),
        ({"a": [10**400], "b": [-1]}, "b a"),
    ],
)
def test_abstracts_are_put_together_from_the_places_of_words(value, text):
    assert abstract_text(value) == text


def test_wrong_files_and_settings_are_refused(papers, tmp_path):
    products = write_lines(tmp_path / "products.json", *[{"asin": "B0", "title": "x"}] * 3)
    with pytest.raises(
        GraphError,
        match=r"products\.json must hold one paper per line, with id, title and references",
    ):
        mag([products])
    with pytest.raises(
        GraphError,
        match="`country` must name a country of the file's authors, got none of its 6 papers",
    ):
        mag([papers], countries=["Atlantis"])
    with pytest.raises(InputError, match="`country` must not be empty"):
        mag([papers], countries=[" "])
    with pytest.raises(InputError, match="`authors` must be one of"):
        mag([papers], authors="first")
    lonely = write_lines(tmp_path / "lonely.jsonl", {"id": 1, "title": "x", "references": [2]})
    with pytest.raises(GraphError, match="at least one relation"):
        mag([lonely])


def test_a_paper_with_more_references_than_any_has_is_left_out_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(record_lines, "_MAX_IDS", 3)
    rows = [
        {"id": "a", "title": "x", "references": ["b", "b", "c"]},
        {"id": "b", "title": "y", "references": []},
        {"id": "c", "title": "z", "references": ["a", "a", "a", "a"]},
    ]
    made = mag([write_lines(tmp_path / "papers.jsonl", *rows)])
    assert pairs_of(made) == [("a", "b")]
    assert made.record.drops == {
        "duplicate_relations": 1,
        "records_with_too_many_references": 1,
        "relations_to_absent_ids": 1,
    }


def test_one_long_word_at_many_places_takes_no_memory():
    """A line of 200 kB asked for gigabytes."""
    text = abstract_text({"InvertedIndex": {"w" * 100_000: list(range(20_000)), "end": [20_001]}})
    assert len(text) < 2**22 + 200_000
