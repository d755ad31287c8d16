"""``reldp audit``: tries to refute a plan's claim, and with canaries a whole run's.

The audit of the training step is `reldp.auditing.audit_step`, the mechanism audit is
`reldp.auditing.audit_mechanism`, the training audit `reldp.auditing.audit_training`; this command joins the latter
with `reldp.training.Trainer`. What a run's audits found is appended to its ledger, and from there goes onto its
certificate; the training audit apart, which comes from a second run on the private graph and is sensitive.
"""

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp.cli.audit_tables import print_audits
from reldp.cli.exit_codes import NOT_VERIFIED
from reldp.cli.options import (
    Integer,
    Number,
    json_option,
    make_plan,
    plan_options,
    show_ids_option,
)
from reldp.cli.output import print_json
from reldp.errors import ConfigError, InputError

if TYPE_CHECKING:
    from reldp.auditing import Finding, MechanismAudit, StepAudit, TrainingAudit
    from reldp.auditing.real_step import StepSettings
    from reldp.encoders import Encoder
    from reldp.plan import PrivacyPlan
    from reldp.runs.run_folder import RunFolder

__all__ = ["command"]

_WIDER = 20  # trials of the wider sweep for one trial of the training step
_PARALLEL = 500  # trials from which other processes are worth their start
_SENSITIVE = (
    "reldp: what canaries showed is sensitive: it comes from a second run on the private graph, whose epsilon the "
    "certificate does not include. It is shown here and stored nowhere."
)
_SEARCHED = 5  # largest degree and number of negatives that the search builds batches of


@click.command(short_help="try to refute a plan's or a run's epsilon")
@click.argument("run", required=False, type=click.Path(file_okay=False))
@click.option("--plan", "plan_file", metavar="FILE", help="A plan.json instead of a run or flags.")
@click.option(
    "--trials",
    type=Integer(),
    default=1000,
    show_default=True,
    help="Trials of the training step on each graph; the wider sweep takes twenty times as many.",
)
@click.option(
    "--steps",
    type=Integer(),
    default=1,
    show_default=True,
    help="Steps composed in a trial of the wider sweep.",
)
@click.option(
    "--at-delta", "deltas", type=Number(), multiple=True, help="Where to look; repeatable."
)
@click.option(
    "--confidence",
    type=Number(),
    default=0.99,
    show_default=True,
    help="Confidence with which all bounds of one audit hold together.",
)
@click.option(
    "--seed", type=Integer(), help="Seed of a repeatable audit (default: fresh random draws)."
)
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

    The training step itself (sampler, clipping, microbatches, gradients, noise) runs on pairs of graphs that differ
    in one entity, with an encoder chosen to tell them apart; what it releases bounds epsilon from below, and its
    noise, batches and clipping are checked directly. A wider sweep runs the parts of the step without the gradient
    engine, twenty times as often. A search looks for a batch that breaks the rule's own claim. With --canaries a copy
    of RUN is trained on a graph with random canary entities, and the trained encoder is asked which of them were in.
    That copy is destroyed, and what it showed is sensitive: it is not written to the ledger.

    Exit code 3 means that a claim is refuted.

    \b
    Examples:
      reldp audit RUN --plot audit.png
      reldp audit RUN --canaries 200 --graph GRAPH
      reldp audit --num-entities 12 --num-relations 4 --max-degree 1 --num-negatives 2
        --sample-rate 0.4 --noise-multiplier 1 --num-steps 1 --delta 0.01
    """
    _check_usage(run, plan_file, canaries, graph)
    if plot is not None:
        from reldp.auditing.figure import check_format

        check_format(plot)
    folder = _run_folder(run)
    plan = _plan(folder, plan_file, settings)
    searched = _search(plan)
    stepped = _step(folder, plan, trials, deltas, confidence, seed)
    audit = _mechanism(plan, _WIDER * trials, steps, deltas, confidence, seed)
    if plot is not None:
        from reldp.auditing.figure import draw_audit

        draw_audit(audit, plot)
    trained = None
    if folder is not None and canaries is not None and graph is not None:
        trained = _training(folder, plan, canaries, graph, model, seed or 0, show_ids)
    found = {"step": stepped, "mechanism": audit, "search": searched, "training": trained}
    done = {name: part for name, part in found.items() if part is not None}
    if folder is not None:
        # Not the training audit: the copy that it trained is a run of its own, which no certificate counts.
        public = [part for part in (stepped, audit, searched) if part is not None]
        _record(folder, [part.to_record() for part in public])
    if trained is not None:
        click.echo(_SENSITIVE, err=True)
    if as_json:
        print_json({name: part.to_dict() for name, part in done.items()} | {"seed": seed})
    else:
        print_audits(stepped, audit, [part.verdict for part in done.values()], plot)
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
    from reldp.runs.run_folder import RunFolder

    folder = RunFolder(run)
    folder.require_run()
    return folder


def _plan(
    folder: "RunFolder | None", plan_file: str | None, settings: dict[str, Any]
) -> "PrivacyPlan":
    """The plan of the run, of the file, or of the flags."""
    from reldp.plan import PrivacyPlan

    if folder is not None:
        from reldp.runs.run_folder import read_plan

        return read_plan(folder)
    if plan_file is None:
        return make_plan(settings)
    return PrivacyPlan.from_json(Path(plan_file).read_bytes())


def _key(seed: int | None) -> bytes | None:
    """The key of a repeatable audit."""
    if seed is not None and not 0 <= seed < 2**64:
        raise InputError(f"`seed` must be an integer from 0 to 2^64 - 1, got {seed}.")
    return None if seed is None else seed.to_bytes(32, "big")


def _step(
    folder: "RunFolder | None",
    plan: "PrivacyPlan",
    trials: int,
    deltas: tuple[float, ...],
    confidence: float,
    seed: int | None,
) -> "StepAudit | None":
    """Audits the training step under a progress bar; a plan without negatives has none."""
    from rich.console import Console
    from rich.progress import Progress

    from reldp.auditing import audit_step, default_workers

    if plan.num_negatives == 0:
        return None
    settings = _step_settings(folder)
    workers = default_workers() if trials >= _PARALLEL and settings.device == "cpu" else 1
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("auditing the training step")

        def tell(done: int, total: int) -> None:
            bar.update(task, advance=done, total=total)

        return audit_step(
            plan,
            trials=trials,
            deltas=deltas or None,
            confidence=confidence,
            key=_key(seed),
            settings=settings,
            workers=workers,
            progress=tell,
        )


def _step_settings(folder: "RunFolder | None") -> "StepSettings":
    """The settings of the run that its steps depend on; a device that is not here is replaced by the CPU."""
    from reldp.auditing.real_step import StepSettings

    if folder is None:
        return StepSettings()
    from reldp.runs.ledger import read_ledger

    known = {field.name for field in fields(StepSettings)}
    start = read_ledger(folder.ledger).start
    found = {**start["machine"], **start["training"]}
    settings = StepSettings(**{name: found[name] for name in known & set(found)})
    if settings.device != "cpu" and not _has_device():
        click.echo(
            "reldp: the run's device is not here; its steps are audited on the CPU.", err=True
        )
        return replace(settings, device="cpu")
    return settings


def _has_device() -> bool:
    import torch

    return torch.cuda.is_available()


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

    with Progress(console=Console(stderr=True), transient=True) as bar:
        total = 2 * 2 * (trials + max(trials // 2, 100)) * steps  # designs, graphs, both halves
        task = bar.add_task("auditing its parts", total=total)
        return audit_mechanism(
            plan,
            trials=trials,
            num_steps=steps,
            deltas=deltas or None,
            confidence=confidence,
            key=_key(seed),
            progress=lambda done: bar.advance(task, done),
        )


def _search(plan: "PrivacyPlan") -> "Finding | None":
    """A short search for a batch that breaks the rule's claim; small degrees break it as well as large."""
    from reldp.auditing import search_neighbors

    if plan.unit != "entity":
        return None
    return search_neighbors(
        plan.clipping,
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
    from reldp.auditing import audit_training
    from reldp.graph.bundled import open_graph
    from reldp.runs.ledger import read_ledger
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
            trainer = Trainer(encoder, with_canaries, copy, **_settings(start))
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


def _settings(start: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the run learned, for a copy that logs nothing.

    A ledger that says nothing about pairs is of a version that compared a negative with one endpoint.
    """
    performance = {"noise_generator": start["machine"]["noise_generator"]}
    return {"pairing": "one", **start["training"], **performance, "log_sensitive": False}


def _encoder(described: dict[str, Any], model: str | None) -> "Encoder":
    """The encoder that the ledger describes, as it was before training."""
    from reldp.encoders import FeatureEncoder, TextEncoder

    if described["kind"] == "features":
        names = ("in_dim", "hidden", "dim", "activation", "bias", "normalize")
        return FeatureEncoder(**{name: described[name] for name in names})
    same = {name: described[name] for name in ("pooling", "normalize", "max_length", "dtype")}
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
