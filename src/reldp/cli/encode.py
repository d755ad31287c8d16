"""``reldp encode``: embeddings of a graph's entities, as a Parquet file of ids and vectors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click

from reldp._progress import is_on_terminal
from reldp._validate import POOLINGS
from reldp.cli.commands import Command, option
from reldp.cli.graph_options import drop_option
from reldp.cli.options import Integer, Word, device_option, json_option, show_ids_option
from reldp.cli.output import print_json
from reldp.cli.progress import show_busy

__all__ = ["command"]

_MAIN = "Main options"
_PRIVACY = "each embedding is computed from its entity's text or features without noise"


@click.command(
    cls=Command,
    examples=[
        "reldp encode RUN --graph my-graph -o embeddings.parquet",
        "reldp encode sentence-transformers/all-MiniLM-L6-v2 --graph wordnet-verbs -o verbs.parquet",
    ],
)
@click.argument("source")
@option(
    "--graph",
    required=True,
    group=_MAIN,
    metavar="GRAPH",
    help="Graph whose entities are encoded: a graph folder or the name of a bundled graph.",
)
@option(
    "-o",
    "--output",
    required=True,
    group=_MAIN,
    metavar="FILE",
    help="Parquet file to write, with the columns id and embedding.",
)
@option("--overwrite", is_flag=True, group=_MAIN, help="Replace a file that exists.")
@option(
    "--pooling",
    type=Word(POOLINGS),
    help="Pooling of token embeddings (default: the pooling that the model was saved with).",
)
@option(
    "--batch-size",
    type=Integer(),
    metavar="N",
    help="Number of entities that are encoded at a time (default: by the lengths of their texts).",
)
@device_option
@drop_option
@show_ids_option
@json_option
def command(
    source: str,
    graph: str,
    output: str,
    overwrite: bool,
    pooling: str | None,
    batch_size: int | None,
    device: str | None,
    drop: tuple[str, ...],
    show_ids: bool,
    as_json: bool,
) -> None:
    """Write the embeddings of a graph's entities to a file.

    SOURCE is a run folder, the folder of a model, or a model's name on the hub. The embeddings are sensitive: each is
    computed from its entity's text or features without noise. The certificate of a run covers its encoder, and not
    the texts that you encode with it. Memory use does not grow with the number of entities beyond the graph itself.
    """
    from reldp.encoders.device import default_device
    from reldp.encoders.embedding_file import check_embedding_file, write_embeddings
    from reldp.graph.bundled import open_graph
    from reldp.processes import join_processes
    from reldp.training.trained import load_trained

    processes = join_processes()
    if processes.is_first:
        check_embedding_file(output, overwrite=overwrite)  # before a model is loaded
    data = open_graph(graph, drop=drop, show_ids=show_ids)
    used_device = default_device() if device is None else device
    settings = {} if pooling is None else {"pooling": pooling}
    with show_busy("reading the model") if processes.is_first else nullcontext():
        encoder = load_trained(source, **settings).to(used_device)
    with _progress_bar(shown=processes.is_first) as progress:
        count = write_embeddings(
            encoder,
            data,
            output,
            batch_size=batch_size,
            overwrite=overwrite,
            progress=progress,
        )
    if not processes.is_first:
        return
    name = Path(output).name
    if as_json:
        fields = {"graph": Path(graph).name, "file": name, "num_entities": count}
        fields |= {"dim": encoder.dim, "pooling": pooling, "device": used_device}
        print_json({**fields, "privacy": f"sensitive: {_PRIVACY}"})
        return
    click.echo(
        f"{name}: {count:,} embeddings of length {encoder.dim:,}, computed on {used_device}. "
        f"Sensitive: {_PRIVACY}."
    )


@contextmanager
def _progress_bar(*, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, and a line every 30 seconds elsewhere."""
    from rich.console import Console
    from rich.progress import Progress

    if shown and not is_on_terminal():
        with show_busy("encoding") as show:
            encoded = 0

            def advance(done: int, total: int) -> None:
                nonlocal encoded
                encoded += done
                # Exact numbers of entities are sensitive.
                show(f"encoding {100 * encoded // max(1, total)} %")

            yield advance
        return
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, disable=not (shown and console.is_terminal)
    ) as bar:
        task = bar.add_task("encoding", total=None)
        yield lambda done, total: bar.update(task, advance=done, total=total)
