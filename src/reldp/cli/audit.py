"""``reldp audit``: tries to refute the epsilon of a plan or a run.

The audits are in `reldp.auditing`. Those of a complete run are appended to its ledger and appear on its certificate,
except the audit with canaries, which is sensitive.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp.cli.audit_progress import audit_progress
from reldp.cli.audit_tables import print_audits
from reldp.cli.commands import Command, option
from reldp.cli.exit_codes import NOT_VERIFIED
from reldp.cli.options import (
    Integer,
    Number,
    json_option,
    make_plan,
    plan_options,
    show_ids_option,
)
from reldp.cli.output import print_json, say
from reldp.cli.progress import show_busy, show_progress
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.auditing.real_step import StepSettings
    from reldp.auditing.training_audit import TrainingAudit
    from reldp.plan import PrivacyPlan
    from reldp.runs.run_folder import RunFolder

__all__ = ["command"]

_MAIN, _CANARIES = "Main options", "Canaries"
_SENSITIVE = (
    "what canaries showed is sensitive: it comes from a second run on the private graph, whose epsilon the "
    "certificate does not include. It is shown here and stored nowhere."
)


@click.command(
    cls=Command,
    examples=[
        "reldp audit RUN --plot audit.png",
        "reldp audit RUN --canaries 200 --graph GRAPH",
        "reldp audit --num-entities 12 --num-relations 4 --max-degree 1 --num-negatives 2 \\\n"
        "    --sample-rate 0.4 --noise-multiplier 1 --num-steps 1 --delta 0.01",
    ],
)
@click.argument("run", required=False, type=click.Path(file_okay=False))
@option(
    "--plan",
    "plan_file",
    group=_MAIN,
    metavar="FILE",
    help="File plan.json with the plan to audit, instead of RUN or the flags of a plan.",
)
@option(
    "--trials",
    group=_MAIN,
    type=Integer(),
    metavar="N",
    default=1000,
    show_default=True,
    help="Number of trials of the training step on each graph; its parts get twenty times as many.",
)
@option(
    "--steps-per-trial",
    "steps",
    group=_MAIN,
    type=Integer(),
    metavar="T",
    default=1,
    show_default=True,
    help="Number of steps composed in one trial of the parts of the step.",
)
@option("--steps", "steps_alias", type=Integer(), hidden=True)  # the name in 0.3
@option(
    "--at-delta",
    "deltas",
    group=_MAIN,
    type=Number(),
    metavar="DELTA",
    multiple=True,
    help="Delta at which to compare the audit with the claim for as many steps; may be repeated (default: the plan's "
    "and a few larger ones, at which an audit can show more).",
)
@option(
    "--confidence",
    group=_MAIN,
    type=Number(),
    metavar="P",
    default=0.99,
    show_default=True,
    help="Probability with which all bounds of one audit hold together.",
)
@option(
    "--seed",
    group=_MAIN,
    type=Integer(),
    metavar="N",
    help="Seed of a repeatable audit (default: fresh random draws).",
)
@option(
    "--plot",
    group=_MAIN,
    metavar="FILE",
    help="Draw the claimed and audited epsilons to a .png, .svg or .pdf file.",
)
@option(
    "--canaries",
    group=_CANARIES,
    type=Integer(),
    metavar="N",
    help="Also train a copy of RUN with this many random canary entities. This is a second run on the private graph, "
    "whose epsilon adds to that of RUN.",
)
@option("--graph", group=_CANARIES, metavar="GRAPH", help="Training graph of RUN.")
@option(
    "--model",
    group=_CANARIES,
    metavar="NAME",
    help="Folder or hub name of the model that RUN started from (default: the name in its ledger).",
)
@plan_options
@show_ids_option
@json_option
def command(
    run: str | None,
    plan_file: str | None,
    trials: int,
    steps: int,
    steps_alias: int | None,
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
    """Try to refute the epsilon of RUN, of a plan file, or of a plan given by flags.

    The audit runs the training step (sampler, clipping, microbatches, gradients, noise) on pairs of graphs that differ
    in one entity, with an encoder that makes the entity as visible as possible. The outputs give a lower bound on
    epsilon. Noise, batches and clipping are also checked directly. Then the parts of the step run many more times
    without the gradient engine, and a search looks for a batch that contradicts the sensitivity of the clipping rule.
    The results of a complete RUN are appended to its ledger, which changes the head of the ledger, and its certificate
    is written again.

    With --canaries a copy of RUN is trained on the graph with random canary entities, and an attack tries to tell from
    the trained encoder which of them were included. The copy is deleted. Its results are sensitive: they are printed
    and not written to the ledger, and no certificate includes the epsilon of the copy.

    Exit code 3 means that a claim is refuted. An audit can refute a claim; it cannot prove one.
    """
    import torch  # noqa: F401  # workers need it: without it, say so before they start

    from reldp.auditing import audit_plan, default_workers

    _check_usage(run, plan_file, canaries, graph)
    if plot is not None:
        from reldp.auditing.figure import check_format

        check_format(plot)
    folder = _run_folder(run)
    plan = _plan(folder, plan_file, settings)
    audit_copy = None
    if folder is not None and canaries is not None and graph is not None:
        # Before minutes are spent: what is wrong with the copy is known now.
        audit_copy = _prepared_copy(folder, graph, canaries, model, seed or 0, show_ids)
    with audit_progress() as progress:
        results = audit_plan(
            plan,
            trials=trials,
            num_steps=steps if steps_alias is None else steps_alias,
            deltas=deltas,
            confidence=confidence,
            seed=seed,
            settings=None if folder is None else _step_settings(folder),
            workers=default_workers(),
            progress=progress,
        )
    if plot is not None:
        from reldp.auditing.figure import draw_audit

        draw_audit(results.mechanism, plot)
    if audit_copy is not None:
        _note("training a copy with canaries. It is for testing and will be deleted.")
        with show_progress():
            results = replace(results, training=audit_copy())
    if folder is not None:
        _record(folder, results.to_records())
    if results.training is not None:
        _note(_SENSITIVE)
    if as_json:
        print_json({**results.to_dict(), "seed": seed})
    else:
        print_audits(results, plot)
    if results.refuted:
        raise click.exceptions.Exit(NOT_VERIFIED)


def _check_usage(
    run: str | None, plan_file: str | None, canaries: int | None, graph: str | None
) -> None:
    """Refuse options that exclude or need one another."""
    if run is not None and plan_file is not None:
        raise ConfigError("`plan` must not be given with a run, which has a plan. Leave one out.")
    if canaries is not None and (run is None or graph is None):
        raise ConfigError(
            "`canaries` needs a run and its training graph. Use reldp audit RUN --canaries N --graph GRAPH."
        )
    if graph is not None and canaries is None:
        raise ConfigError("`graph` must be given with canaries only. Add --canaries 200.")


def _run_folder(run: str | None) -> "RunFolder | None":
    """Return the run folder that was named, if any."""
    if run is None:
        return None
    from reldp.runs.run_folder import RunFolder

    folder = RunFolder(run)
    folder.require_run()
    return folder


def _plan(
    folder: "RunFolder | None", plan_file: str | None, settings: dict[str, Any]
) -> "PrivacyPlan":
    """Return the plan of the run, of the file, or of the flags."""
    from reldp.plan import PrivacyPlan

    if folder is not None:
        from reldp.runs.run_folder import read_plan

        return read_plan(folder)
    if plan_file is None:
        return make_plan(settings)
    from reldp.runs.plain_files import read_plain

    return PrivacyPlan.from_json(read_plain(Path(plan_file), limit=2**20))


def _step_settings(folder: "RunFolder") -> "StepSettings":
    """Return the run's settings for this machine."""
    from reldp.auditing.run_audit import on_this_machine, step_settings

    recorded = step_settings(folder)
    settings = on_this_machine(recorded)
    if settings != recorded:
        _note(f"the run used {recorded.device}, which this machine lacks; the audit uses the CPU.")
    return settings


def _prepared_copy(
    folder: "RunFolder", graph: str, canaries: int, model: str | None, seed: int, show_ids: bool
) -> "Callable[[], TrainingAudit]":
    """Return what trains a copy of the run with canaries, once everything about it is checked."""
    from reldp.auditing.run_audit import prepare_canaries
    from reldp.graph.bundled import open_graph

    with show_busy("preparing a copy with canaries"):
        training_graph = open_graph(graph, show_ids=show_ids)
        return prepare_canaries(
            folder, training_graph, num_canaries=canaries, model=model, seed=seed
        )


def _record(folder: "RunFolder", records: list[dict[str, Any]]) -> None:
    """Append the results to the run's ledger, and publish its certificate again."""
    from reldp.reporting.publishing import record_audit

    if not record_audit(folder, records):
        _note("the run is not complete, so the audit is not written to its ledger.")


def _note(sentence: str) -> None:
    """Print a line to the error stream."""
    say(f"reldp: {sentence}", err=True)
