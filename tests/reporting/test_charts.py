"""Charts are valid SVG that shows the numbers it was given."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.reporting.charts import Axis, Note, Range, Series, chart, line_chart, range_chart, ticks


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
    label = ElementTree.fromstring(svg).attrib["aria-label"]
    assert label == "a < b & c over steps. From 1 at step 0 to 2 at step 1."


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


def test_logarithmic_axes_space_equal_factors_equally():
    axis = Axis(label="rate", low=1e-4, high=1.0, log=True, marks=(1e-4, 1e-2, 1.0, 10.0))
    assert [axis.share(x) for x in (1e-4, 1e-2, 1.0)] == pytest.approx([0, 0.5, 1])
    assert [mark for mark, _ in axis.labels(5)] == [1e-4, 1e-2, 1.0]


def test_points_have_tooltips_and_lines_have_what_they_say():
    axis = Axis(label="x", low=0, high=1)
    points = ((0.0, 0.5), (1.0, 1.0))
    words = ("a < b", "c")
    svg = chart(
        "t",
        "d",
        x=axis,
        y=axis,
        series=[
            Series(points=points, words=words, fill=True),
            Series(points=points, words=words, line=False, dots=True),
        ],
        notes=[Note(x=0.5, y=0.5, text="n & m")],
    )
    tree = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    assert [t.text for t in tree.iter(f"{space}title")] == list(words)
    assert next(tree.iter(f"{space}polyline")).attrib["data-words"] == "a < b|c"
    assert "n & m" in [t.text for t in tree.iter(f"{space}text")]


def test_rows_of_a_range_chart_show_value_interval_and_limit():
    axis = Axis(label="percent", low=0, high=100)
    rows = [
        Range(label="one", words="w", value=50.0, low=40.0, high=60.0),
        Range(label="two", words="w", limit=75.0),
    ]
    tree = ElementTree.fromstring(range_chart("t", "d", rows, x=axis, width=436))
    space = "{http://www.w3.org/2000/svg}"
    (dot,) = tree.iter(f"{space}circle")
    assert dot.attrib["cx"] == "218.0"
    lines = {line.attrib["class"]: line.attrib for line in tree.iter(f"{space}line")}
    assert (lines["interval main"]["x1"], lines["interval main"]["x2"]) == ("178.0", "258.0")
    assert lines["limit"]["x1"] == "318.0"


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 2.5e-323), (0.0, 0.0), (-1e-310, 1e-310), (1e-300, 1e-300)]
)
def test_ticks_of_ranges_without_a_width_end(low, high):
    made = ticks(low, high, 5)
    assert 2 <= len(made) <= 20
    assert all(map(math.isfinite, made))
