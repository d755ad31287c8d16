"""Charts are valid SVG that shows the numbers it was given."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.reporting.charts import line_chart, ticks


def points(svg):
    found = re.search(r'points="([^"]+)"', svg).group(1)
    return [tuple(map(float, pair.split(","))) for pair in found.split()]


def test_higher_values_are_drawn_higher_and_later_ones_further_right():
    drawn = points(line_chart([0, 1, 2, 3], [1.0, 4.0, 2.0, 3.0], label="loss"))
    assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)
    heights = [y for _, y in drawn]  # SVG counts downwards
    assert heights[1] < heights[3] < heights[2] < heights[0]


def test_a_chart_is_valid_xml_with_its_label_escaped():
    svg = line_chart([0, 1], [1.0, 2.0], label="a < b & c")
    assert ElementTree.fromstring(svg).attrib["aria-label"] == "a < b & c over steps"


def test_what_is_no_number_is_left_out():
    assert len(points(line_chart([0, 1, 2], [1.0, math.nan, 2.0], label="x"))) == 2
    assert line_chart([0], [math.inf], label="x <y>") == "<p>No values of x &lt;y&gt;.</p>"


def test_one_point_and_equal_points_are_charts_too():
    ElementTree.fromstring(line_chart([5], [2.0], label="x"))
    ElementTree.fromstring(line_chart([0, 1], [0.0, 0.0], label="x"))


def test_many_points_are_thinned_by_means():
    drawn = points(line_chart(range(6000), [float(i % 2) for i in range(6000)], label="x"))
    assert len(drawn) == 600
    assert len({y for _, y in drawn}) == 1


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 8))
def test_ticks_cover_the_range_with_a_few_round_numbers(low, width, count):
    high = low + width
    found = ticks(low, high, count)
    assert found[0] <= low + 1e-6 * max(abs(low), width)
    assert found[-1] >= high - 1e-6 * max(abs(high), width)
    assert 2 <= len(found) <= count + 3


@pytest.mark.parametrize(("low", "high"), [(0, 1), (3, 3), (0, 0), (-5, -1)])
def test_ticks_rise(low, high):
    found = ticks(low, high, 5)
    assert found == sorted(set(found))
