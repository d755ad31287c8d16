"""Line charts as SVG text, without a plotting library: for reports that open anywhere.

A pure function of the numbers; colors follow the page's text color, so a chart is legible on
light and dark pages alike.

Private to the package: `line_chart`.

>>> line_chart([0, 1, 2], [3.0, 1.0, 2.0], label="loss").startswith("<svg")
True
"""

import math
from collections.abc import Sequence
from html import escape

__all__ = ["line_chart", "ticks"]

_WIDTH, _HEIGHT = 640, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 34
_MAX_POINTS = 600


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
        return f"<p>No values of {escape(label)}.</p>"
    x_ticks = ticks(points[0][0], points[-1][0], 6)
    y_ticks = ticks(min(b for _, b in points), max(b for _, b in points), 5)
    x_low, x_high = points[0][0], max(points[-1][0], points[0][0] + 1)
    y_low, y_high = min(y_ticks[0], points[0][1]), y_ticks[-1]

    def place(a: float, b: float) -> tuple[float, float]:
        across = (a - x_low) / (x_high - x_low)
        up = (b - y_low) / (y_high - y_low)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)} over '
        f'{escape(x_label)}s" xmlns="http://www.w3.org/2000/svg">'
    ]
    for value in y_ticks:
        _, height = place(x_low, value)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}" '
            'stroke="currentColor" stroke-opacity="0.15"/>'
            f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        )
    for value in x_ticks:
        if x_low <= value <= x_high:
            across, _ = place(value, y_low)
            parts.append(
                f'<text x="{across:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">'
                f"{value:.6g}</text>"
            )
    line = " ".join("{:.1f},{:.1f}".format(*place(a, b)) for a, b in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#3b82f6" stroke-width="1.6"/>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">{escape(x_label)}</text>'
    )
    return "".join(parts) + "</svg>"


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return round numbers that cover a range.

    >>> ticks(0.13, 0.92, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    width = high - low
    if width <= 0:
        width = abs(high) or 1.0
        low, high = low - width / 2, high + width / 2
    raw = width / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most a few hundred points: means of adjacent ones."""
    size = -(-len(points) // _MAX_POINTS)
    if size <= 1:
        return points
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[0][0], sum(b for _, b in group) / len(group)) for group in groups]
