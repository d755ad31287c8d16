"""``reldp train``: a run from a recipe file or from flags.

The settings and everything they do are in `reldp.training.recipe`; this module only turns flags
into the same settings.
"""

import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from reldp.cli.options import Integer, Number, Word, json_option, show_ids_option
from reldp.cli.output import print_json
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.training import TrainResult

__all__ = ["command"]

# Flags for what is changed most; every other setting is reached by --set.
_FLAGS: dict[str, tuple[str, Any, str]] = {
    "graph": ("data", str, "Graph folder or the name of a bundled graph."),
    "max_degree": ("data", Integer(), "Most relations of a protected entity.  [default: 5]"),
    "model": ("encoder", str, "Folder or hub name of a text model."),
    "train": ("encoder", str, "lora, full, last:N or head.  [default: lora]"),
    "lora_rank": ("encoder", Integer(), "Rank of the adapters.  [default: 8]"),
    "pooling": ("encoder", Word(["mean", "cls", "last"]), "The model's own unless given."),
    "max_length": ("encoder", Integer(), "Longer texts are cut."),
    "target_epsilon": ("privacy", Number(), "Epsilon that the noise is calibrated to."),
    "noise_multiplier": ("privacy", Number(), "Or the noise itself, over the clip norm."),
    "delta": ("privacy", Number(), "A tenth of 1/entities (their bound) unless given."),
    "sizes": (
        "privacy",
        Word(["private", "declared", "public"]),
        "What the plan knows about the numbers of entities and relations.  [default: private]",
    ),
    "min_entities": ("privacy", Integer(), "Declared sizes: at least so many entities."),
    "max_relations": ("privacy", Integer(), "Declared sizes: at most so many relations."),
    "num_steps": ("privacy", Integer(), "Suggested for the graph unless given."),
    "expected_batch_size": ("privacy", Number(), "Suggested for the graph unless given."),
    "num_negatives": ("privacy", Integer(), "Negatives per relation.  [default: 4]"),
    "clip_norm": ("privacy", Number(), "Largest gradient norm of a tuple.  [default: 1]"),
    "clipping": ("privacy", Word(["tuple", "pair", "frequency"]), "[default: tuple]"),
    "negatives": ("privacy", Word(["entities", "unprotected", "public"]), "[default: entities]"),
    "loss": ("training", Word(["infonce", "hinge", "logistic"]), "[default: infonce]"),
    "learning_rate": ("training", Number(), "[default: 0.001]"),
    "schedule": ("training", str, "constant, linear, cosine or inverse_sqrt."),
    "device": ("training", str, "cpu or cuda.  [default: cpu]"),
    "threads": ("training", Integer(), "Of the CPU."),
    "checkpoint_every": ("training", Integer(), "Steps between checkpoints.  [default: 100]"),
}


def _with_flags(function: Any) -> Any:
    for name, (_, kind, about) in reversed(_FLAGS.items()):
        function = click.option(f"--{name.replace('_', '-')}", name, type=kind, help=about)(
            function
        )
    return function


@click.command()
@click.argument("recipe", required=False, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Run folder: new, or one to resume."
)
@_with_flags
@click.option("--promise-degrees", is_flag=True, help="Take --max-degree as a fact; drop nothing.")
@click.option("--no-privacy", is_flag=True, help="Train without noise: epsilon is infinite.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="SECTION.NAME=VALUE",
    help="Any setting of the recipe, its value written as in TOML; repeatable.",
)
@click.option("--print-config", is_flag=True, help="Print a commented recipe and stop.")
@show_ids_option
@json_option
def command(
    recipe: Path | None,
    output: Path | None,
    promise_degrees: bool,
    no_privacy: bool,
    changes: tuple[str, ...],
    print_config: bool,
    show_ids: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train an encoder on a private graph, from a RECIPE.toml or from flags.

    Running the same command again resumes a run that was stopped. Start with
    `reldp train --print-config > recipe.toml`.
    """
    from reldp.reporting.run_folder import RunFolder
    from reldp.training.recipe import Recipe

    if print_config:
        click.echo(Recipe.template(), nl=False)
        return
    if output is None:
        raise ConfigError("`output` must be given: the folder that the run is written to.")
    given = _given(flags, promise_degrees, no_privacy, changes)
    chosen = Recipe.from_values(given) if recipe is None else Recipe.read(recipe, given)
    with _warnings_as_lines():
        resumed = RunFolder(output).has_run
        trainer = chosen.trainer(show_ids=show_ids, resumed=resumed)
        said = "" if resumed else chosen.size_cost(trainer.capped, trainer.plan)
        if said:
            click.echo(f"reldp: {said}", err=True)
        result = trainer.fit(output)
    _show(result, as_json)


def _given(
    flags: dict[str, Any], promise_degrees: bool, no_privacy: bool, changes: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """What was typed, as settings of the recipe."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in flags.items():
        if value is not None:
            found.setdefault(_FLAGS[name][0], {})[name] = value
    if promise_degrees:
        found.setdefault("data", {})["promise_degrees"] = True
    if no_privacy:
        found.setdefault("privacy", {})["enabled"] = False
    for change in changes:
        place, equals, text = change.partition("=")
        section, dot, name = place.strip().partition(".")
        if not (equals and dot):
            raise ConfigError(f"`set` must be section.name=value, got {change!r}.")
        found.setdefault(section, {})[name] = _toml_value(text)
    return found


def _toml_value(text: str) -> Any:
    """The value as TOML reads it; a bare word is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or digits or brackets by the thousand
        return text.strip()


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Shows warnings at once, one clear line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _show_warning
        yield


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    click.echo(f"reldp: warning: {' '.join(str(message).split())}", err=True)


def _show(result: "TrainResult", as_json: bool) -> None:
    """What came out, for people or programs."""
    certificate = result.certificate
    if as_json:
        print_json(
            {
                "epsilon": certificate.epsilon,
                "delta": certificate.delta,
                "status": certificate.status,
                "summary": certificate.summary,
                "sizes": certificate.values["guarantee"]["sizes"],
                "steps": certificate.values["steps"],
                "folder": str(result.folder),
            }
        )
        return
    click.echo(certificate.summary)
    click.echo(f"\nmodel        {result.folder / 'model'}")
    click.echo(f"certificate  {result.folder / 'certificate.md'}")
    click.echo(f"\nCheck it: reldp verify {result.folder}")
