"""``reldp evaluate``: relation prediction on a test graph, for a run, a model or a pretrained encoder."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp._validate import POOLINGS, SCORES, check_integer
from reldp.cli.commands import Command, option
from reldp.cli.graph_options import drop_option
from reldp.cli.options import Integer, Word, device_option, is_plain, json_option, show_ids_option
from reldp.cli.output import print_json, print_table, say, shell_word
from reldp.cli.progress import show_busy, show_progress
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.evaluation import EvaluationResult

__all__ = ["command"]

_MAIN = "Main options"
_GROUPS = "relations are ranked in groups of --candidates, and a smaller last group is dropped"


@click.command(
    cls=Command,
    examples=[
        "reldp evaluate RUN --graph wordnet-verbs --before",
        "reldp evaluate sentence-transformers/all-MiniLM-L6-v2 --graph wordnet-verbs",
    ],
)
@click.argument("source")
@option(
    "--graph",
    required=True,
    group=_MAIN,
    metavar="GRAPH",
    help="Test graph: a graph folder or the name of a bundled graph.",
)
@option(
    "--candidates",
    default="256",
    show_default=True,
    group=_MAIN,
    metavar="N|all",
    help="Number of candidates that each relation's partner is ranked among, or all entities of the graph.",
)
@option(
    "--num-relations",
    type=Integer(),
    group=_MAIN,
    metavar="N",
    help="Number of relations to sample for the evaluation (default: all). A last group with fewer relations than "
    "--candidates is dropped.",
)
@option(
    "--before",
    is_flag=True,
    group=_MAIN,
    help="Also evaluate the text model that the run started from, so that the report shows both with the gain.",
)
@option(
    "--base-model",
    metavar="MODEL",
    help="With --before: folder or hub name of that text model (default: the name in the run's ledger).",
)
@option("--max-relations", "num_relations_alias", type=Integer(), hidden=True)  # the name in 0.3
@option(
    "--score",
    type=Word(SCORES),
    help="Similarity of two embeddings that relations are ranked by (default: the trained scores, if the run has a "
    "typed loss and the test graph has types; else cosine).",
)
@option(
    "--pooling",
    type=Word(POOLINGS),
    help="Pooling of token embeddings (default: the pooling that the model was saved with).",
)
@option(
    "--filtered/--unfiltered",
    default=None,
    help="Whether to remove other true partners from the candidates (default: with --candidates all only). With "
    "trained scores, only partners by the same type and direction are removed.",
)
@option(
    "--seed",
    type=Integer(),
    metavar="N",
    default=0,
    show_default=True,
    help="Seed of the order of relations and of the bootstrap intervals.",
)
@option(
    "--batch-size",
    type=Integer(),
    metavar="N",
    default=64,
    show_default=True,
    help="Number of entities that are encoded at a time.",
)
@device_option
@drop_option
@show_ids_option
@json_option
def command(
    source: str,
    graph: str,
    candidates: str,
    score: str | None,
    pooling: str | None,
    num_relations: int | None,
    num_relations_alias: int | None,
    filtered: bool | None,
    seed: int,
    batch_size: int,
    before: bool,
    base_model: str | None,
    device: str | None,
    drop: tuple[str, ...],
    show_ids: bool,
    as_json: bool,
) -> None:
    """Evaluate how well an encoder predicts the relations of a graph.

    SOURCE is a run folder, the folder of a model, or a model's name on the hub. The results are sensitive: they are
    computed from the relations of the test graph without noise. The results of a run are also appended to its
    evaluations.jsonl, for the report; a published bundle stays as it is. If relations have types, the metrics are also
    shown by type, with their means over relations (micro) and over types (macro).
    """
    from reldp.encoders.device import default_device
    from reldp.evaluation import evaluate
    from reldp.evaluation.lines import evaluation_lines
    from reldp.graph.bundled import open_graph
    from reldp.processes import join_processes
    from reldp.training.trained import load_base, load_trained, load_trained_loss

    processes = join_processes()
    test_graph = open_graph(graph, drop=drop, show_ids=show_ids)
    limit = num_relations_alias if num_relations is None else num_relations
    if limit is not None:
        fix = "It is the number of relations of GRAPH to evaluate."
        check_integer("num_relations", limit, low=1, error=ConfigError, fix=fix)
    if base_model is not None and not before:
        raise ConfigError("`base_model` must be given with --before only, got it without.")
    used_device = default_device() if device is None else device
    settings = {} if pooling is None else {"pooling": pooling}
    with show_busy("reading the model") if processes.is_first else nullcontext():
        encoder = load_trained(source, **settings).to(used_device)
    is_typed = score is None and bool(test_graph.type_names)
    loss = load_trained_loss(source) if is_typed else None
    if before and loss is not None:
        raise ConfigError(
            "`before` must be used without trained scores, which the base model lacks. Add --score cosine."
        )
    base = load_base(source, base_model, **settings).to(used_device) if before else None
    protocol: dict[str, Any] = {
        "score": SCORES[0] if score is None else score,
        "loss": loss,
        "filtered": filtered,
        "max_relations": limit,
        "seed": seed,
        "batch_size": batch_size,
    }
    count = _candidates(candidates)
    with show_progress(quiet=not processes.is_first):
        first = None if base is None else evaluate(base, test_graph, count, **protocol)
        result = evaluate(encoder, test_graph, count, **protocol)
    if not processes.is_first:
        return
    if limit is not None and result.num_relations != limit:
        click.echo(
            f"reldp: {result.num_relations:,} relations were used, and not {limit:,}: "
            f"{'the graph has no more' if result.num_relations == test_graph.num_relations else _GROUPS}.",
            err=True,
        )
    named = {"graph": Path(graph).name, "pooling": pooling}
    lines = evaluation_lines(named, first, result)
    if as_json:
        print_json({**lines[-1], **_before(lines), "device": used_device})
    else:
        if first is not None:
            click.echo("before training")
            _show(first, used_device)
            click.echo("\nafter training")
        _show(result, used_device)
    _store(source, lines)


def _before(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the evaluation before training for programs, if there is one."""
    return {"before": lines[0]} if len(lines) > 1 else {}


def _candidates(text: str) -> int | str:
    """Return the number of candidates, or the word all."""
    if text == "all":
        return text
    try:
        if not is_plain(text):
            raise ValueError
        return int(text)
    except ValueError:
        raise ConfigError(f"`candidates` must be a whole number or all, got {text!r}.") from None


def _store(source: str, lines: list[dict[str, Any]]) -> None:
    """Append the results to a run's evaluations, and write its report again if it has one."""
    from reldp.reporting.publishing import refresh_report
    from reldp.runs.run_folder import RunFolder

    run = RunFolder(source)
    if run.is_bundle:  # it stays as it was published
        say(
            f"reldp: the results are not stored: {shell_word(source)} is a published bundle, which holds nothing "
            "sensitive.",
            err=True,
        )
    elif run.has_run:
        for fields in lines:
            run.append_line(run.evaluations, fields)
        refresh_report(run)


def _show(result: "EvaluationResult", device: str) -> None:
    """Print the table for people."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("metric", "percent", "95 % interval"):
        table.add_column(header, justify="left" if header == "metric" else "right")
    for name, metric in result.metrics.items():
        interval = f"{100 * metric.low:.1f} to {100 * metric.high:.1f}"
        table.add_row(name, f"{100 * metric.value:.1f}", interval)
    print_table(
        table,
        f"{result.num_relations:,} relations, each predicted from both endpoints, on {device}. Sensitive: computed "
        "from the relations of the test graph without noise.",
    )
    if result.by_type:
        _show_types(result)


def _show_types(result: "EvaluationResult") -> None:
    """Print the table by type."""
    from rich.table import Table

    names = [name for name in result.metrics if name != "ndcg"]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("type", "relations", *names):
        table.add_column(header, justify="left" if header == "type" else "right")
    for kind, metrics in result.by_type.items():
        values = [f"{100 * metrics[name].value:.1f}" for name in names]
        table.add_row(kind, f"{result.counts[kind]:,}", *values)
    micro = [f"{100 * result[name]:.1f}" for name in names]
    macro = [f"{100 * result.macro[name]:.1f}" for name in names]
    table.add_row("mean over relations (micro)", f"{result.num_relations:,}", *micro)
    table.add_row("mean over types (macro)", "", *macro)
    print_table(table, f"Percent, by type of relation; ranked by {result.settings['score']}.")
