"""``reldp inspect``: sizes and degrees of a graph, what capping keeps, and a suggested plan.

The counting is in `reldp.graph.inspection`, the plan in `reldp._plan_suggestion`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reldp._gain_curve import gain_table
from reldp._plan_suggestion import Suggestion, suggest
from reldp._validate import SIZES, default_of
from reldp.cli.commands import Command, option
from reldp.cli.graph_options import drop_option
from reldp.cli.options import Integer, Number, Word, json_option, show_ids_option
from reldp.cli.output import round_up, visible_console
from reldp.cli.prepare_store import shown_reading
from reldp.cli.progress import show_busy
from reldp.errors import ConfigError
from reldp.plan import PrivacyPlan
from reldp.runs.wording import relation_bounds
from reldp.training.negative_defaults import degree_and_negatives, entities_note, unfit_reason

if TYPE_CHECKING:
    from reldp.graph.inspection import GraphInspection
    from reldp.graph.sizes import SizeBounds

__all__ = ["command"]

_MAIN = "Main options"
_BAR_WIDTH = 40
_MAX_TYPES = 8
_SETTINGS = ("negatives", "batch", "steps")
_NO_RELATIONS = "The graph has no relations, so there is nothing to train on. Check relations and what was dropped."
_FIXED_DEGREE = "Do not choose the maximum degree of a private graph from this table: no guarantee covers that choice."
_FIXED_TARGET = (
    "Do not choose the target epsilon from this table: the noise follows from the released bounds, and no guarantee "
    "covers a target that depends on them."
)


@click.command(
    cls=Command,
    examples=[
        "reldp inspect my-graph",
        "reldp inspect wordnet-nouns --target-epsilon 4 --sizes public",
    ],
)
@click.argument("graph")
@option(
    "--max-degree",
    type=Integer(),
    metavar="K",
    group=_MAIN,
    help="Maximum number of relations per entity that the plan caps degrees at (default: 1, with other relations as "
    "negatives, or 5 for declared sizes, with entities).",
)
@option(
    "--target-epsilon",
    "targets",
    type=Number(),
    metavar="EPSILON",
    multiple=True,
    default=(1.0, 4.0, 10.0),
    show_default=True,
    group=_MAIN,
    help="Target epsilon to suggest a plan for; may be repeated.",
)
@option(
    "--sizes",
    type=Word(SIZES),
    default=default_of(PrivacyPlan.for_graph, "sizes"),
    show_default=True,
    group=_MAIN,
    help="What the plan may use: private (noisy bounds on the numbers of entities and relations), declared (bounds "
    "that you know) or public (the exact numbers).",
)
@option(
    "--min-entities",
    type=Integer(),
    metavar="N",
    group=_MAIN,
    help="Lower bound on the number of entities, for declared sizes.",
)
@option(
    "--max-relations",
    type=Integer(),
    metavar="M",
    group=_MAIN,
    help="Upper bound on the number of relations after capping, for declared sizes.",
)
@option(
    "--min-relations",
    type=Integer(),
    metavar="M",
    group=_MAIN,
    help="Lower bound on the number of relations after capping, for declared sizes; with it, negatives are other "
    "relations.",
)
@option(
    "--holdout",
    type=Number(),
    metavar="SHARE",
    group=_MAIN,
    help="Suggest a plan for reldp train --holdout SHARE, which trains on the other entities (default: none).",
)
@option(
    "--release-sizes",
    "release",
    is_flag=True,
    group=_MAIN,
    help="Release noisy bounds on the sizes if there are none yet. This costs epsilon, once per graph and cap.",
)
@option(
    "--plan/--no-plan",
    "with_plan",
    default=True,
    help="Whether to suggest a plan, which takes some seconds (default: yes).",
)
@option(
    "--html",
    "page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write all of this to a new HTML page instead, with pictures and a list of what other settings would cost. "
    "The page is sensitive; only you can read it.",
)
@drop_option
@show_ids_option
@json_option
def command(
    graph: str,
    drop: tuple[str, ...],
    max_degree: int | None,
    targets: tuple[float, ...],
    with_plan: bool,
    sizes: str,
    min_entities: int | None,
    max_relations: int | None,
    min_relations: int | None,
    holdout: float | None,
    release: bool,
    page: Path | None,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Show sizes and degrees of GRAPH, what capping keeps, and a suggested plan.

    GRAPH is a graph folder, or the name of a bundled graph: wordnet-nouns, wordnet-verbs, wordnet-adjectives. The
    output has exact numbers, which are sensitive. Fix the maximum degree and the target epsilon before you run this on
    private data: no guarantee covers a choice that depends on the output. The suggested plan is computed from bounds on
    the sizes only. Private bounds are reused if they have been released before, and released only with --release-sizes.
    """
    from reldp.graph.bundled import open_graph
    from reldp.graph.holdout import Holdout
    from reldp.graph.inspection import inspect_graph

    if page is not None and (page.exists() or page.is_symlink()):
        raise ConfigError(
            f"`html` must be a new file, got {str(page)!r}, which exists. Choose another."
        )
    with shown_reading("reading and counting"):
        data = open_graph(graph, drop=drop, show_ids=show_ids)
        report = inspect_graph(data, show_ids=show_ids)
    suggestion, switched = None, ""
    if with_plan and data.num_relations:
        bounds = {"sizes": sizes, "min_entities": min_entities, "max_relations": max_relations}
        place = Path(graph)
        settings = {"sizes": sizes, "min_relations": min_relations}
        degree, negatives = degree_and_negatives(max_degree, None, **settings)
        if min_relations is not None and (sizes != "declared" or negatives != "relations"):
            raise ConfigError(
                "`min_relations` must be given for declared sizes and a maximum degree of 1 only, got it with "
                f"{sizes} sizes and {degree}."
            )
        if max_degree is None and negatives == "entities":
            switched = entities_note(unfit_reason(settings), degree)
        with show_busy("calibrating the noise"):
            trained = data if holdout is None else Holdout.split(data, holdout).train
            suggestion = suggest(
                # The default seeds of reldp train, so that both use the same release.
                trained.cap_degrees(degree, seed=0),
                sizes=bounds,
                targets=targets,
                folder=place if place.is_dir() else None,
                release=release,
                negatives=negatives,
                min_relations=min_relations,
            )
    if page is not None:
        from reldp.reporting.graph_page import graph_page
        from reldp.runs.durable import write_durably

        with show_busy("computing what other settings would cost"):
            text = graph_page(graph, report, suggestion)
        write_durably(page, text.encode(), mode=0o600)
        if not as_json:
            click.echo(f"wrote {page}")
            return
    if as_json:
        values = report.to_json() | {"suggestion": suggestion and suggestion.to_json()}
        if not data.num_relations:
            values["warnings"].insert(0, _NO_RELATIONS)
        click.echo(json.dumps(values, indent=2))
        return
    parts: list[RenderableType] = [_facts(graph, report), _histogram(report), _caps(report)]
    if not data.num_relations:
        parts.insert(1, Text(f"\n! {_NO_RELATIONS}", style="yellow"))
    if suggestion is not None:
        parts.append(_plans(suggestion))
    if switched:
        parts.append(Text(f"Here {switched}"))
    if report.warnings:
        parts.append(_warnings(report))
    footer = "Sensitive: counted from the data without noise. Keep this page with the data."
    parts.append(Text(f"\n{footer}", style="dim"))
    visible_console().print(Group(*parts))


def _facts(name: str, report: "GraphInspection") -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    record = report.record
    protected = (
        "all protected"
        if report.num_protected == report.num_entities
        else f"{report.num_protected:,} of them protected"
    )
    table.add_row("graph", name)
    table.add_row("entities", f"{report.num_entities:,}, {protected}")
    if report.num_owners is not None:
        table.add_row("owners", f"{report.num_owners:,}: the unit of privacy")
    table.add_row("relations", f"{report.num_relations:,}")
    if report.types is not None:
        table.add_row("types", _types(report.types, declared=bool(record["relation_types"])))
    if report.texts is not None:
        texts = report.texts
        table.add_row(
            "texts", f"median {texts.median_words:,.0f} words, longest {texts.longest_words:,}"
        )
        table.add_row("duplicates", _duplicates(report))
    if report.feature_size is not None:
        table.add_row("features", f"{report.feature_size:,} numbers each")
    for label in ("source", "version", "license"):
        if record[label]:
            table.add_row(label, record[label])
    for kind, count in record["drops"].items():
        table.add_row("dropped", f"{count:,} {kind.replace('_', ' ')}")
    if record["capped_at"] is not None:
        table.add_row("capped", f"already, at {record['capped_at']:,}")
    return table


def _types(counts: dict[str, int], *, declared: bool) -> str:
    """Return the types with the number of relations of each, the most frequent ones first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = [f"{name} {count:,}" for name, count in ordered[:_MAX_TYPES]]
    more = ", ..." if len(ordered) > _MAX_TYPES else ""
    source = "declared" if declared else "as in the data"
    return f"{len(counts):,}, {source}: {', '.join(shown)}{more}"


def _duplicates(report: "GraphInspection") -> str:
    texts = report.texts
    if texts is None or not texts.num_sharing:
        return "every text is different"
    share = texts.num_sharing / report.num_entities
    return (
        f"{texts.num_sharing:,} entities ({share:.1%}) share their text with another, "
        f"at most {texts.largest_group:,} the same one"
    )


def _unit(report: "GraphInspection") -> str:
    """Return whose degrees are counted."""
    return "entity" if report.num_owners is None else "owner"


def _section(title: str, body: RenderableType) -> Group:
    return Group(Text(), Text(title, style="bold"), Padding(body, (0, 0, 0, 2), expand=False))


def _histogram(report: "GraphInspection") -> Group:
    degrees = report.degrees
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    largest = max(bar.num_entities for bar in degrees.bars)
    for bar in degrees.bars:
        # Rounded up, so that a bar that is not empty is visible.
        eighths = -(-8 * _BAR_WIDTH * bar.num_entities // largest)
        picture = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        table.add_row(bar.label, f"{bar.num_entities:,}", Text(picture, style="cyan"))
    title = (
        f"Relations per {_unit(report)}: median {degrees.median:,.0f}, mean {degrees.mean:,.1f}, "
        f"largest {degrees.largest:,}"
    )
    return _section(title, table)


def _warnings(report: "GraphInspection") -> Group:
    """Return signs that an assumption of the guarantee does not hold; docs/graphs.md explains the checks."""
    lines = [Text(f"! {line}", style="yellow") for line in report.warnings]
    return _section("A text or a feature must describe one entity only", Group(*lines))


def _grid(*headers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _caps(report: "GraphInspection") -> Group:
    units = "entities" if report.num_owners is None else "owners"
    table = _grid("max degree", "relations kept", "share", f"{units} above", "entities left alone")
    for cap in report.caps:
        table.add_row(
            f"{cap.max_degree}",
            f"{cap.num_relations:,}",
            f"{cap.share:.1%}",
            f"{cap.num_over:,}",
            f"{cap.num_left_alone:,}",
        )
    largest = report.degrees.largest_protected
    hint = (
        f"The largest degree of a protected {_unit(report)} is {largest}. If a rule of your domain bounds the "
        "degree, use promise_degrees with that bound: the guarantee then covers the raw graph. It needs more noise "
        "than a smaller cap."
    )
    hints = [] if report.caps[-1].num_over else [Text(hint)]
    return _section("What capping keeps", Group(table, *hints, Text(_FIXED_DEGREE)))


def _plans(suggestion: Suggestion) -> Group:
    settings, bounds, plans = suggestion.settings, suggestion.bounds, suggestion.plans
    if settings is None or bounds is None:
        return _section("Suggested plan", Text(suggestion.note))
    table = _grid("epsilon", "delta", *_SETTINGS, "noise multiplier", "noise / batch")
    for plan in plans:
        if plan["noise_multiplier"] is None:
            table.add_row(f"{plan['target_epsilon']:g}", "", "", "", "", "cannot be met", "")
            continue
        table.add_row(
            f"{plan['target_epsilon']:g}",
            round_up(plan["delta"]),
            f"{plan['num_negatives']}",
            f"{plan['expected_batch_size']:,.6g}",
            f"{plan['num_steps']:,}",
            f"{plan['noise_multiplier']:.3f}",
            f"{plan['noise_per_batch']:.4f}",
        )
    reasons = dict.fromkeys(plan["reason"] for plan in plans if "reason" in plan)
    warnings = [Text(_FIXED_TARGET)] if bounds.source == "private" else []
    lines: list[RenderableType] = [
        Text(
            f"max degree {settings.max_degree}; negatives: {_drawn(settings.negatives)}; "
            f"{_known(bounds, suggestion.made)}"
        ),
        table,
        *map(Text, reasons),
        *(Text(plan["advice"]) for plan in plans if "advice" in plan),
        *([Text(gain_table().caveat)] if suggestion.made else []),
        *warnings,
    ]
    return _section("Suggested plan", Group(*lines))


def _drawn(negatives: str) -> str:
    """Return a pool of negatives in words."""
    return "other relations" if negatives == "relations" else negatives


def _known(bounds: "SizeBounds", made: "Sequence[PrivacyPlan]") -> str:
    """Return what the plan follows from, in words; other relations as negatives need a lower bound on them too."""
    if bounds.source == "public":
        return "from exact sizes, taken as public"
    cost = f", released for epsilon {bounds.epsilon:.2g}" if bounds.source == "private" else ""
    source = "noisy" if bounds.source == "private" else bounds.source
    relations = relation_bounds(made[0]) if made else f"at most {bounds.max_relations:,} relations"
    return f"from {source} bounds: at least {bounds.min_entities:,} entities, {relations}{cost}"
