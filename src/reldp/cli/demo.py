"""``reldp demo``: trains, evaluates and certifies MiniLM on a bundled graph, in two minutes on a CPU."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from reldp._progress import is_on_terminal
from reldp.cli.commands import Command, option
from reldp.cli.options import Integer
from reldp.cli.output import print_table, round_up, shell_word, to_json
from reldp.cli.progress import show_progress

if TYPE_CHECKING:
    from reldp.evaluation import EvaluationResult
    from reldp.runs.certificate import Certificate
    from reldp.training.demo import Demo

__all__ = ["command"]

_MAIN = "Main options"
_METRICS = {"prec@1": "PREC@1", "mrr": "MRR"}
_INDENT: dict[str, Any] = {"initial_indent": "  ", "subsequent_indent": "  "}


@click.command(cls=Command, examples=["reldp demo", "reldp demo --output demo --compare"])
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("reldp-demo"),
    show_default=True,
    metavar="FOLDER",
    group=_MAIN,
    help="Folder for the results, which must not exist.",
)
@option(
    "--overwrite",
    is_flag=True,
    group=_MAIN,
    help="Delete the results of an earlier demo in that folder. A folder with anything else in it is refused.",
)
@option(
    "--compare",
    is_flag=True,
    group=_MAIN,
    help="Also train without privacy, with epsilon 1, and with cls pooling as in the paper: about ten minutes more.",
)
@option(
    "--model",
    metavar="NAME",
    group=_MAIN,
    help="Folder or hub name of a base model with mean pooling (default: MiniLM).",
)
@option(
    "--steps",
    type=Integer(),
    metavar="T",
    group=_MAIN,
    help="Number of steps of each training (default: 60).",
)
@option("--json", "as_json", is_flag=True, help="Print the results as one JSON line at the end.")
def command(
    output: Path,
    overwrite: bool,
    compare: bool,
    model: str | None,
    steps: int | None,
    as_json: bool,
) -> None:
    """Train MiniLM privately on relations between nouns, test it on verbs, and certify it.

    It takes about two minutes on two CPU cores. The folder will hold the private graph as CSV files, the recipe, and
    the run with model, certificate and report.
    """
    from reldp.training.demo_folder import DemoFolder

    folder = DemoFolder(output)
    folder.check(overwrite=overwrite)
    phases = _Phases()
    with phases.spin("loading torch and transformers"):
        from reldp.training import demo as library
    settings = library.DemoSettings()
    if model is not None:
        settings = replace(settings, model=model)
    if steps is not None:
        settings = replace(settings, num_steps=steps)
    demo = library.Demo(folder, settings)
    folder.claim(overwrite=overwrite)
    click.echo(f"reldp: about two minutes on two CPU cores; the results go to {output}.", err=True)
    rows, certificate = _main_run(demo, phases)
    comparisons = _comparisons(demo, phases) if compare else {}
    results = _results(rows, certificate, comparisons, phases, settings)
    folder.write(results)
    _show(demo, rows, certificate, comparisons, phases)
    if as_json:
        click.echo(to_json(results, indent=None))


class _Phases:
    """Times of the phases, with something that moves while they last."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._split = 0.0

    @contextmanager
    def spin(self, name: str) -> Iterator[None]:
        """Show a spinner on a terminal."""
        began = time.perf_counter()
        if is_on_terminal():
            from rich.console import Console

            with Console(stderr=True).status(name):
                yield
        else:
            yield
        self._done(name, time.perf_counter() - began)

    @contextmanager
    def bar(self, name: str, before: str | None = None) -> Iterator[None]:
        """Show bars of what loops report; `before` names the part until texts are encoded, if it is timed apart."""
        began = time.perf_counter()
        self._split = began
        with show_progress(watch=self._watch):
            yield
        if before is not None:
            self._done(before, self._split - began)
            began = self._split
        self._done(name, time.perf_counter() - began)

    def _watch(self, phase: str, done: int, total: int) -> None:
        if phase == "encoding" and done == total:
            self._split = time.perf_counter()

    def _done(self, name: str, seconds: float) -> None:
        self.seconds[name] = round(seconds, 2)
        click.echo(f"reldp: {seconds:6.1f} s  {name}", err=True)


def _main_run(demo: "Demo", phases: _Phases) -> tuple[dict[str, "EvaluationResult"], "Certificate"]:
    """Evaluate, train, evaluate, verify and report."""
    from reldp.evaluation.lines import evaluation_lines
    from reldp.reporting.publishing import write_report
    from reldp.reporting.verification import verify
    from reldp.runs.run_folder import RunFolder

    with phases.spin("reading graphs and model, and computing the noise for epsilon"):
        trainer = demo.prepare()
    with phases.bar("evaluating before training"):
        base = demo.evaluate(trainer.encoder)
    with phases.bar("training", before=f"encoding {trainer.capped.num_entities:,} texts once"):
        result = demo.train(trainer)
    with phases.bar("evaluating after training"):
        private = demo.evaluate(result.encoder)
    with phases.spin("verifying the certificate and writing the report"):
        run = RunFolder(demo.folder.run)
        named = {"graph": Path(demo.settings.test_graph).name, "pooling": None}
        for line in evaluation_lines(named, base, private):
            run.append_line(run.evaluations, line)
        certificate = verify(run.path).certificate
        write_report(run.path)
    return {"base": base, "private": private}, certificate


def _comparisons(demo: "Demo", phases: _Phases) -> dict[str, dict[str, Any]]:
    """Train and evaluate what --compare asks for."""
    from reldp.training.demo import COMPARISONS

    results = {}
    for name, comparison in COMPARISONS.items():
        with phases.bar(f"comparison {name}"):
            trainer = demo.comparison(name)
            base = demo.evaluate(trainer.encoder) if comparison.has_own_base else None
            result = trainer.fit(demo.folder.compare / name)
            results[name] = {
                "label": comparison.label,
                "base": base,
                "after": demo.evaluate(result.encoder),
                "epsilon": result.certificate.epsilon,
            }
    return results


def _results(
    rows: dict[str, "EvaluationResult"],
    certificate: "Certificate",
    comparisons: dict[str, dict[str, Any]],
    phases: _Phases,
    settings: Any,
) -> dict[str, Any]:
    """Return the numbers for programs."""
    gains = {name: rows["private"].gain_over(rows["base"], name) for name in _METRICS}
    return {
        **{arm: _numbers(result) for arm, result in rows.items()},
        "gain": {name: [gain.value, gain.low, gain.high] for name, gain in gains.items()},
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "test_relations": rows["base"].num_relations,
        "compare": {
            name: {
                "epsilon": other["epsilon"],
                "base": None if other["base"] is None else _numbers(other["base"]),
                "after": _numbers(other["after"]),
            }
            for name, other in comparisons.items()
        },
        "num_steps": settings.num_steps,
        "phases": dict(phases.seconds),
        "seconds": round(sum(phases.seconds.values()), 2),
    }


def _numbers(result: "EvaluationResult") -> dict[str, Any]:
    intervals = {name: [result.metrics[name].low, result.metrics[name].high] for name in _METRICS}
    return {**{name: result[name] for name in _METRICS}, "intervals": intervals}


def _show(
    demo: "Demo",
    rows: dict[str, "EvaluationResult"],
    certificate: "Certificate",
    comparisons: dict[str, dict[str, Any]],
    phases: _Phases,
) -> None:
    """Print what was promised, what was gained, where everything is, and what to try next."""
    from rich.table import Table

    click.echo("\nWhat was promised")
    click.echo(_promise(certificate))
    click.echo("\nWhat was gained")
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="dim")
    for header in ("encoder", "epsilon", *_METRICS.values()):
        table.add_column(header, justify="left" if header == "encoder" else "right")
    epsilon = round_up(certificate.epsilon, 3)
    table.add_row("base model", "", *_cells(rows["base"]))
    table.add_row("after private training", epsilon, *_cells(rows["private"]))
    gains = [rows["private"].gain_over(rows["base"], name) for name in _METRICS]
    table.add_row("gain, in points", "", *map(_signed, gains))
    for other in comparisons.values():
        if other["base"] is not None:
            table.add_row("base model, cls", "", *_cells(other["base"]))
        table.add_row(other["label"], round_up(other["epsilon"], 3), *_cells(other["after"]))
    print_table(
        table,
        f"Percent, with 95 % intervals: {rows['base'].num_relations:,} relations between verbs, none of which was "
        f"trained on; each endpoint is found among {demo.settings.candidates}. The interval of the gain is that of the "
        "differences, relation by relation. The base model is MiniLM with mean pooling, as it is meant to be used; "
        "training changed the weights of tokens in the mean.",
    )
    run = demo.folder.run
    click.echo(f"\nWhere it is, after {sum(phases.seconds.values()):.0f} seconds")
    for name, path in (
        ("model", run / "model"),
        ("certificate", run / "certificate.md"),
        ("report", run / "report.html"),
        ("private graph", demo.folder.graph),
        ("settings", demo.folder.recipe),
    ):
        click.echo(f"  {name:<14} {path}")
    click.echo("\nTry next")
    for line in (
        f"reldp verify {shell_word(run)}",
        f"reldp evaluate {shell_word(run)} --graph wordnet-adjectives --before --num-relations 1024",
        f"reldp train YOUR_GRAPH --config {shell_word(demo.folder.recipe)} -o my-run",
    ):
        click.echo(f"  {line}")


def _promise(certificate: "Certificate") -> str:
    """Return the guarantee in plain words."""
    if not math.isfinite(certificate.epsilon):
        return "  Nothing: epsilon is infinite."
    epsilon = round_up(certificate.epsilon, 3)
    odds = math.exp(float(epsilon))
    sure = round_up(100 * odds / (1 + odds), 3)
    text = (
        f"The trained encoder is (epsilon {epsilon}, delta {round_up(certificate.delta, 2)})-differentially private "
        "for every entity with its relations. Whoever sees the encoder, or every step of its training, and guesses "
        "whether one entity was in the private graph, improves the odds of that guess by a factor of at most "
        f"{round_up(odds, 3)}: an even guess becomes at most {sure} % sure, up to delta. This is {certificate.status}, "
        "under the assumptions of the certificate, for the graph after capping its degrees."
    )
    return fill(text, min(get_terminal_size().columns, 100), **_INDENT)


def _cells(result: "EvaluationResult") -> list[str]:
    return [str(result.metrics[name]) for name in _METRICS]


def _signed(gain: Any) -> str:
    return f"{100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
