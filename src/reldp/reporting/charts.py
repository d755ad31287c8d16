"""Charts as SVG text, without a plotting library: for reports that open anywhere.

Pure functions of the numbers. Colors are those of the page's style sheet (`reldp.reporting.style`), so a chart is
legible on light, dark and printed pages. Every chart has a title and a description for screen readers. Points carry
what they say as a tooltip, which browsers show without a script.

Private to the package: `Axis`, `Series`, `Note`, `chart`, `bar_chart`, `range_chart`, `line_chart`,
`ticks`.

>>> axis = Axis(label="step", low=0, high=2)
>>> chart("Loss", "It falls.", x=axis, y=axis, series=[Series(points=((0, 2), (2, 1)))]).startswith("<svg")
True
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reldp.runs.inert_text import html_text

__all__ = [
    "Axis",
    "Note",
    "Range",
    "Series",
    "bar_chart",
    "chart",
    "line_chart",
    "range_chart",
    "ticks",
]

_MAX_POINTS = 600
_LEAST = 1e-290  # width of a range: smaller ones have no power of ten below them
_LEFT, _RIGHT, _TOP, _BOTTOM = 58.0, 18.0, 30.0, 46.0
_ROW = 42.0
_HEAD = 6.0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis of a chart.

    Attributes:
        label: Name of the values, with their unit.
        low: Value at its beginning.
        high: Value at its end.
        log: Whether equal distances are equal factors.
        marks: Values with a label; round numbers if empty.
        form: How a mark is written.
    """

    label: str
    low: float
    high: float
    log: bool = False
    marks: tuple[float, ...] = ()
    form: Callable[[float], str] = "{:.6g}".format

    def share(self, value: float) -> float:
        """Return where a value lies, 0 at the beginning and 1 at the end."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def labels(self, number: int) -> list[tuple[float, str]]:
        """Return values with a label, inside the axis."""
        marks = self.marks or ticks(self.low, self.high, number)
        slack = 1e-9 * abs(self.high - self.low)
        inside = [m for m in marks if self.low - slack <= m <= self.high + slack]
        return [(mark, self.form(mark)) for mark in inside]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of a chart, joined by a line or not.

    Attributes:
        points: Positions and values.
        words: What each point says, for tooltips; empty for none.
        style: Class of the style sheet.
        line: Whether to draw a line.
        dots: Whether to draw the points.
        fill: Whether to fill the area below the line.
    """

    points: tuple[tuple[float, float], ...]
    words: tuple[str, ...] = ()
    style: str = "main"
    line: bool = True
    dots: bool = False
    fill: bool = False


@dataclass(frozen=True, kw_only=True)
class Note:
    """A short text at a place of a chart; ``anchor`` says which end of it is there."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    style: str = "note"
    dy: float = 0.0
    dx: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Range:
    """A row of a range chart: a value, an interval around it, and a limit, each of which may be missing."""

    label: str
    words: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    style: str = "main"


def chart(
    title: str,
    description: str,
    *,
    x: Axis,
    y: Axis,
    series: Sequence[Series],
    notes: Iterable[Note] = (),
    size: tuple[int, int] = (360, 240),
) -> str:
    """Return a chart of some series.

    Args:
        title: What the chart shows, for screen readers.
        description: What there is to see, with its main numbers.
        x: The horizontal axis.
        y: The vertical axis.
        series: The points; those outside of the axes are left out.
        notes: Short texts on the chart.
        size: Width and height, in units of the chart.
    """
    width, height = size

    def place(a: float, b: float) -> tuple[float, float]:
        return (
            _LEFT + x.share(a) * (width - _LEFT - _RIGHT),
            height - _BOTTOM - y.share(b) * (height - _TOP - _BOTTOM),
        )

    parts = [_opening(title, description, size)]
    for value, label in y.labels(5):
        _, up = place(x.low, value)
        parts.append(
            f'<line class="grid" x1="{_LEFT:g}" x2="{width - _RIGHT:g}" y1="{up:.1f}" y2="{up:.1f}"/>'
            f'<text x="{_LEFT - 8:g}" y="{up + 4:.1f}" text-anchor="end">{html_text(label)}</text>'
        )
    for value, label in x.labels(5):
        across, _ = place(value, y.low)
        parts.append(
            f'<line class="tick" x1="{across:.1f}" x2="{across:.1f}" y1="{height - _BOTTOM:g}" '
            f'y2="{height - _BOTTOM + 4:g}"/><text x="{across:.1f}" y="{height - _BOTTOM + 18:g}" '
            f'text-anchor="middle">{html_text(label)}</text>'
        )
    for one in series:
        parts.append(_series(one, place, y.low))
    for note in notes:
        across, up = place(note.x, note.y)
        parts.append(
            f'<text class="{note.style}" x="{across + note.dx:.1f}" y="{up + note.dy:.1f}" '
            f'text-anchor="{note.anchor}">{html_text(note.text)}</text>'
        )
    parts.append(
        f'<text class="axis" x="{width - _RIGHT:g}" y="{height - 4:g}" text-anchor="end">{html_text(x.label)}</text>'
        f'<text class="axis" x="4" y="13">{html_text(y.label)}</text>'
    )
    return "".join(parts) + "</svg>"


def range_chart(
    title: str, description: str, rows: Sequence[Range], *, x: Axis, width: int = 560
) -> str:
    """Return a chart with one row per value: a dot on its interval, and a bar for a limit.

    Args:
        title: What the chart shows, for screen readers.
        description: What there is to see, with its main numbers.
        rows: From top to bottom.
        x: The horizontal axis.
        width: In units of the chart.
    """
    height = round(_HEAD + _ROW * len(rows) + _BOTTOM)

    def place(value: float) -> float:
        return _RIGHT + x.share(value) * (width - 2 * _RIGHT)

    parts = [_opening(title, description, (width, height))]
    for value, label in x.labels(5):
        across = place(value)
        parts.append(
            f'<line class="grid" x1="{across:.1f}" x2="{across:.1f}" y1="{_HEAD:g}" '
            f'y2="{height - _BOTTOM:g}"/><text x="{across:.1f}" y="{height - _BOTTOM + 18:g}" '
            f'text-anchor="middle">{html_text(label)}</text>'
        )
    for number, row in enumerate(rows):
        up = _HEAD + _ROW * number + 30
        parts.append(
            f'<g><title>{html_text(row.words)}</title><text class="row" x="{_RIGHT:g}" y="{up - 13:.1f}">'
            f"{html_text(row.label)}</text>"
        )
        if row.low is not None and row.high is not None:
            parts.append(
                f'<line class="interval {row.style}" x1="{place(row.low):.1f}" x2="{place(row.high):.1f}" '
                f'y1="{up:.1f}" y2="{up:.1f}"/>'
            )
        if row.limit is not None:
            at = place(row.limit)
            parts.append(
                f'<line class="limit" x1="{at:.1f}" x2="{at:.1f}" y1="{up - 8:.1f}" y2="{up + 8:.1f}"/>'
            )
        if row.value is not None:
            parts.append(
                f'<circle class="dot {row.style}" cx="{place(row.value):.1f}" cy="{up:.1f}" r="4.5"/>'
            )
        parts.append("</g>")
    parts.append(
        f'<text class="axis" x="{width - _RIGHT:g}" y="{height - 4:g}" text-anchor="end">{html_text(x.label)}</text>'
    )
    return "".join(parts) + "</svg>"


def bar_chart(
    title: str, description: str, bars: Sequence[tuple[str, float]], *, x_label: str, y_label: str
) -> str:
    """Return a chart of bars from left to right, each with its name and its number.

    Args:
        title: What the chart shows, for screen readers.
        description: What there is to see, with its main numbers.
        bars: Names and whole numbers, 0 or more.
        x_label: Name of the names.
        y_label: Name of the numbers.
    """
    width, height = 560, 260
    room = (width - 2 * _RIGHT) / max(len(bars), 1)
    largest = max([value for _, value in bars], default=0) or 1
    parts = [_opening(title, description, (width, height))]
    for place, (name, value) in enumerate(bars):
        tall = value / largest * (height - _TOP - _BOTTOM - 14)
        left, base = _RIGHT + place * room, height - _BOTTOM
        parts.append(
            f'<g><title>{html_text(name)}: {value:,.0f}</title><rect class="bar" x="{left + 0.12 * room:.1f}" '
            f'y="{base - tall:.1f}" width="{0.76 * room:.1f}" height="{tall:.1f}" rx="2"/>'
            f'<text class="note" x="{left + room / 2:.1f}" y="{base - tall - 6:.1f}" text-anchor="middle">'
            f'{value:,.0f}</text><text x="{left + room / 2:.1f}" y="{base + 18:.1f}" text-anchor="middle">'
            f"{html_text(name)}</text></g>"
        )
    parts.append(
        f'<line class="tick" x1="{_RIGHT:g}" x2="{width - _RIGHT:g}" y1="{height - _BOTTOM:g}" '
        f'y2="{height - _BOTTOM:g}"/><text class="axis" x="{width - _RIGHT:g}" y="{height - 4:g}" '
        f'text-anchor="end">{html_text(x_label)}</text><text class="axis" x="4" y="13">{html_text(y_label)}</text>'
    )
    return "".join(parts) + "</svg>"


def line_chart(x: Sequence[float], y: Sequence[float], *, label: str, x_label: str = "step") -> str:
    """Return a chart of one line over steps; omit values that are not finite.

    Args:
        x: Positions, in ascending order.
        y: Values.
        label: Name of the values.
        x_label: Name of the positions.
    """
    points = _thinned([(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(b)])
    if not points:
        return f"<p>No values of {html_text(label)}.</p>"
    values = [b for _, b in points]
    marks = ticks(min(values), max(values), 4)
    words = f"From {values[0]:.4g} at {x_label} {points[0][0]:g} to {values[-1]:.4g} at {x_label} {points[-1][0]:g}."
    last = max(points[-1][0], points[0][0] + 1)
    return chart(
        f"{label} over {x_label}s",
        words,
        x=Axis(label=x_label, low=points[0][0], high=last),
        y=Axis(label=label, low=marks[0], high=marks[-1], form="{:.4g}".format),
        series=[
            Series(
                points=tuple(points),
                words=tuple(f"{x_label} {a:g}: {b:.4g}" for a, b in points),
            )
        ],
        size=(560, 220),
    )


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers that cover a range.

    >>> ticks(0.13, 0.92, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    width = high - low
    if not width >= _LEAST:
        width = max(abs(high), _LEAST) if high else 1.0
        low, high = low - width / 2, high + width / 2
    raw = width / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _opening(title: str, description: str, size: tuple[int, int]) -> str:
    """Return the opening tag with the texts for screen readers."""
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{html_text(title)}. '
        f'{html_text(description)}" xmlns="http://www.w3.org/2000/svg">'
    )


def _series(one: Series, place: Callable[[float, float], tuple[float, float]], base: float) -> str:
    """Return the line and the points of a series."""
    places = [place(a, b) for a, b in one.points]
    # Heights are rounded upwards: a drawn upper bound stays one.
    drawn = [(f"{a:.1f}", f"{math.floor(b * 10) / 10:.1f}") for a, b in places]
    joined = " ".join(f"{a},{b}" for a, b in drawn)
    parts = []
    if one.fill and drawn:
        bottom = f"{place(one.points[0][0], base)[1]:.1f}"
        parts.append(
            f'<polygon class="area {one.style}" points="{drawn[0][0]},{bottom} {joined} {drawn[-1][0]},{bottom}"/>'
        )
    if one.line:
        words = f' data-words="{html_text("|".join(one.words))}"' if one.words else ""
        parts.append(f'<polyline class="line {one.style}" points="{joined}"{words}/>')
    if one.dots:
        tooltips = one.words or ("",) * len(drawn)
        for (a, b), said in zip(drawn, tooltips, strict=True):
            parts.append(
                f'<circle class="dot {one.style}" cx="{a}" cy="{b}" r="4.5"><title>{html_text(said)}</title></circle>'
            )
    return "".join(parts)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most a few hundred points: means of adjacent ones."""
    size = -(-len(points) // _MAX_POINTS)
    if size <= 1:
        return points
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[0][0], sum(b for _, b in group) / len(group)) for group in groups]
