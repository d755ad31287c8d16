import pytest

from reldp.graph.recipes.countries import country_words, paper_countries


@pytest.mark.parametrize(
    "name", ["USA", "us", "U.S.", "U.S.A.", "United States", "United States of America", " usa. "]
)
def test_the_united_states_have_many_names(name):
    assert country_words(name) == "usa"


@pytest.mark.parametrize(
    "name", ["CHN", "CN", "China", "P. R. China", "People's Republic of China", "PRC"]
)
def test_china_has_many_names(name):
    assert country_words(name) == "china"


def test_other_countries_are_as_they_are_spelled():
    assert country_words("South Korea") == country_words("SOUTH_KOREA") == "south korea"
    assert country_words("Indiana") == "indiana"  # no part of a word is a country
    assert country_words("...") == ""


@pytest.mark.parametrize(
    ("row", "countries"),
    [
        ({"authors": [{"org": "A, Wuhan, China"}, {"org": "B, USA"}]}, [{"china"}, {"usa"}]),
        ({"authors": [{"affiliations": ["A, Wuhan, China", "B; USA"]}]}, [{"china", "usa"}]),
        ({"authors": [{"country": "US", "org": "A, China"}]}, [{"usa"}]),  # what is stated comes first
        ({"authorships": [{"institutions": [{"country_code": "CN"}, {"country_code": None}]}]}, [{"china"}]),
        ({"authors": [{"name": "x"}], "country": "China"}, [{"china"}]),
        ({"venue": {"raw": "Lamps", "country": "USA"}}, [{"usa"}]),
        ({"venue": "Proceedings, USA"}, []),
        ({"authors": [{"org": "University of China Lake"}]}, [{"university of china lake"}]),
        ({"authors": "x", "country": 7, "affiliations": [None, {"x": 1}]}, []),
        ({"affiliations": [{"country": "United States"}]}, [{"usa"}]),
    ],
)  # fmt: skip
def test_countries_of_authors_come_first_then_those_of_the_record(row, countries):
    assert paper_countries(row) == countries
