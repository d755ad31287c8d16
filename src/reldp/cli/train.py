"""``reldp train``: trains an encoder on a private graph and writes the run folder.

The settings and everything they do are in `reldp.training.recipe`; this module turns flags into the same settings.
"""

import os.path
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp._real_path import real_path
from reldp._validate import (
    CLIPPING_RULES,
    LOSSES,
    NEGATIVE_POOLS,
    POOLINGS,
    SCHEDULES,
    SIZES,
    TYPED_LOSSES,
)
from reldp.cli.budget import run_note
from reldp.cli.commands import Command, option
from reldp.cli.dry_run import show_dry_run
from reldp.cli.exit_codes import Terminated
from reldp.cli.graph_options import drop_option
from reldp.cli.options import Integer, Number, Word, json_option, show_ids_option
from reldp.cli.output import print_json, say, shell_word
from reldp.cli.prepare_store import shown_reading
from reldp.cli.progress import show_progress
from reldp.cli.settings import parsed_changes
from reldp.cli.torchrun import refuse_dry_run, require_folder
from reldp.cli.train_notes import (
    delta_note,
    detail,
    encoder_line,
    gain_note,
    note,
    notes,
    target_note,
)
from reldp.cli.warning_lines import all_as_lines
from reldp.errors import ConfigError
from reldp.training.recipe_settings import SECTIONS

if TYPE_CHECKING:
    from reldp.training import TrainResult
    from reldp.training.recipe import Recipe

__all__ = ["command"]

_MAIN, _PRIVACY, _ENCODER, _LEARNING, _PERFORMANCE = (
    "Main options",
    "Privacy",
    "Encoder",
    "Learning",
    "Performance",
)

# Flags for the settings that are changed most: type, heading, metavar. Help texts and defaults are those of the
# recipe; every other setting is reached by --set.
_FLAGS: dict[str, tuple[Any, str, str | None]] = {
    "target_epsilon": (Number(), _MAIN, "EPSILON"),
    "model": (str, _MAIN, "NAME"),
    "max_degree": (Integer(), _MAIN, "K"),
    "num_steps": (Integer(), _MAIN, "T"),
    "noise_multiplier": (Number(), _PRIVACY, "SIGMA"),
    "delta": (Number(), _PRIVACY, "DELTA"),
    "expected_batch_size": (Number(), _PRIVACY, "B"),
    "num_negatives": (Integer(), _PRIVACY, "k"),
    "clip_norm": (Number(), _PRIVACY, "C"),
    "clipping": (Word(CLIPPING_RULES), _PRIVACY, None),
    "negatives": (Word(NEGATIVE_POOLS), _PRIVACY, None),
    "sizes": (Word(SIZES), _PRIVACY, None),
    "min_entities": (Integer(), _PRIVACY, "N"),
    "max_relations": (Integer(), _PRIVACY, "M"),
    "train": (str, _ENCODER, "PART"),
    "lora_rank": (Integer(), _ENCODER, "RANK"),
    "pooling": (Word(POOLINGS), _ENCODER, None),
    "max_length": (Integer(), _ENCODER, "TOKENS"),
    "loss": (Word((*LOSSES, *TYPED_LOSSES)), _LEARNING, None),
    "holdout": (Number(), _MAIN, "SHARE"),
    "eval_graph": (str, _LEARNING, "GRAPH"),
    "eval_every": (Integer(), _LEARNING, "STEPS"),
    "learning_rate": (Number(), _LEARNING, "RATE"),
    "schedule": (Word(SCHEDULES), _LEARNING, None),
    "device": (str, _PERFORMANCE, "DEVICE"),
    "threads": (Integer(), _PERFORMANCE, "N"),
    "checkpoint_every": (Integer(), _PERFORMANCE, "STEPS"),
}
_SECTION_OF = {name: section for section, settings in SECTIONS.items() for name in settings}


def _with_flags(function: Any) -> Any:
    """Give a command the flags of the recipe's settings."""
    for name, (kind, group, metavar) in reversed(_FLAGS.items()):
        setting = SECTIONS[_SECTION_OF[name]][name]
        default = "" if setting.default is None else f" (default: {setting.default})"
        about = f"{setting.about.rstrip('.')}{default}."
        flag = f"--{name.replace('_', '-')}"
        function = option(flag, name, type=kind, group=group, metavar=metavar, help=about)(function)
    return function


@click.command(
    cls=Command,
    examples=[
        "reldp train my-graph --target-epsilon 4",
        "reldp train wordnet-nouns --target-epsilon 4 --model my-model -o run",
        "reldp train --print-config > recipe.toml",
        "reldp train --config recipe.toml -o run",
        "torchrun --nproc-per-node 8 -m reldp train my-graph --target-epsilon 4 -o run",
    ],
)
@click.argument("graph", required=False)
@_with_flags
@option(
    "-o",
    "--output",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Run folder to create, or to resume if it holds a run (default: a new folder here, named after the graph "
    "and the date).",
)
@option(
    "--config",
    group=_MAIN,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Recipe: a TOML file with any settings. Flags and GRAPH take precedence over it.",
)
@option(
    "--promise-degrees",
    is_flag=True,
    group=_PRIVACY,
    help="Declare that no protected entity has more than --max-degree relations. Nothing is dropped, and a graph "
    "for which this is false is refused.",
)
@option(
    "--no-privacy",
    is_flag=True,
    group=_PRIVACY,
    help="Train without clipping and noise, for comparison: epsilon is infinite.",
)
@option(
    "--budget",
    group=_PRIVACY,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder of the budget to enter the run in before it starts, for a graph without one (default: the graph's).",
)
@option(
    "--dry-run",
    is_flag=True,
    group=_MAIN,
    help="Show the plan, its warnings, and time and memory as estimated from a few microbatches of public random rows; "
    "train nothing, spend nothing.",
)
@option(
    "--verbose/--quiet",
    default=None,
    help="Print the phases of the run, too, or errors and the result only (default: progress and notes, and the phases "
    "without a terminal).",
)
@option("--graph", "graph_option", hidden=True)
@option(
    "--set",
    "changes",
    multiple=True,
    metavar="SECTION.NAME=VALUE",
    help="Set any setting of the recipe, with its value in TOML syntax; may be repeated.",
)
@option("--print-config", is_flag=True, help="Print a recipe with all settings, and exit.")
@drop_option
@show_ids_option
@json_option
def command(**options: Any) -> None:
    """Train an encoder on the private relations of GRAPH, and certify the result.

    GRAPH is a graph folder, or the name of a bundled graph: wordnet-nouns, wordnet-verbs, wordnet-adjectives. Give
    --target-epsilon, --noise-multiplier or --no-privacy; every other setting has a default. Settings without a flag,
    such as privacy.unit, privacy.analysis, privacy.sample_rate and data.cap_seed, are set with --set or in a recipe;
    --print-config lists all of them. The run folder will hold the trained model, the certificate and the ledger of all
    steps. Running the same command again with the same -o resumes a run that was stopped.
    """
    trains = not (options["dry_run"] or options["print_config"])
    with _resumption(options["output"] if trains else None):
        _train(**options)


def _train(
    graph: str | None,
    graph_option: str | None,
    output: Path | None,
    config: Path | None,
    promise_degrees: bool,
    no_privacy: bool,
    budget: Path | None,
    dry_run: bool,
    verbose: bool | None,
    changes: tuple[str, ...],
    print_config: bool,
    drop: tuple[str, ...],
    show_ids: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Do what the options say."""
    from reldp.processes import join_processes
    from reldp.runs.budget_place import budget_for
    from reldp.runs.release_entry import named_budget
    from reldp.runs.run_folder import RunFolder
    from reldp.runs.session import refuse_other_folder
    from reldp.training.holdout import refuse_another_holdout
    from reldp.training.recipe import Recipe
    from reldp.training.shared_run import SharedRun

    if print_config:
        click.echo(Recipe.template(), nl=False)
        return
    given = _given(flags, promise_degrees, no_privacy, changes)
    if drop:
        given.setdefault("data", {})["drop"] = list(drop)
    source = _graph(graph, graph_option)
    if source is not None:
        given.setdefault("data", {})["graph"] = source
    if verbose is False:
        given.setdefault("logging", {})["progress"] = False
    recipe = Recipe.from_values(given) if config is None else Recipe.read(config, given)
    processes = join_processes()
    if dry_run:
        refuse_dry_run(processes.size)
        with all_as_lines():
            show_dry_run(recipe, budget=budget, show_ids=show_ids, as_json=as_json)
        return
    with notes(verbose, shown=processes.is_first), all_as_lines(), processes.reporting():
        require_folder(output)
        folder = output or Path(
            processes.from_first(lambda: str(_new_folder(recipe)).encode()).decode()
        )
        resumed = SharedRun(processes, RunFolder(folder)).has_run
        if processes.is_first:
            refuse_other_folder(RunFolder(folder))  # before sizes are released
            refuse_another_holdout(RunFolder(folder), recipe.holdout)
        detail("reading the graph and the model.")
        is_quiet = verbose is False or not processes.is_first
        shown = nullcontext() if is_quiet else shown_reading("reading and planning")
        with named_budget(budget), shown:
            trainer = recipe.trainer(show_ids=show_ids, resumed=resumed and folder, budget=budget)
        if processes.is_first:
            if not resumed and (said := recipe.size_cost(trainer.capped, trainer.plan)):
                note(said)
            note(encoder_line(recipe, trainer, processes.size))
            if output is None:
                note(f"the run folder is {folder}. To resume the run, add -o {shell_word(folder)}.")
            if not resumed and recipe.negatives_note:
                note(recipe.negatives_note)
            if not resumed:
                target_note(recipe, trainer)
                delta_note(recipe, trainer)
                gain_note(recipe, trainer)
            place = None if resumed else budget_for(trainer.capped.graph.folder, budget)
            if place is not None:
                note(run_note(place, trainer.plan))
        detail(f"{trainer.plan.num_steps:,} steps are planned; checking the encoder.")
        was_complete = RunFolder(folder).certificate.exists()
        with _resumption(folder), show_progress(quiet=is_quiet, watch=_begins()):
            result = trainer.fit(folder)
        if was_complete:
            note(f"the run in {folder} was complete: nothing was left to do.")
        else:
            detail("the model and the certificate are written.")
    if processes.is_first:
        _show(result, as_json, is_quiet)


def _begins() -> Callable[[str, int, int], None]:
    """Return what says once that training begins; the steps that were taken before are not named."""
    said: list[str] = []

    def watch(phase: str, done: int, total: int) -> None:
        if phase == "training" and not said:
            said.append(phase)
            detail("the encoder is checked; the steps begin.")

    return watch


@contextmanager
def _resumption(folder: Path | None) -> Iterator[None]:
    """Add to a stop by a signal how the run is resumed, if the folder holds one."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as error:
        # Nothing is imported here: the signal may have come while a module was.
        if folder is None or not os.path.exists(folder / "ledger.jsonl"):
            raise
        hint = f" To resume, run the same command with -o {shell_word(folder)}."
        if isinstance(error, Terminated):
            raise Terminated(error.code, hint) from None
        raise KeyboardInterrupt(hint) from None


def _graph(graph: str | None, graph_option: str | None) -> str | None:
    """Return the graph that was named, if any."""
    if graph is not None and graph_option is not None:
        raise ConfigError("GRAPH must be given once, got it as an argument and as --graph.")
    if graph is not None and graph.endswith(".toml"):
        raise ConfigError(
            f"GRAPH must be a graph folder or the name of a bundled graph, got {graph!r}. "
            f"Use --config {graph} for a recipe."
        )
    return graph if graph is not None else graph_option


def _new_folder(recipe: "Recipe") -> Path:
    """Return a folder that does not exist yet, named after the graph and the date."""
    graph = real_path(recipe.values["data"]["graph"] or "run").name or "run"
    name = f"{graph}-{date.today().isoformat()}"
    candidates = (Path(name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(folder for folder in candidates if not folder.exists())


def _given(
    flags: dict[str, Any], promise_degrees: bool, no_privacy: bool, changes: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Return the flags that were given as settings of the recipe."""
    settings: dict[str, dict[str, Any]] = {}
    for name, value in flags.items():
        if value is not None:
            settings.setdefault(_SECTION_OF[name], {})[name] = value
    if promise_degrees:
        settings.setdefault("data", {})["promise_degrees"] = True
    # It goes before the target of a recipe, but not together with one on the command line.
    if no_privacy:
        for name in ("target_epsilon", "noise_multiplier"):
            if flags[name] is not None:
                raise ConfigError(
                    f"`{name}` must be left out with --no-privacy, got {flags[name]!r}. Leave out one of them."
                )
        for name in ("sizes", "min_entities", "max_relations", "min_relations"):
            if flags.get(name) not in (None, "public"):
                raise ConfigError(
                    f"`{name}` must be left out with --no-privacy, got {flags[name]!r}: such a run uses exact sizes, "
                    "and states them in files that may be published."
                )
        settings.setdefault("privacy", {})["enabled"] = False
    return parsed_changes(changes, settings)


def _show(result: "TrainResult", as_json: bool, is_quiet: bool) -> None:
    """Print the result, for people or programs; what is sensitive in it only if much may be printed."""
    certificate = result.certificate
    if as_json:
        print_json(
            {
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "given": certificate.given,
                "status": certificate.status,
                "summary": certificate.summary,
                "sizes": certificate.values["guarantee"]["sizes"],
                "steps": certificate.values["steps"],
                "folder": str(result.folder),
                **({} if result.holdout is None else {"sensitive": {"holdout": result.holdout}}),
            }
        )
        return
    say(certificate.summary)
    click.echo(f"\nmodel        {result.folder / 'model'}")
    click.echo(f"certificate  {result.folder / 'certificate.md'}")
    if "chosen_step" in (steps := certificate.values["steps"]):
        click.echo(f"weights      after step {steps['chosen_step']:,}, chosen on the public graph")
    if result.holdout is not None and not is_quiet:
        from reldp.cli.held_out import show_held_out

        click.echo()
        show_held_out(result.holdout)
    click.echo(f"\nCheck it: reldp verify {shell_word(result.folder)}")
