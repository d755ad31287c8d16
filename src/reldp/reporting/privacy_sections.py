r"""What could an attacker do, and who is protected how well: two sections of a report, with their pictures.

Both are functions of the public plan and of the number of steps (`reldp.reporting.privacy_curves`). Every number
that is shown is rounded up.

Private to the package: `attacker_section`, `protection_section`, `odds_after`.

>>> odds_after(54.6, 1), odds_after(54.6, 1000)
('55:1 (98.3\xa0%)', '55:1,000 (5.2\xa0%)')
"""

import math
from collections.abc import Sequence

from reldp.reporting.charts import Axis, Note, Series, chart, ticks
from reldp.reporting.page import figure, numbers, paragraph, percent, section, sentences
from reldp.reporting.privacy_curves import GROUP_RATE, RATES, PrivacyCurves
from reldp.runs.wording import shown

__all__ = ["attacker_section", "odds_after", "protection_section"]

_ALARM = 0.01
_LOWEST = 1e-4
_LARGE = 1e9


def attacker_section(curves: PrivacyCurves) -> str:
    """Return the section about attacks: the best trade-off, reading points, and posterior odds."""
    unit = curves.plan.unit
    return section(
        "attacker",
        "What could an attacker do?",
        paragraph(
            "Suppose somebody holds every weight of every step and knows all other data, and wants to know whether "
            f"one {unit} was in the training graph. An attack that raises few false alarms finds few of those who were "
            "in. The curve is the best that any attack can do; it is computed, not measured."
        ),
        figure(
            _trade_off_chart(curves),
            "Largest true-positive rate of any attack, by its false-positive rate. The larger of both questions "
            f"(was the {unit} in, or was it not?) is drawn, and every numerical error raises the curve.",
            wide=True,
        ),
        _reading_points(curves),
        sentences(_odds(curves)),
        _condition(curves),
    )


def protection_section(curves: PrivacyCurves) -> str:
    """Return the section about epsilon: by number of relations, by delta, over the steps, and for groups."""
    unit = curves.plan.unit
    return section(
        "protection",
        "Who is protected how well?",
        _degrees(curves),
        '<div class="pair"><div>',
        figure(
            _delta_chart(curves),
            "Epsilon and delta are one curve: a smaller delta goes with a larger epsilon.",
        ),
        numbers(
            "Epsilon by delta, after all steps",
            ("delta", "epsilon"),
            [(shown(delta), shown(epsilon)) for delta, epsilon in curves.by_delta],
            stressed=shown(curves.plan.delta),
            name="epsilon-by-delta",
        ),
        "</div><div>",
        figure(
            _steps_chart(curves),
            "Epsilon after a part of the steps. The dots are computed; lines join them.",
        ),
        numbers(
            f"Epsilon by number of steps, at delta {shown(curves.plan.delta)}",
            ("steps", "epsilon"),
            [(f"{steps:,}", shown(epsilon)) for steps, epsilon in curves.by_steps],
            stressed=f"{curves.num_steps:,}",
            name="epsilon-by-steps",
        ),
        "</div></div>",
        numbers(
            f"Groups of {_plural(unit)} that act together, or belong to one person (generic bounds, theory.md 3.6)",
            ("group", "epsilon", "delta", f"best attack at {percent(GROUP_RATE)} false positives"),
            [
                (
                    group.size,
                    shown(group.epsilon) if math.isfinite(group.epsilon) else "infinite",
                    shown(group.delta) if group.delta < 1 else "none below 1",
                    f"at most {percent(group.power)}",
                )
                for group in curves.groups
            ],
            name="groups",
        ),
        paragraph(
            "With declared sizes, this holds for groups without which the graph still meets the declared bounds."
        )
        if curves.plan.sizes == "declared"
        else "",
    )


def odds_after(factor: float, against: int) -> str:
    """Return odds of 1 to some number after they were multiplied by a factor, rounded up, and as a probability."""
    for_it = _odds_number(factor)
    return f"{for_it}:{against:,} ({percent(factor / (factor + against))})"


def _odds_number(factor: float) -> str:
    """Return a factor with two or three digits, rounded up; as a power of ten where it is enormous."""
    if factor > _LARGE:
        return f"1e+{math.ceil(math.log10(factor))}"
    magnitude = math.floor(math.log10(factor)) if factor > 0 else 0
    unit = 10.0 ** (magnitude - (1 if magnitude < 2 else 2))
    rounded = math.ceil(round(factor / unit, 6)) * unit
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.3g}"


def _plural(unit: str) -> str:
    return "entities" if unit == "entity" else f"{unit}s"


def _trade_off_chart(curves: PrivacyCurves) -> str:
    points = tuple(curves.curve)
    readings = tuple((rate, curves.worst(rate)) for rate in RATES)
    words = "; ".join(
        f"at {percent(rate)} false positives at most {percent(power)} true positives"
        for rate, power in readings
    )
    guessing = tuple((10 ** (-4 + i / 30), 10 ** (-4 + i / 30)) for i in range(121))
    notes = [
        Note(x=_LOWEST, y=1.0, text="no privacy: every attack succeeds", dy=15, dx=6),
        Note(x=0.2, y=0.2, text="guessing", dx=10, dy=12),
    ]
    notes += [
        Note(x=rate, y=power, text=percent(power), anchor="end", style="note main", dx=-8, dy=-7)
        for rate, power in readings
        if power < 0.93
    ]
    return chart(
        "Best attack on this run",
        f"{words}. Guessing has as many true positives as false ones.",
        x=Axis(
            label="false-positive rate (logarithmic)",
            low=_LOWEST,
            high=1.0,
            log=True,
            marks=(1e-4, 1e-3, 1e-2, 1e-1, 1.0),
            form=percent,
        ),
        y=Axis(
            label="true-positive rate",
            low=0.0,
            high=1.0,
            marks=(0, 0.25, 0.5, 0.75, 1),
            form=lambda value: f"{100 * value:g} %",
        ),
        series=[
            Series(
                points=points,
                fill=True,
                words=tuple(f"{percent(a)} false: at most {percent(b)} true" for a, b in points),
            ),
            Series(points=guessing, style="soft"),
            Series(
                points=readings,
                line=False,
                dots=True,
                words=tuple(f"{percent(a)} false: at most {percent(b)} true" for a, b in readings),
            ),
        ],
        notes=notes,
        size=(560, 330),
    )


def _reading_points(curves: PrivacyCurves) -> str:
    unit = curves.plan.unit
    return numbers(
        "Largest true-positive rate of any attack (by guessing: the false-positive rate; without privacy: 100 %)",
        (
            "false positives",
            f"alarm: the {unit} was in",
            f"alarm: the {unit} was not in",
        ),
        [
            (
                percent(rate),
                percent(curves.power(rate, "presence")),
                percent(curves.power(rate, "absence")),
            )
            for rate in RATES
        ],
        name="reading-points",
    )


def _odds(curves: PrivacyCurves) -> list[str]:
    """Return what the guarantee means for somebody's belief, in a sentence for each prior."""
    factor, alarm = math.exp(min(curves.epsilon, 700.0)), curves.worst(_ALARM) / _ALARM
    unit, rate = curves.plan.unit, percent(_ALARM)
    after = f"after an alarm of an attack with {rate} false positives, at most"
    return [
        f"Odds of 1:1 (somebody thinks it as likely as not that the {unit} was in) become at most "
        f"{odds_after(factor, 1)} after everything that was released, up to delta; {after} {odds_after(alarm, 1)}.",
        f"Odds of 1:1,000 become at most {odds_after(factor, 1000)}, up to delta; {after} "
        f"{odds_after(alarm, 1000)}.",
        f"If one half of all guesses would be right without the model, at most {percent(curves.best_guess)} are right "
        "with it.",
    ]


def _condition(curves: PrivacyCurves) -> str:
    """Return the condition on all points but the one that the noise was chosen for, if it was."""
    plan = curves.plan
    if plan.sizes != "private":
        return ""
    is_whole = curves.num_steps == plan.num_steps
    certified = (
        "Epsilon and delta of the certificate hold without this condition if the target epsilon was fixed before that "
        "release, as the certificate assumes; all other points of the curves on this page hold given these bounds"
        if is_whole
        else "Epsilon and delta of the certificate, which are those of a part of the steps, and all other points of "
        "the curves on this page hold given these bounds"
    )
    return paragraph(
        f"The noise follows from noisy bounds on the numbers of {'owners' if plan.unit == 'owner' else 'entities'} and "
        f"relations, which were released first. {certified} (theory.md 2.4). The epsilon of the release is included "
        "everywhere."
    )


def _degrees(curves: PrivacyCurves) -> str:
    """Return epsilon by the number of relations of an entity, which section 3.6 of theory.md proves."""
    unit, points = curves.plan.unit, curves.by_degree
    if not points:
        return paragraph(
            "Single relations are protected, so the number of relations of an entity does not matter. An entity with "
            "several relations is a group of relations."
        )
    first, last = points[0], points[-1]
    words = (
        f"An {unit} with 1 relation has epsilon {shown(first[1])}, one with {last[0]:,} relations, the bound, has "
        f"{shown(last[1])}."
        if len(points) > 1
        else f"Every {unit} has at most 1 relation and epsilon {shown(last[1])}."
    )
    costs = (
        " The same numbers say what the bound costs: with a smaller one, the same noise and the same batches would "
        f"have had the smaller epsilon for every {unit}."
        if len(points) > 1
        else ""
    )
    return "\n".join(
        (
            paragraph(
                f"{words} The certificate states the epsilon of the bound.{costs} Relations that capping has dropped "
                "do not count."
            ),
            figure(
                _epsilon_chart(
                    f"Epsilon of an {unit} by its number of relations",
                    words,
                    points,
                    x_label=f"relations of the {unit}",
                    log=last[0] > 5,
                    form="{:,.0f}".format,
                    marks=tuple(float(d) for d, _ in points),
                    words=[
                        f"{d:,} relation{'s' * (d != 1)}: epsilon {shown(e)}" for d, e in points
                    ],
                    size=(560, 240),
                ),
                f"Epsilon at delta {shown(curves.plan.delta)} by the number of relations that the {unit} has in the "
                "training graph.",
                wide=True,
            ),
            numbers(
                f"Epsilon by number of relations, at delta {shown(curves.plan.delta)}",
                ("relations", "epsilon", "factor of the odds, at most"),
                [(f"{d:,}", shown(e), _odds_number(math.exp(min(e, 700.0)))) for d, e in points],
                stressed=f"{last[0]:,}",
                name="epsilon-by-degree",
            ),
        )
    )


def _delta_chart(curves: PrivacyCurves) -> str:
    points = sorted(curves.by_delta)
    return _epsilon_chart(
        "Epsilon by delta",
        "; ".join(f"at delta {shown(d)} epsilon is {shown(e)}" for d, e in points) + ".",
        points,
        x_label="delta (logarithmic)",
        log=True,
        form="{:.0e}".format,
        marks=tuple(float(f"1e{i}") for i in range(-300, 1)),
        words=[f"delta {shown(d)}: epsilon {shown(e)}" for d, e in points],
    )


def _steps_chart(curves: PrivacyCurves) -> str:
    points = curves.by_steps
    return _epsilon_chart(
        "Epsilon over the steps",
        "; ".join(f"after {n:,} steps epsilon is {shown(e)}" for n, e in points) + ".",
        points,
        x_label="steps",
        from_zero=True,
        form="{:,.0f}".format,
        words=[f"{n:,} steps: epsilon {shown(e)}" for n, e in points],
    )


def _epsilon_chart(
    title: str,
    description: str,
    points: Sequence[tuple[float, float]],
    *,
    x_label: str,
    words: Sequence[str],
    form: object,
    log: bool = False,
    from_zero: bool = False,
    marks: tuple[float, ...] = (),
    size: tuple[int, int] = (360, 240),
) -> str:
    """Return a chart of computed epsilons, joined by lines."""
    low, high = points[0][0], points[-1][0]
    if from_zero:
        low = 0
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    up = ticks(0.0, 1.06 * max(e for _, e in points), 4)
    return chart(
        title,
        description,
        x=Axis(label=x_label, low=low, high=high, log=log, marks=marks, form=form),  # type: ignore[arg-type]
        y=Axis(label="epsilon", low=0.0, high=up[-1], form="{:.4g}".format),
        series=[
            Series(points=tuple(points)),
            Series(points=tuple(points), line=False, dots=True, words=tuple(words)),
        ],
        size=size,
    )
