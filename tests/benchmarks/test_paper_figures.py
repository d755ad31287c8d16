import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import paper_figures
from reldp.reporting.rule_comparison import paper_plan

FIGURES = Path(__file__).parents[2] / "docs" / "figures"
GAUSSIAN, FREQUENCY, STANDARD, STANDARD_PLD, ANCHORED, PAIR = range(6)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    paper_figures.main(["--quick", "--only", "degree", "-o", str(folder)])
    return folder


def stored(varied):
    return json.loads((FIGURES / f"{varied}.json").read_text())


def test_a_picture_is_drawn_from_data_beside_it(quick):
    assert (quick / "degree.png").read_bytes().startswith(b"\x89PNG")
    data = json.loads((quick / "degree.json").read_text())
    assert data["varied"] == "max_degree"
    assert len(data["panels"][0]["curves"]) == len(paper_figures.CURVES)


def test_the_default_panel_has_the_known_prices(quick):
    curves = json.loads((quick / "degree.json").read_text())["panels"][0]["curves"]
    at_the_default = [curve["epsilon"][1] for curve in curves]
    assert 6.3 <= at_the_default[FREQUENCY] <= 6.5
    assert 5.8 <= at_the_default[STANDARD] <= 6.05
    assert 0.455 <= at_the_default[ANCHORED] <= 0.465
    assert 4.79 <= at_the_default[STANDARD_PLD] <= 5.06
    assert at_the_default[PAIR] < at_the_default[ANCHORED]
    assert at_the_default[GAUSSIAN] > 1e5


def test_noise_per_tuple_is_equal_and_claims_are_labeled(quick):
    curves = json.loads((quick / "degree.json").read_text())["panels"][0]["curves"]
    for curve in curves:
        half = curve["clipping"] == "frequency"
        assert curve["noise_multiplier"] == (0.5 if half else 1.0)
        assert ("claimed" in curve["label"]) == (curve["status"] == "claimed")
        assert ("proven" in curve["label"]) == (curve["status"] == "proven")


def test_the_plain_gaussian_is_the_known_formula():
    # Renyi: min over orders a of T a / (2 s^2) + log(1 - 1/a) - (log delta + log a) / (a - 1).
    epsilon = paper_figures.gaussian_epsilon(1.0, 1, 1e-5)
    assert (
        4.2 < epsilon < 4.75
    )  # without the last two terms 0.5 + sqrt(2 log 1e5) = 5.3; exact 4.38


@pytest.mark.parametrize("varied", list(paper_figures.VARIED))
def test_the_stored_figures_hold_every_value_and_grow(varied):
    data = stored(varied)
    field, values = paper_figures.VARIED[varied]
    assert [panel[field] for panel in data["panels"]] == list(values)
    assert (FIGURES / f"{varied}.png").stat().st_size > 20_000
    for panel in data["panels"]:
        for curve in panel["curves"]:
            assert len(curve["renyi_epsilon_per_step"]) == len(data["orders"])
            assert curve["epsilon"] == sorted(curve["epsilon"])
        labels = [curve["label"] for curve in panel["curves"]]
        assert labels == [curve.label for curve in paper_figures.CURVES]


@pytest.mark.parametrize("varied", list(paper_figures.VARIED))
def test_the_stored_numbers_are_those_of_the_accountants(varied):
    data = stored(varied)
    field, values = paper_figures.VARIED[varied]
    steps, order = data["num_steps"][6], data["orders"][8]
    panel = data["panels"][2]
    setting = replace(paper_plan(), **{field: values[2]})
    for curve, numbers in zip(paper_figures.CURVES, panel["curves"], strict=True):
        again = paper_figures.epsilons_of(curve, setting, [steps])[0]
        assert numbers["epsilon"][6] == pytest.approx(again, rel=0.01)
        renyi = paper_figures.renyi_of(curve, setting, [order])[0]
        assert numbers["renyi_epsilon_per_step"][8] == pytest.approx(renyi, rel=0.01)
