"""Figures show what the store has, and are the same files for the same results."""

from benchmarks.cross_domain import COLUMNS, private
from benchmarks.cross_domain import cells as cross_domain_cells
from benchmarks.experiments.figures import (
    axis_points,
    frontier_lines,
    levels,
    write_figures,
)
from benchmarks.experiments.store import RESULTS, Store

from benchmarks import ablations, frontier
from tests.benchmarks.made_up import store_of

FOLDER = RESULTS.parents[1] / "docs" / "figures"


def full(tmp_path):
    every = [*ablations.cells(), *cross_domain_cells(), *frontier.frontier_cells()]
    return store_of(tmp_path, {cell: 0.3 + 0.01 * cell.seed for cell in every})


def test_figures_of_the_same_results_are_the_same_files(tmp_path):
    store = full(tmp_path)
    write_figures(store, tmp_path / "a")
    write_figures(store, tmp_path / "b")
    for name, panels in (("ablations.svg", len(ablations.AXES)), ("frontier.svg", 2)):
        first, second = ((tmp_path / folder / name).read_bytes() for folder in "ab")
        assert first == second
        assert first.count(b'<g id="axes_') == panels
        assert b"<dc:date>" not in first


def test_what_has_no_result_is_not_drawn(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "ablations.svg").write_text("of results that are gone")
    write_figures(Store(tmp_path / "none"), tmp_path / "figures")
    assert list((tmp_path / "figures").iterdir()) == []


def test_points_are_those_of_the_axis(tmp_path):
    axis = ablations.AXES[0]
    store = store_of(tmp_path, {ablations.axis_cell(axis, axis.values[1], s): 0.4 for s in (0, 1)})
    assert axis_points(store, axis) == [(float(axis.values[1]), [40.0, 40.0], 4.0)]


def test_lines_are_those_of_the_rows_with_results(tmp_path):
    store = store_of(tmp_path, {private(COLUMNS[0], "pair", 1.0, s): 0.4 for s in (0, 2)})
    (line,) = frontier_lines(store)
    assert line.label.startswith("pair")
    assert line.points == {1.0: [40.0, 40.0]}


def test_reference_lines_have_the_spread_of_their_seeds(tmp_path):
    base, plain = levels(full(tmp_path), COLUMNS[0])
    assert (base.mean, base.spread) == (30.0, 0.0)
    assert round(plain.mean, 6) == 31.0
    assert round(plain.spread, 6) == 1.0


def test_the_page_has_the_figures_it_shows():
    page = (FOLDER.parent / "benchmarks.md").read_text(encoding="utf-8")
    for name in ("ablations.svg", "frontier.svg"):
        assert (f"figures/{name}" in page) == (FOLDER / name).is_file()
