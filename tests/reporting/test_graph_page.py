"""The page about a graph shows what was counted, and costs that are those of the accountant."""

import math
import re
from dataclasses import replace

import pytest

from reldp._plan_suggestion import Suggestion, suggest
from reldp.graph import EntityGraph
from reldp.graph.inspection import inspect_graph
from reldp.plan import PrivacyPlan
from reldp.reporting.graph_page import cost_table, graph_page
from reldp.runs.wording import shown
from tests.reporting.html import parsed, table

SIZES = {"sizes": "public", "min_entities": None, "max_relations": None}


@pytest.fixture(scope="module")
def graph():
    pairs = [(i, (i + 1) % 3000) for i in range(3000)] + [(0, i) for i in range(100, 130)]
    return EntityGraph.from_lists(range(3000), pairs, text=[f"t{i // 2} <b>" for i in range(3000)])


@pytest.fixture(scope="module")
def suggestion(graph):
    capped = graph.cap_degrees(5, seed=0)
    return suggest(capped, sizes=SIZES, targets=[6.0], folder=None, release=False)


def test_the_page_shows_degrees_capping_and_costs(graph, suggestion):
    report = inspect_graph(graph)
    text = graph_page("shop <1>", report, suggestion)
    whole = parsed(text)
    assert whole.text_of("h1") == "Inspection of shop <1>"
    assert text.index("Sensitive: counted from the data") < text.index("<dl")
    drawn = re.findall(r"<title>([\d-]+): ([\d,]+)</title>", text)
    assert drawn == [(bar.label, f"{bar.num_entities:,}") for bar in report.degrees.bars]
    rows = table(text, "caps")[1:]
    assert [row[1] for row in rows] == [f"{cap.num_relations:,}" for cap in report.caps]
    (target,) = suggestion.plans
    assert table(text, "targets")[1][5] == f"{target['noise_multiplier']:.3f}"
    assert "share a text" in text


def test_costs_are_those_of_the_accountant(graph, suggestion):
    (plan,) = suggestion.made
    assert plan.epsilon() <= 6
    rows = cost_table(plan)
    assert [bound for bound, _ in rows] == [1, 2, 5, 10, 20]
    bound, costs = rows[1]
    half = round(0.5 * plan.num_steps)
    assert costs[0] == replace(plan, max_degree=bound).epsilon("pld", half)
    own = dict(rows)[5][1]
    assert own == plan.epsilon()
    text = graph_page("shop", inspect_graph(graph), suggestion)
    assert table(text, "cost-list")[3][2] == shown(own)


def test_what_cannot_be_met_or_planned_is_said(graph):
    report = inspect_graph(graph)
    text = graph_page("shop", report, Suggestion(note="No plan yet: sizes & more."))
    assert "No plan yet: sizes &amp; more." in text
    assert "Costs" not in graph_page("shop", report, None)
    plan = PrivacyPlan(
        num_entities=46,
        num_relations=140,
        max_degree=2,
        num_negatives=2,
        expected_batch_size=5.0,
        num_steps=4,
        noise_multiplier=0.1,
        delta=1e-3,
    )
    values = [epsilon for _, row in cost_table(plan) for epsilon in row]
    assert None in values
    assert all(epsilon is None or math.isfinite(epsilon) for epsilon in values)


def test_owners_and_warnings_are_named():
    pairs = [(f"person-{i}", f"person-{(i + 1) % 40}") for i in range(40)]
    owners = [f"o{i // 2}" for i in range(40)]
    text = [f"friend of person-{(i + 1) % 40}" for i in range(40)]
    graph = EntityGraph.from_lists(
        [f"person-{i}" for i in range(40)], pairs, text=text, owner=owners
    )
    page = graph_page("g", inspect_graph(graph), None)
    assert "How many relations does one owner have?" in page
    assert "signs say that it may be false" in page
