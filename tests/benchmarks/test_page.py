"""docs/benchmarks.md says what the store says."""

import json
from dataclasses import fields

from benchmarks.cross_domain import COLUMNS, cells, private
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.figures import write_figures
from benchmarks.experiments.store import RESULTS, Store
from benchmarks.experiments.tables import PAGE, page, spread

from benchmarks import ablations
from reldp import PrivacyPlan


def result(cell: Cell, mrr: float):
    """A made-up result."""
    evaluation = {"prec@1": mrr / 2, "mrr": mrr}
    return {
        "id": cell.id,
        "cell": cell.to_dict(),
        "evaluations": dict.fromkeys(cell.tests, evaluation),
        "noise_multiplier": 0.72,
        "epsilon": cell.epsilon or 3.0,
        "device": "a machine",
        "date": "2026-11-15T00:00:00+00:00",
        "seconds": 1.0,
    }


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(Store()), (
        "Run `python -m benchmarks.experiments tables`."
    )


def test_every_stored_result_is_of_the_cell_it_claims_and_names_its_command():
    for key, stored in Store().results.items():
        assert Cell.from_dict(stored["cell"]).id == key
        assert stored["command"].startswith("python -m benchmarks.experiments ")
        assert stored["date"]
        assert stored["versions"]["torch"]


def test_stored_noise_is_what_was_calibrated():
    levels = json.loads((RESULTS / "noise_levels.json").read_text())
    known = {round(level["noise_multiplier"], 9) for level in levels.values()}
    for stored in Store().results.values():
        if stored["cell"]["method"] == "private":
            assert round(stored["noise_multiplier"], 9) in known
            assert stored["epsilon"] <= (stored["cell"]["epsilon"] or float("inf"))


def test_levels_agree_with_the_accountants():
    levels = json.loads((RESULTS / "noise_levels.json").read_text())
    own = [level for level in levels.values() if level["target"] == 4.0]
    published = next(v for v in own if v["clipping"] == "frequency")
    ours = next(v for v in own if v["clipping"] == "tuple" and v["accountant"] == "pld")
    for level in (published, ours):
        values = {f.name: level[f.name] for f in fields(PrivacyPlan) if f.name in level}
        price = PrivacyPlan(**values).price(level["accountant"])
        assert price.epsilon <= level["target"]
        assert price.epsilon > 0.98 * level["target"]
        assert level is published or price.analysis == "anchored"


def test_a_table_shows_mean_and_spread_of_its_own_cells(tmp_path):
    store = Store(tmp_path)
    own = [private(COLUMNS[0], "tuple", 4.0, seed) for seed in (0, 1, 2)]
    store.merge(result(cell, mrr) for cell, mrr in zip(own, (0.5, 0.51, 0.52), strict=True))
    assert "25.5 ± 0.5 / 51.0 ± 1.0 (0.72)" in page(store)
    assert "51.0" not in page(Store(tmp_path / "other"))


def test_spread_says_how_many_seeds_there_were():
    assert [spread([]), spread([1.0]), spread([1.0, 2.0])] == ["-", "1.0", "1.5 ± 0.7 (2 seeds)"]


def test_figures_of_the_same_results_are_the_same_files(tmp_path):
    store = Store(tmp_path)
    every = [*ablations.cells(), *cells()]
    store.merge(result(cell, 0.3 + 0.01 * cell.seed) for cell in every)
    write_figures(store, tmp_path / "a")
    write_figures(store, tmp_path / "b")
    first, second = ((tmp_path / name / "ablations.svg").read_bytes() for name in "ab")
    assert first == second
    assert first.count(b'<g id="axes_') == len(ablations.AXES)
