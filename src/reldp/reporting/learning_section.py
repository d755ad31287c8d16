"""Did it learn? Evaluations before and after training, and training curves: the sensitive section of a report.

All of it is computed from private data without noise. It is folded away under a warning, and a public page does not
have it.

Private to the package: `learning_section`, `HEADING`.

>>> evaluation_pairs([{"graph": "verbs", "mrr": 0.5}])
[(None, {'graph': 'verbs', 'mrr': 0.5})]
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reldp.errors import RunError
from reldp.evaluation.lines import BEFORE
from reldp.reporting.charts import Axis, Range, line_chart, range_chart, ticks
from reldp.reporting.page import figure, folded, numbers, paragraph, section
from reldp.runs.run_folder import RunFolder

__all__ = ["HEADING", "evaluation_pairs", "learning_section"]

HEADING = "Sensitive: keep this part to yourself"
_MARK = "sensitive"
_CURVES = (
    ("loss", "mean loss of a tuple"),
    ("median_norm", "median gradient norm before clipping"),
    ("clipped_share", "share of gradients that were clipped"),
    ("num_tuples", "realized batch size"),
)
_SETTINGS = (
    *("graph", "pooling", "candidates", "score", "filtered", "max_relations", "num_relations"),
    *("seed", "resamples", "confidence"),
)
_BROKEN = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError)

_HELD_OUT = (
    "The model was not trained on these entities and does not depend on them, but these numbers do, without noise. "
    "Choosing by them (settings, when to stop, whether to publish) spends privacy of the held-out entities, which no "
    "epsilon counts."
)

_Values = Mapping[str, Any]


def learning_section(run: RunFolder) -> str:
    """Return the section with evaluations and curves; nothing if the run has neither.

    Raises:
        RunError: A sensitive file is damaged.
    """
    try:
        curves = list(_figures(run.read_lines(run.metrics)))
    except _BROKEN:
        raise RunError(
            f"{run.metrics.name} must hold the lines that training logged, got damage."
        ) from None
    try:
        evaluations = [_evaluation(*pair) for pair in _pairs(run) if pair[1]["intervals"]]
    except _BROKEN:
        raise RunError(
            f"{run.evaluations.name} must hold results of evaluations, got damage."
        ) from None
    parts = [folded(f"Evaluation on {name}", body) for name, body in evaluations]
    if curves:
        parts.append(folded("Training curves", *curves))
    if not parts:
        return ""
    return section(
        "learning",
        "Did it learn?",
        f'<div class="sensitive"><h3>{HEADING}</h3>',
        paragraph(
            "Computed from private data without noise: epsilon does not cover this part. Open it for yourself; "
            "reldp report --public leaves it out."
        ),
        *parts,
        "</div>",
    )


def evaluation_pairs(lines: Iterable[_Values]) -> list[tuple[_Values | None, _Values]]:
    """Return the newest evaluation for every setting, with the one before training if there is one."""
    before: dict[str, _Values] = {}
    after: dict[str, _Values] = {}
    for line in lines:
        setting = repr([line.get(name) for name in _SETTINGS])
        (before if line.get("encoder") == BEFORE else after)[setting] = line
    return [(before.get(setting), line) for setting, line in after.items()]


def _pairs(run: RunFolder) -> list[tuple[_Values | None, _Values]]:
    return evaluation_pairs(run.read_lines(run.evaluations))


def _figures(lines: Iterable[_Values]) -> Iterable[str]:
    """Yield a curve of each number that training logged."""
    logged = [line for line in lines if _MARK in line]
    for name, label in _CURVES:
        known = [line for line in logged if name in line[_MARK]]
        if known:
            steps = [line["step"] for line in known]
            values = [float(line[_MARK][name]) for line in known]
            yield figure(line_chart(steps, values, label=label), wide=True)


def _evaluation(before: _Values | None, after: _Values) -> tuple[str, str]:
    """Return the name of an evaluation, and its picture and table."""
    name = f"{after.get('graph', '')}, {after['candidates']} candidates"
    arms = [("before", "other", before)] if before is not None else []
    arms.append(("after", "main", after))
    rows = [
        Range(
            label=f"{metric}, {word} training",
            words=f"{metric} {word} training: {_estimate(line, metric)} percent",
            value=100 * float(line[metric]),
            low=100 * float(line["intervals"][metric][0]),
            high=100 * float(line["intervals"][metric][1]),
            style=style,
        )
        for metric in after["intervals"]
        for word, style, line in arms
    ]
    inside = [edge for row in rows for edge in (row.low or 0.0, row.high or 0.0)]
    marks = ticks(min(inside), max(inside), 5)
    confidence = 100 * float(after.get("confidence", 0.95))
    drawing = range_chart(
        f"Evaluation on {name}",
        "; ".join(row.words for row in rows) + ".",
        rows,
        x=Axis(label="percent", low=marks[0], high=marks[-1], form="{:g}".format),
    )
    caption = f"Predicting the relations of {name}: estimates with {confidence:g} % intervals."
    note = paragraph(_HELD_OUT) if "holdout" in after else ""
    return name, figure(drawing, caption, wide=True) + note + _table(before, after, confidence)


def _table(before: _Values | None, after: _Values, confidence: float) -> str:
    headers = ["metric", *(["before"] if before is not None else []), "after"]
    gain = after.get("gain") if before is not None else None
    if gain:
        headers.append("gain")
    rows: list[Sequence[object]] = []
    for metric in after["intervals"]:
        row: list[object] = [metric]
        row += [_estimate(line, metric) for line in (before, after) if line is not None]
        if gain:
            value, low, high = (100 * float(part) for part in gain[metric])
            row.append(f"{value:+.1f} [{low:+.1f}, {high:+.1f}]")
        rows.append(row)
    return numbers(f"Percent, with {confidence:g} % intervals", headers, rows)


def _estimate(line: _Values, metric: str) -> str:
    low, high = (100 * float(edge) for edge in line["intervals"][metric])
    return f"{100 * float(line[metric]):.1f} [{low:.1f}, {high:.1f}]"
