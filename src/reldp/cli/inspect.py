"""``reldp inspect``: what a graph holds, what capping keeps, and a plan to start from.

The counting is in `reldp.graph.inspection`, the plan in `reldp.training.suggestion`.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reldp.cli.options import Integer, Word, show_ids_option
from reldp.cli.output import round_up
from reldp.training.suggestion import suggest

if TYPE_CHECKING:
    from reldp.graph.inspection import GraphInspection
    from reldp.graph.sizes import SizeBounds
    from reldp.training.suggestion import Suggestion

__all__ = ["command"]

_BAR_WIDTH = 40


@click.command()
@click.argument("graph")
@click.option(
    "--drop",
    multiple=True,
    metavar="KIND",
    help="Drop and count a kind of damage, such as duplicate_relations; repeatable.",
)
@click.option("--max-degree", type=int, default=5, show_default=True, help="Cap of the plan.")
@click.option(
    "--target-epsilon",
    "targets",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    default=(1.0, 4.0, 10.0),
    show_default=True,
    help="Epsilon of the plan; repeatable.",
)
@click.option(
    "--plan/--no-plan", "with_plan", default=True, help="Suggest a plan; takes some seconds."
)
@click.option(
    "--sizes",
    type=Word(["private", "declared", "public"]),
    default="private",
    show_default=True,
    help="What the plan knows about the numbers of entities and relations.",
)
@click.option("--min-entities", type=Integer(), help="Declared sizes: at least so many entities.")
@click.option(
    "--max-relations", type=Integer(), help="Declared sizes: at most so many relations, capped."
)
@click.option(
    "--release-sizes",
    "release",
    is_flag=True,
    help="Draw private bounds now if there are none; costs epsilon, once per graph and cap.",
)
@show_ids_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    graph: str,
    drop: tuple[str, ...],
    max_degree: int,
    targets: tuple[float, ...],
    with_plan: bool,
    sizes: str,
    min_entities: int | None,
    max_relations: int | None,
    release: bool,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Show what GRAPH holds: sizes, degrees, what capping keeps, a suggested plan.

    GRAPH is a graph folder, or a bundled one: wordnet-nouns, wordnet-verbs, wordnet-adjectives.
    The page shows exact numbers, which are sensitive. The plan follows from bounds on the sizes:
    private ones are reused if they have been released, and drawn only with --release-sizes.
    """
    from reldp.graph.bundled import open_graph
    from reldp.graph.inspection import inspect_graph

    busy = Console(stderr=True)
    with busy.status("reading and counting"):
        found = open_graph(graph, drop=drop, show_ids=show_ids)
        report = inspect_graph(found, show_ids=show_ids)
    suggestion = None
    if with_plan and found.num_relations:
        bounds = {"sizes": sizes, "min_entities": min_entities, "max_relations": max_relations}
        place = Path(graph)
        with busy.status("calibrating the noise"):
            suggestion = suggest(
                # The seed is train's default too, so that both meet the same release.
                found.cap_degrees(max_degree, seed=0),
                sizes=bounds,
                targets=targets,
                folder=place if place.is_dir() else None,
                release=release,
            )
    if as_json:
        values = None if suggestion is None else suggestion.to_json()
        click.echo(json.dumps({**report.to_json(), "suggestion": values}, indent=2))
        return
    parts: list[RenderableType] = [_facts(graph, report), _histogram(report), _caps(report)]
    if suggestion is not None:
        parts.append(_plans(suggestion))
    if report.warnings:
        parts.append(_warnings(report))
    footer = "Counted from the data without noise: sensitive. Keep this page with the data."
    parts.append(Text(f"\n{footer}", style="dim"))
    Console(highlight=False, markup=False).print(Group(*parts))


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
    table.add_row("relations", f"{report.num_relations:,}")
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
        table.add_row("left out", f"{count:,} {kind.replace('_', ' ')}")
    if record["capped_at"] is not None:
        table.add_row("capped", f"already, at {record['capped_at']:,}")
    return table


def _duplicates(report: "GraphInspection") -> str:
    texts = report.texts
    if texts is None or not texts.num_sharing:
        return "every text is different"
    share = texts.num_sharing / report.num_entities
    return (
        f"{texts.num_sharing:,} entities ({share:.1%}) share their text with another, "
        f"at most {texts.largest_group:,} the same one"
    )


def _section(title: str, body: RenderableType) -> Group:
    return Group(Text(), Text(title, style="bold"), Padding(body, (0, 0, 0, 2), expand=False))


def _histogram(report: "GraphInspection") -> Group:
    degrees = report.degrees
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    most = max(bar.num_entities for bar in degrees.bars)
    for bar in degrees.bars:
        # Rounded up: a bar that is not empty is seen.
        eighths = -(-8 * _BAR_WIDTH * bar.num_entities // most)
        picture = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        table.add_row(bar.label, f"{bar.num_entities:,}", Text(picture, style="cyan"))
    title = (
        f"Relations per entity: median {degrees.median:,.0f}, mean {degrees.mean:,.1f}, "
        f"largest {degrees.largest:,}"
    )
    return _section(title, table)


def _warnings(report: "GraphInspection") -> Group:
    """What speaks against an assumption of the guarantee; docs/graphs.md says how it is found."""
    lines = [Text(f"! {line}", style="yellow") for line in report.warnings]
    return _section("Texts and features must be an entity's own", Group(*lines))


def _grid(*headers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _caps(report: "GraphInspection") -> Group:
    table = _grid("max degree", "relations kept", "share", "entities over", "left with none")
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
        f"The largest degree of a protected entity is {largest}. Where that is a rule of the data "
        "and not luck, promise it (promise_degrees): a plan then needs less noise."
    )
    body = table if report.caps[-1].num_over else Group(table, Text(hint))
    return _section("What capping keeps", body)


def _plans(suggestion: "Suggestion") -> Group:
    settings, bounds, plans = suggestion.settings, suggestion.bounds, suggestion.plans
    if settings is None or bounds is None:
        return _section("A plan to start from", Text(suggestion.note))
    table = _grid("epsilon", "delta", "noise multiplier", "noise / batch")
    for plan in plans:
        if plan["noise_multiplier"] is None:
            table.add_row(f"{plan['target_epsilon']:g}", "", "cannot be met", "")
            continue
        table.add_row(
            f"{plan['target_epsilon']:g}",
            round_up(plan["delta"]),
            f"{plan['noise_multiplier']:.3f}",
            f"{plan['noise_per_batch']:.4f}",
        )
    words = (
        f"max degree {settings.max_degree}, {settings.num_negatives} negatives, "
        f"batch {settings.expected_batch_size:,}, {settings.num_steps:,} steps"
    )
    reasons = dict.fromkeys(plan["reason"] for plan in plans if "reason" in plan)
    lines = Group(Text(words), Text(_known(bounds)), table, *map(Text, reasons))
    return _section("A plan to start from", lines)


def _known(bounds: "SizeBounds") -> str:
    """What the plan knows about the sizes, in words."""
    if bounds.source == "public":
        return "from exact sizes, taken as public"
    cost = f", released for epsilon {bounds.epsilon:.2g}" if bounds.source == "private" else ""
    return (
        f"from {bounds.source} bounds: at least {bounds.min_entities:,} entities, "
        f"at most {bounds.max_relations:,} relations{cost}"
    )
