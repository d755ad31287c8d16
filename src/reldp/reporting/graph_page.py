"""The page of ``reldp inspect --html``: a graph, for the person who decides on the degree bound and on epsilon.

It shows degrees, what capping keeps, what training would cost at other bounds and numbers of steps, and signs that an
assumption does not hold. All of it but the costs is counted from the data without noise, so the page is sensitive. The
costs follow from bounds on the sizes alone, like every plan.

Public inside the package: `graph_page`, `cost_table`.

>>> from reldp.graph import EntityGraph
>>> from reldp.graph.inspection import inspect_graph
>>> pair = EntityGraph.from_lists("ab", [("a", "b")], text=["x", "y"])
>>> "Sensitive" in graph_page("pair", inspect_graph(pair), None)
True
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reldp.errors import PlanError
from reldp.reporting.charts import Axis, Series, bar_chart, chart
from reldp.reporting.page import (
    facts,
    figure,
    key_figures,
    numbers,
    page,
    paragraph,
    section,
    sentences,
)
from reldp.runs.privacy_cost import privacy_cost
from reldp.runs.wording import shown

if TYPE_CHECKING:
    from reldp._plan_suggestion import Suggestion
    from reldp.graph.inspection import GraphInspection
    from reldp.plan import PrivacyPlan

__all__ = ["cost_table", "graph_page"]

_DEGREES = (1, 2, 5, 10, 20)
_SHARES = (0.5, 1.0, 2.0)

_SETTINGS = ("negatives", "batch", "steps")


def graph_page(name: str, report: "GraphInspection", suggestion: "Suggestion | None") -> str:
    """Return the page about a graph.

    Args:
        name: Name of the graph.
        report: What an inspection counted.
        suggestion: Suggested plans, if there are any.
    """
    degrees = report.degrees
    costs = "" if suggestion is None else _costs(suggestion)
    warned = _warnings(report.warnings)
    contents = [
        *[("degrees", "Degrees"), ("capping", "Capping")],
        *([("costs", "Costs")] if costs else []),
        *([("warnings", "Assumptions")] if warned else []),
        ("graph", "The graph"),
    ]
    return page(
        f"Inspection of {name}",
        "For whoever decides on the degree bound and on epsilon.",
        [
            paragraph(
                "Sensitive: counted from the data without noise. Keep this page with the data. Fix the maximum degree "
                "and the target epsilon by what you know without it: no guarantee covers a choice that depends on "
                "this page.",
                "guarantee warning",
            ),
            key_figures(
                [
                    ("entities", f"{report.num_entities:,}"),
                    ("relations", f"{report.num_relations:,}"),
                    (f"relations of the median {_unit(report)}", f"{degrees.median:,.0f}"),
                    ("most relations", f"{degrees.largest:,}"),
                ]
            ),
            _degrees(report),
            _capping(report),
            costs,
            warned,
            _facts(name, report),
        ],
        contents=contents,
    )


def cost_table(plan: "PrivacyPlan") -> list[tuple[int, list[float | None]]]:
    """Return epsilon by degree bound, for half, all and twice the steps of a plan; None where there is none.

    Noise, batch size and the bounds on the sizes stay as they are.
    """
    of_relations = plan.negatives == "relations"  # they need a bound of 1
    bounds = [plan.max_degree] if of_relations else sorted({*_DEGREES, plan.max_degree})
    counts = _step_counts(plan)
    return [(bound, [_epsilon(plan, bound, count) for count in counts]) for bound in bounds]


def _step_counts(plan: "PrivacyPlan") -> list[int]:
    return [max(1, round(share * plan.num_steps)) for share in _SHARES]


def _epsilon(plan: "PrivacyPlan", max_degree: int, num_steps: int) -> float | None:
    try:
        other = replace(plan, max_degree=max_degree)
        epsilon = privacy_cost(other, "pld", num_steps).epsilon
    except PlanError:
        return None
    return epsilon if epsilon < float("inf") else None


def _unit(report: "GraphInspection") -> str:
    return "entity" if report.num_owners is None else "owner"


def _degrees(report: "GraphInspection") -> str:
    degrees, unit = report.degrees, _unit(report)
    bars = [(bar.label, float(bar.num_entities)) for bar in degrees.bars]
    many = "entities" if unit == "entity" else "owners"
    words = (
        f"Median {degrees.median:,.0f}, mean {degrees.mean:,.1f}, largest {degrees.largest:,} relations; "
        f"{degrees.num_isolated:,} {many} have none."
    )
    return section(
        "degrees",
        f"How many relations does one {unit} have?",
        figure(
            bar_chart(
                f"Number of {many} by number of relations",
                words,
                bars,
                x_label="relations",
                y_label=many,
            ),
            f"{words} Ranges double from bar to bar.",
            wide=True,
        ),
    )


def _capping(report: "GraphInspection") -> str:
    caps, unit = report.caps, _unit(report)
    many = "entities" if unit == "entity" else "owners"
    points = tuple((float(cap.max_degree), 100 * cap.share) for cap in caps)
    words = "; ".join(f"at most {cap.max_degree}: {cap.share:.1%} kept" for cap in caps)
    picture = (
        figure(
            chart(
                "Share of relations that capping keeps",
                f"{words}.",
                x=Axis(
                    label="maximum degree (logarithmic)",
                    low=points[0][0],
                    high=points[-1][0],
                    log=True,
                    marks=tuple(x for x, _ in points),
                    form="{:,.0f}".format,
                ),
                y=Axis(label="percent of relations kept", low=0.0, high=100.0),
                series=[
                    Series(points=points),
                    Series(
                        points=points,
                        line=False,
                        dots=True,
                        words=tuple(f"at most {x:,.0f}: {y:.1f} % kept" for x, y in points),
                    ),
                ],
                size=(560, 240),
            ),
            "Relations that are kept, by maximum degree. The dots are counted; lines join them.",
            wide=True,
        )
        if len(points) > 1
        else ""
    )
    return section(
        "capping",
        "What does capping keep?",
        paragraph(
            f"Capping drops relations until no protected {unit} has more than the maximum. The guarantee is then about "
            f"the graph after capping. The largest degree of a protected {unit} is "
            f"{report.degrees.largest_protected:,}; if a rule of your domain bounds the degree, promise_degrees keeps "
            "everything, and the guarantee is about the graph as it is (theory.md 2.2)."
        ),
        picture,
        numbers(
            "Relations kept, by maximum degree",
            ("maximum", "relations kept", "share", f"{many} above", "entities left alone"),
            [
                (
                    f"{cap.max_degree:,}",
                    f"{cap.num_relations:,}",
                    f"{cap.share:.1%}",
                    f"{cap.num_over:,}",
                    f"{cap.num_left_alone:,}",
                )
                for cap in caps
            ],
            name="caps",
        ),
    )


def _costs(suggestion: "Suggestion") -> str:
    """Return what targets need, and what other bounds and numbers of steps would cost."""
    settings, bounds = suggestion.settings, suggestion.bounds
    if settings is None or bounds is None:
        return section("costs", "What would training cost?", paragraph(suggestion.note))
    source = {"public": "exact sizes, taken as public", "declared": "declared bounds on the sizes"}
    reasons = list(dict.fromkeys(row["reason"] for row in suggestion.plans if "reason" in row))
    return section(
        "costs",
        "What would training cost?",
        paragraph(
            f"The suggested plan has a maximum degree of {settings.max_degree:,}. It follows from "
            f"{source.get(bounds.source, 'noisy bounds on the sizes, whose release is included in epsilon')}."
        ),
        numbers(
            "Noise that a target epsilon needs",
            ("target epsilon", "delta", *_SETTINGS, "noise multiplier", "noise / batch"),
            [
                (f"{row['target_epsilon']:g}", *[""] * 4, "cannot be met", "")
                if row["noise_multiplier"] is None
                else (
                    f"{row['target_epsilon']:g}",
                    shown(row["delta"]),
                    f"{row['num_negatives']}",
                    f"{row['expected_batch_size']:,.6g}",
                    f"{row['num_steps']:,}",
                    f"{row['noise_multiplier']:.3f}",
                    f"{row['noise_per_batch']:.4f}",
                )
                for row in suggestion.plans
            ],
            name="targets",
        ),
        sentences([*reasons, *(row["advice"] for row in suggestion.plans if "advice" in row)]),
        _cost_list(suggestion.made),
    )


def _cost_list(plans: Sequence["PrivacyPlan"]) -> str:
    """Return epsilon of the middle plan's noise at other bounds and numbers of steps."""
    if not plans:
        return ""
    plan = plans[len(plans) // 2]
    return numbers(
        f"Epsilon at delta {shown(plan.delta)} with noise multiplier {plan.noise_multiplier:.3f} and the same batches, "
        "by maximum degree and number of steps. A smaller maximum keeps fewer relations, which this list leaves out.",
        ("maximum degree", *(f"{count:,} steps" for count in _step_counts(plan))),
        [
            (f"{bound:,}", *("none" if e is None else shown(e) for e in row))
            for bound, row in cost_table(plan)
        ],
        stressed=f"{plan.max_degree:,}",
        name="cost-list",
    )


def _warnings(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return section(
        "warnings",
        "Does every text and feature describe one entity only?",
        paragraph("The guarantee assumes it (theory.md 6). These signs say that it may be false:"),
        sentences(lines),
    )


def _facts(name: str, report: "GraphInspection") -> str:
    rows: list[tuple[str, object]] = [
        ("graph", name),
        ("entities", f"{report.num_entities:,}, {report.num_protected:,} of them protected"),
        ("relations", f"{report.num_relations:,}"),
    ]
    if report.num_owners is not None:
        rows.append(("owners", f"{report.num_owners:,}: the unit of privacy"))
    if report.types is not None:
        rows.append(("types of relations", f"{len(report.types):,}"))
    if report.texts is not None:
        texts = report.texts
        rows += [
            ("texts", f"median {texts.median_words:,.0f} words, longest {texts.longest_words:,}"),
            ("entities that share a text", f"{texts.num_sharing:,}"),
        ]
    if report.feature_size is not None:
        rows.append(("features", f"{report.feature_size:,} numbers each"))
    rows += [
        (key, report.record[key]) for key in ("source", "version", "license") if report.record[key]
    ]
    rows += [
        (f"dropped: {k.replace('_', ' ')}", f"{n:,}") for k, n in report.record["drops"].items()
    ]
    return section("graph", "What is in the graph?", facts("Counted from the data", rows))
