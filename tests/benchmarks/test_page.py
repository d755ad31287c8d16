"""docs/benchmarks.md says what the store says."""

import json
import re
from dataclasses import fields

import pytest
from benchmarks.cross_domain import COLUMNS, TRIED, nonprivate, private
from benchmarks.experiments import tuning
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import RESULTS, Store
from benchmarks.experiments.tables import PAGE, columns, compared, page, settings, summary
from benchmarks.experiments.tables.layout import listed, named, share, spread, table

from benchmarks import ablations, frontier
from reldp import PrivacyPlan
from tests.benchmarks.made_up import result, store_of

FIRST = COLUMNS[0]


def line_of(text: str, start: str) -> list[str]:
    """The cells of the first table line that starts so."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {start}"))
    return line.strip("| ").split(" | ")


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
    every = [level for level in levels.values() if level["negatives"] == "entities"]
    own = [level for level in every if level["target"] == 4.0]
    published = next(v for v in own if v["clipping"] == "frequency")
    ours = next(v for v in own if v["clipping"] == "tuple" and v["accountant"] == "pld")
    for level in (published, ours):
        values = {f.name: level[f.name] for f in fields(PrivacyPlan) if f.name in level}
        cost = PrivacyPlan(**values).privacy_cost(level["accountant"])
        assert cost.epsilon <= level["target"]
        assert cost.epsilon > 0.98 * level["target"]
        assert level is published or cost.analysis == "anchored"


def test_an_empty_store_gives_a_page_of_dashes(tmp_path):
    text = page(Store(tmp_path))
    assert "No run yet" in text
    assert "figures/" not in text
    for row in re.findall(r"^\| \*\*tuple.*$", text, re.MULTILINE):
        assert set(row.strip("| ").split(" | ")[2:]) == {"-"}


def three(key: str, epsilon: float, scores: tuple[float, float, float]) -> dict[Cell, float]:
    return {private(FIRST, key, epsilon, s): value for s, value in enumerate(scores)}


def test_a_row_shows_mean_and_spread_of_its_own_cells(tmp_path):
    text = page(store_of(tmp_path, three("tuple", 4.0, (0.5, 0.51, 0.52))))
    row = [line for line in text.splitlines() if line.startswith("| **tuple")][1]
    assert row.strip("| ").split(" | ")[1:4] == ["4", "25.5 ± 0.5", "51.0 ± 1.0"]
    assert text.count("51.0 ± 1.0") == 2  # and once in the overview


def test_the_headline_is_computed(tmp_path):
    scores = {FIRST.start: 0.3, nonprivate(FIRST, 5, 0): 0.5}
    scores |= {private(FIRST, "tuple", 4.0, 0): 0.45, private(FIRST, "frequency", 4.0, 0): 0.46}
    text = " ".join(summary.headline(store_of(tmp_path, scores)).split())
    assert "MRR is 30.0 before training and 50.0 after" in text
    assert "reaches 45.0 at epsilon 4: 75 % of the gain" in text
    assert "reaches 46.0 at claimed epsilon 4; ours differs by -1.0 points" in text
    assert "public" not in text


def test_the_overview_has_a_line_for_every_column_and_leads_to_its_section(tmp_path):
    text = page(Store(tmp_path))
    anchors = re.findall(r"^\| \[.*?\]\(#(.*?)\)", text, re.MULTILINE)
    headings = {summary.slug(h) for h in re.findall(r"^## (.*)$", text, re.MULTILINE)}
    assert len(anchors) == len(COLUMNS)
    assert set(anchors) <= headings


def test_tuning_runs_are_counted_beside_the_tables(tmp_path):
    grid = tuning.cells()[:5]
    text = " ".join(page(store_of(tmp_path, dict.fromkeys(grid, 0.5))).split())
    assert "chosen in 5 tuning runs on a third graph" in text
    assert "spends privacy that its certificate does not cover" in text
    assert "5 runs, one seed each" in text


def test_the_chosen_settings_of_the_grid_are_bold(tmp_path):
    text = settings.tuned(store_of(tmp_path, dict.fromkeys(tuning.cells(), 0.5)))
    rules = [line for line in text.splitlines() if "**" in line]
    assert len(rules) == len(tuning.TUNED)


def test_pairs_that_training_does_not_help_are_reported(tmp_path):
    scores = {TRIED[0].start: 0.4, nonprivate(TRIED[0], 5, 0): 0.38}
    text = columns.tried(store_of(tmp_path, scores))
    row = line_of(text, named(TRIED[0].train))
    assert row[2:] == ["20.0 / 40.0", "19.0 / 38.0", "-2.0"]


def test_ablations_show_every_axis(tmp_path):
    text = settings.ablated(store_of(tmp_path, dict.fromkeys(ablations.cells(), 0.5)))
    assert all(f"| {axis.label} |" in text for axis in ablations.AXES)


@pytest.fixture
def selected(monkeypatch):
    """A combination of one setting is selected."""
    name = "batch 256, 1000 steps"
    monkeypatch.setattr(frontier, "selected", lambda: dict(frontier.COMBINATIONS[name]))
    return name


def test_settings_have_their_gain_and_whether_they_are_selected(tmp_path, selected):
    assert frontier.selected() == frontier.COMPARED["batch 256"]
    scores = {frontier.compared_cell("baseline", s): 0.5 + s / 100 for s in (0, 1, 2)}
    scores |= {
        frontier.compared_cell("batch 256"): 0.525,
        frontier.compared_cell("8 negatives"): 0.49,
    }
    text = compared.alone(store_of(tmp_path, scores))
    assert line_of(text, "baseline")[1:] == ["51.0 ± 1.0", "+0.0", "0.72", "-"]
    assert line_of(text, "batch 256")[1:] == ["52.5", "+1.5", "0.72", "yes"]
    assert line_of(text, "8 negatives")[1:] == ["49.0", "-2.0", "0.72", "no"]
    assert "combination" not in text


def test_one_combination_is_selected(tmp_path, selected):
    scores = {frontier.combination_cell(name): 0.52 for name in frontier.COMBINATIONS}
    text = compared.alone(store_of(tmp_path, scores | {frontier.compared_cell("baseline"): 0.5}))
    rows = text.split("| combination |")[1].splitlines()[2:]
    said = {row.strip("| ").split(" | ")[0]: row.strip("| ").split(" | ")[-1] for row in rows}
    assert said.keys() == frontier.COMBINATIONS.keys()
    assert [name for name, word in said.items() if word == "**yes**"] == [selected]
    assert compared.selected_name() == selected


def test_a_choice_that_all_results_would_not_make_is_said(tmp_path, selected):
    scores = {frontier.combination_cell(name): 0.52 for name in frontier.COMBINATIONS}
    scores |= {frontier.compared_cell("baseline"): 0.5}
    better = "batch 256, 500 steps, all pairs"
    told = "from all results of this table, the rule selects"
    scores[frontier.combination_cell(better)] = 0.6
    text = " ".join(compared.alone(store_of(tmp_path, scores)).split())
    assert f"{told} *{better}*" in text
    scores[frontier.combination_cell(selected)] = 0.7
    assert told not in " ".join(compared.alone(store_of(tmp_path / "again", scores)).split())


def test_runs_that_the_choice_was_made_from_are_counted(tmp_path, selected):
    looks = [frontier.compared_cell("baseline", s) for s in (0, 1)] + frontier.combination_cells()[
        :3
    ]
    scores = dict.fromkeys([*frontier.frontier_cells(), *looks], 0.5)
    text = " ".join(compared.together(store_of(tmp_path, scores)).split())
    assert "selected in 5 runs on WordNet adjectives, which no epsilon on this page covers" in text


def frontier_scores(four: float, one: float, published: float) -> dict[Cell, float]:
    scores = {FIRST.start: 0.3}
    for cell in frontier.frontier_cells():
        if cell.method != "private":
            scores[cell] = 0.5
        elif cell.clipping == "frequency":
            scores[cell] = published
        else:
            scores[cell] = four if cell.epsilon == 4.0 else one
    return scores


@pytest.mark.parametrize(
    ("four", "one", "said"),
    [
        (0.49, 0.46, ("95.0 %, **reached**, 5.0", "49.0, **missed** by 5.0", "**reached**, 1.0")),
        (0.46, 0.43, ("80.0 %, **missed** by 10.0", "**missed** by 8.0", "**missed** by 2.0")),
    ],
)
def test_targets_are_said_to_be_reached_or_missed_and_by_how_much(
    tmp_path, selected, four, one, said
):
    text = compared.together(store_of(tmp_path, frontier_scores(four, one, 0.45)))
    assert all(words in text for words in said)


def test_public_negatives_are_shown_and_change_no_verdict(tmp_path, selected):
    scores = frontier_scores(0.49, 0.46, 0.45)
    public = [cell for cell in scores if cell.pool]
    store = store_of(tmp_path, scores | dict.fromkeys(public, 0.6))
    text = compared.together(store)
    assert line_of(text, "ours, public negatives, epsilon 4")[4] == "60.0 ± 0.0"
    assert "95.0 %, **reached**" in text


def test_spread_says_how_many_seeds_there_were():
    assert [spread([]), spread([1.0]), spread([1.0, 2.0])] == ["-", "1.0", "1.5 ± 0.7 (2 seeds)"]


def test_names_fall_back_to_themselves():
    assert [named("minilm"), named("a-new-encoder")] == ["MiniLM", "a-new-encoder"]


def test_a_share_needs_a_gain():
    assert share(4.0, 2.0, 6.0) == 0.5
    assert share(4.0, 2.0, 2.0) is None
    assert share(None, 2.0, 6.0) is None


def test_columns_of_numbers_are_set_right():
    text = table(["name", "value"], [["a", "1.5 ± 0.1"], ["b", "-"], ["c", "**-2**"]])
    assert text.splitlines()[1] == "| --- | ---: |"


def test_words_are_listed():
    assert [listed([]), listed(["a"]), listed(["a", "b", "c"])] == ["", "a", "a, b and c"]


def test_a_stored_result_of_an_unknown_encoder_still_has_a_section(tmp_path):
    column = type(FIRST)("a", "b", "new", "cls", FIRST.targets, seeds=(0,))
    store = store_of(tmp_path, {column.start: 0.4})
    assert columns.section(store, column).startswith("## a to b, new, cls pooling")
    assert result(column.start)["evaluations"].keys() == {"b"}
