"""``reldp audit``: tries to refute a plan's claim, and with canaries a whole run's.

The mechanism audit is `reldp.auditing.audit_mechanism`, the training audit `reldp.auditing.audit_training`; this
command joins the latter with `reldp.training.Trainer`. What a run's audits found is appended to its ledger, and from
there goes onto its certificate.
"""

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp.cli.exit_codes import NOT_VERIFIED
from reldp.cli.options import (
    Integer,
    Number,
    json_option,
    make_plan,
    plan_options,
    show_ids_option,
)
from reldp.cli.output import print_json, print_table
from reldp.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.table import Table

    from reldp.auditing import Finding, MechanismAudit, TrainingAudit
    from reldp.encoders import Encoder
    from reldp.plan import PrivacyPlan
    from reldp.reporting.run_folder import RunFolder

__all__ = ["command"]

_SEARCHED = 5  # largest degree and number of negatives that the search builds batches of


@click.command(short_help="try to refute a plan's or a run's epsilon")
@click.argument("run", required=False, type=click.Path(file_okay=False))
@click.option("--plan", "plan_file", metavar="FILE", help="A plan.json instead of a run or flags.")
@click.option(
    "--trials",
    type=Integer(),
    default=20_000,
    show_default=True,
    help="Trials on each of the two graphs.",
)
@click.option(
    "--steps", type=Integer(), default=1, show_default=True, help="Steps composed in a trial."
)
@click.option(
    "--at-delta", "deltas", type=Number(), multiple=True, help="Where to look; repeatable."
)
@click.option(
    "--confidence",
    type=Number(),
    default=0.99,
    show_default=True,
    help="With which all bounds hold together.",
)
@click.option("--seed", type=Integer(), help="For a repeatable audit; fresh coins unless given.")
@click.option("--plot", metavar="FILE", help="Draw claim and bounds to a .png, .svg or .pdf.")
@click.option(
    "--canaries", type=Integer(), help="Also retrain a copy of RUN with so many canaries."
)
@click.option("--graph", help="The training graph of RUN, for --canaries.")
@click.option("--model", help="The starting model of RUN, for --canaries, if not by its own name.")
@plan_options
@show_ids_option
@json_option
def command(
    run: str | None,
    plan_file: str | None,
    trials: int,
    steps: int,
    deltas: tuple[float, ...],
    confidence: float,
    seed: int | None,
    plot: str | None,
    canaries: int | None,
    graph: str | None,
    model: str | None,
    show_ids: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    r"""Try to refute the claimed epsilon of RUN, of a plan file, or of a plan given by flags.

    The real sampler, clipping rule, sum and noise run on two graphs that differ in one entity, with gradients chosen to
    tell them apart; what comes out bounds epsilon from below. A search looks for a batch that breaks the rule's own
    claim. With --canaries a copy of RUN is trained on a graph with strangers put in by coin flips, and the trained
    encoder is asked who was in. That copy is for testing and is destroyed.

    Exit code 3 means that a claim is refuted.

    \b
    Examples:
      reldp audit RUN --plot audit.png
      reldp audit RUN --canaries 200 --graph GRAPH
      reldp audit --num-entities 12 --num-relations 4 --max-degree 1 --num-negatives 2
        --sample-rate 0.4 --noise-multiplier 1 --num-steps 1 --delta 0.01
    """
    _check_usage(run, plan_file, canaries, graph)
    folder = _run_folder(run)
    plan = _plan(folder, plan_file, settings)
    searched = _search(plan)
    audit = _mechanism(plan, trials, steps, deltas, confidence, seed)
    if plot is not None:
        from reldp.auditing.figure import draw_audit

        draw_audit(audit, plot)
    trained = None
    if folder is not None and canaries is not None and graph is not None:
        trained = _training(folder, plan, canaries, graph, model, seed or 0, show_ids)
    found = {"mechanism": audit, "search": searched, "training": trained}
    done = {name: part for name, part in found.items() if part is not None}
    if folder is not None:
        _record(folder, [part.to_record() for part in done.values()])
    if as_json:
        print_json({name: part.to_dict() for name, part in done.items()} | {"seed": seed})
    else:
        _print(audit, [part.verdict for part in done.values()], plot)
    if any(part.refuted for part in done.values()):
        raise click.exceptions.Exit(NOT_VERIFIED)


def _check_usage(
    run: str | None, plan_file: str | None, canaries: int | None, graph: str | None
) -> None:
    if run is not None and plan_file is not None:
        raise ConfigError("`plan` must not be given with a run, which has its own. Leave one out.")
    if canaries is not None and (run is None or graph is None):
        raise ConfigError(
            "`canaries` needs a run and its training graph. Use reldp audit RUN --canaries N --graph GRAPH."
        )
    if graph is not None and canaries is None:
        raise ConfigError("`graph` must be given with canaries only. Add --canaries 200.")


def _run_folder(run: str | None) -> "RunFolder | None":
    if run is None:
        return None
    from reldp.reporting.run_folder import RunFolder

    folder = RunFolder(run)
    folder.require_run()
    return folder


def _plan(
    folder: "RunFolder | None", plan_file: str | None, settings: dict[str, Any]
) -> "PrivacyPlan":
    """The plan of the run, of the file, or of the flags."""
    from reldp.plan import PrivacyPlan

    if folder is not None:
        from reldp.reporting.run_folder import read_plan

        return read_plan(folder)
    if plan_file is None:
        return make_plan(settings)
    return PrivacyPlan.from_json(Path(plan_file).read_bytes())


def _mechanism(
    plan: "PrivacyPlan",
    trials: int,
    steps: int,
    deltas: tuple[float, ...],
    confidence: float,
    seed: int | None,
) -> "MechanismAudit":
    """Runs the mechanism audit under a progress bar."""
    from rich.console import Console
    from rich.progress import Progress

    from reldp.auditing import audit_mechanism

    if seed is not None and not 0 <= seed < 2**64:
        raise InputError(f"`seed` must be an integer from 0 to 2^64 - 1, got {seed}.")
    with Progress(console=Console(stderr=True), transient=True) as bar:
        total = 2 * 2 * (trials + max(trials // 2, 100)) * steps  # designs, graphs, both halves
        task = bar.add_task("auditing", total=total)
        return audit_mechanism(
            plan,
            trials=trials,
            num_steps=steps,
            deltas=deltas or None,
            confidence=confidence,
            key=None if seed is None else seed.to_bytes(32, "big"),
            progress=lambda done: bar.advance(task, done),
        )


def _search(plan: "PrivacyPlan") -> "Finding | None":
    """A short search for a batch that breaks the rule's claim; small degrees break it as well as large."""
    from reldp.auditing import search_neighbours

    if plan.unit != "entity":
        return None
    return search_neighbours(
        plan.rule,
        max_degree=min(plan.max_degree, _SEARCHED),
        num_negatives=min(plan.num_negatives, _SEARCHED),
        evaluations=1000,
    )


def _training(
    folder: "RunFolder",
    plan: "PrivacyPlan",
    canaries: int,
    graph: str,
    model: str | None,
    seed: int,
    show_ids: bool,
) -> "TrainingAudit":
    """Retrains a copy of the run with canaries, in a folder that does not outlive this call."""
    from reldp.accounting.ledger import read_ledger
    from reldp.auditing import audit_training
    from reldp.graph.bundled import open_graph
    from reldp.training import Trainer
    from reldp.training.advice import PoorPlanWarning

    if plan.negatives == "public":
        raise ConfigError(
            "`canaries` cannot be used for a run with public negatives, whose pool is not at hand. "
            "Use reldp.auditing.audit_training."
        )
    start = read_ledger(folder.ledger).start
    capped = open_graph(graph, show_ids=show_ids).cap_degrees(plan.max_degree, seed=seed)
    click.echo("Training a copy with canaries. It is for testing and will be destroyed.", err=True)
    with tempfile.TemporaryDirectory(prefix="reldp-audit-") as home:

        def train(with_canaries: Any, copy: "PrivacyPlan") -> Any:
            encoder = _encoder(start["encoder"], model)
            trainer = Trainer(encoder, with_canaries, copy, **_settings(start["training"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PoorPlanWarning)  # the run itself was warned
                return trainer.fit(Path(home) / "run").encoder.encode_graph

        return audit_training(
            capped,
            plan,
            train,
            reference=_encoder(start["encoder"], model).encode_graph,
            num_canaries=canaries,
            seed=seed,
        )


def _settings(training: dict[str, Any]) -> dict[str, Any]:
    """How the run learned, for a copy that logs nothing.

    A ledger that says nothing about pairs is of a version that compared a negative with one end.
    """
    return {"pairing": "one", **training, "log_sensitive": False}


def _encoder(described: dict[str, Any], model: str | None) -> "Encoder":
    """The encoder that the ledger describes, as it was before training."""
    from reldp.encoders import FeatureEncoder, TextEncoder

    if described["kind"] == "features":
        names = ("in_dim", "hidden", "dim", "activation", "bias", "normalise")
        return FeatureEncoder(**{name: described[name] for name in names})
    same = {name: described[name] for name in ("pooling", "normalise", "max_length", "dtype")}
    how = described["adaptation"]
    if how["train"] == "head":
        same |= {"train": "head", "head_hidden": how["hidden"], "head_dim": how["dim"]}
        same |= {"seed": how["seed"]}
    else:
        same |= how
    return TextEncoder.load(model or described["base_model"], **same)


def _record(folder: "RunFolder", found: list[dict[str, Any]]) -> None:
    """Appends the findings to the run's ledger, and publishes its certificate anew."""
    from reldp.reporting.publishing import record_audit

    if not record_audit(folder, found):
        click.echo("reldp: the run is not complete: its ledger keeps no audit.", err=True)


def _print(audit: "MechanismAudit", verdicts: list[str], plot: str | None) -> None:
    sentences = list(verdicts)
    if plot is not None:
        sentences.append(f"The picture is in {Path(plot).name}.")
    sentences.append(
        "An audit can refute a claim. It cannot prove one; the proof is in the plan's analysis."
    )
    print_table(_table(audit), *sentences)


def _table(audit: "MechanismAudit") -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("delta", "claimed", "audited", "share"):
        table.add_column(header, justify="right", no_wrap=True)
    for header in ("direction", "bound", "gradients"):
        table.add_column(header, no_wrap=True)
    for bound in audit.bounds:
        style = "bold red" if bound.refuted else None
        numbers = (f"{bound.delta:.2g}", f"<= {bound.claimed:.3g}", f">= {bound.epsilon:.3g}")
        words = (bound.direction, bound.method, bound.design)
        share = "-" if bound.claimed == 0 else f"{bound.share:.0%}"
        table.add_row(*numbers, share, *words, style=style)
    return table
