"""``reldp evaluate``: relation prediction on a test graph, for a run, a model or a bare encoder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp.cli.options import Integer, Word, json_option, show_ids_option
from reldp.cli.output import print_json, print_table
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.evaluation import EvaluationResult

__all__ = ["command"]


@click.command()
@click.argument("source")
@click.option("--graph", required=True, help="Test graph: a folder or a bundled graph's name.")
@click.option(
    "--candidates",
    default="256",
    show_default=True,
    help="Relations per batch, as in the paper, or all for a ranking of all entities.",
)
@click.option("--score", type=Word(["cosine", "dot"]), default="cosine", show_default=True)
@click.option("--pooling", type=Word(["mean", "cls", "last"]), help="The model's own unless given.")
@click.option("--max-relations", type=Integer(), help="Only so many relations, chosen by the seed.")
@click.option("--filtered/--unfiltered", default=None, help="Leave other known partners out.")
@click.option(
    "--seed", type=Integer(), default=0, show_default=True, help="Of order and bootstrap."
)
@click.option("--batch-size", type=Integer(), default=64, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@show_ids_option
@json_option
def command(
    source: str,
    graph: str,
    candidates: str,
    score: str,
    pooling: str | None,
    max_relations: int | None,
    filtered: bool | None,
    seed: int,
    batch_size: int,
    device: str,
    show_ids: bool,
    as_json: bool,
) -> None:
    """Say how well an encoder predicts the relations of a graph.

    SOURCE is a run folder, a model's folder or a hub name. The numbers are sensitive for the
    test graph. Those of a run are kept in its evaluations.jsonl for the report.
    """
    from reldp.evaluation import evaluate
    from reldp.graph.bundled import open_graph
    from reldp.training.trained import load_trained

    tested = open_graph(graph, show_ids=show_ids)
    encoder = load_trained(source, **({} if pooling is None else {"pooling": pooling})).to(device)
    result = evaluate(
        encoder,
        tested,
        _candidates(candidates),
        score=score,
        filtered=filtered,
        max_relations=max_relations,
        seed=seed,
        batch_size=batch_size,
    )
    fields = {"graph": Path(graph).name, "pooling": pooling, **result.to_json()}
    if as_json:
        print_json(fields)
    else:
        _show(result)
    _keep(source, fields)


def _candidates(text: str) -> int | str:
    if text == "all":
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"`candidates` must be a whole number or all, got {text!r}.") from None


def _keep(source: str, fields: dict[str, Any]) -> None:
    """Adds the numbers to a run's own list, and to its report if it has one."""
    from reldp.reporting.publishing import refresh_report
    from reldp.runs.run_folder import RunFolder

    run = RunFolder(source)
    if run.has_run:
        run.append_line(run.evaluations, fields)
        refresh_report(run)


def _show(result: "EvaluationResult") -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("metric", "percent", "95 % interval"):
        table.add_column(header, justify="left" if header == "metric" else "right")
    for name, found in result.metrics.items():
        table.add_row(
            name, f"{100 * found.value:.1f}", f"{100 * found.low:.1f} to {100 * found.high:.1f}"
        )
    print_table(
        table,
        f"{result.num_relations:,} relations, each asked from both ends. Sensitive: computed "
        "from the test graph's relations without noise.",
    )
