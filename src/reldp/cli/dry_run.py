"""``reldp train --dry-run``: what a run would cost in privacy, time and memory; nothing is spent.

Public to `reldp.cli`: `refuse_release`, `show_dry_run`.

>>> _hours(7300.0)
'2.1 hours'
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reldp.cli.output import cost_fields, print_cost, print_json, say
from reldp.cli.prepare_store import shown_reading
from reldp.errors import ConfigError
from reldp.training.recipe_settings import SECTIONS

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph
    from reldp.training.recipe import Recipe

__all__ = ["refuse_release", "show_dry_run"]


def refuse_release(
    recipe: "Recipe", capped: "CappedGraph", *, declared: str = "--sizes declared"
) -> None:
    """Refuse to show a plan that needs private sizes which have not been released: releasing them costs epsilon.

    Args:
        recipe: Settings of the run.
        capped: The training graph.
        declared: How the command is given declared sizes.

    Raises:
        ConfigError: It does.
    """
    if not recipe.needs_release(capped):
        return
    data = recipe.values["data"]
    split = "" if recipe.holdout is None else f" --holdout {recipe.holdout['share']:g}"
    defaults = {name: SECTIONS["data"][name].default for name in data}
    degree = data["max_degree"]
    cap = "" if degree == 1 else f" --max-degree {degree}"
    # The only settings of the training graph that `reldp inspect` has no option for.
    fixed = ("cap_seed", "holdout_seed", "promise_degrees")
    how = (
        f"reldp inspect GRAPH{cap}{split} --release-sizes first, or {declared}"
        if all(data[name] == defaults[name] for name in fixed)
        else declared
    )
    raise ConfigError(
        "`dry_run` must not release private sizes, which costs epsilon, got a graph without a release. Use "
        f"{how}."
    )


def show_dry_run(
    recipe: "Recipe", *, budget: Path | None = None, show_ids: bool, as_json: bool
) -> None:
    """Print plan, advice, time and memory of a recipe.

    Args:
        recipe: Settings of the run.
        budget: Folder of the budget, if one is named.
        show_ids: Whether errors about the graph may show ids, which are sensitive.
        as_json: Whether to print one JSON object.

    Raises:
        ConfigError: The plan needs private sizes, which have not been released; releasing them would spend epsilon.
        PlanError: The budget of the graph would refuse the run.
    """
    import torch

    from reldp.graph.graph_names import graph_names
    from reldp.runs.budget import Budget
    from reldp.runs.budget_entry import release_of
    from reldp.runs.budget_place import budget_of_graph
    from reldp.training.advice import advice
    from reldp.training.estimate import estimate_step
    from reldp.training.repeatability import no_random_numbers, repeatable

    with shown_reading("reading and planning"):
        capped = recipe.capped(show_ids=show_ids)
        refuse_release(recipe, capped)
        trainer = recipe.trainer(show_ids=show_ids, resumed=True, budget=budget)
        plan, performance = trainer.plan, trainer.config.performance
        cost = plan.privacy_cost()
    place = budget_of_graph(capped.graph.folder, trainer._budget, graph_names(capped.graph))
    if place is not None:
        with Budget.open(place, read_only=True) as opened:
            opened.refuse_run(plan, release=release_of(opened, plan, capped.fingerprint))
    threads = performance.threads or torch.get_num_threads()
    trainer._check_selection()
    with repeatable(performance.device, threads), no_random_numbers():
        trainer.encoder.to(performance.device).eval()
        estimate = estimate_step(trainer._prepared())
    lines = advice(plan, cost.epsilon)
    is_gpu = str(performance.device).startswith("cuda")
    is_text = trainer.encoder.describe()["kind"] == "text"
    rows = f"public random {_rows(trainer.encoder)}"
    if as_json:
        fields: dict[str, Any] = cost_fields(plan, cost)
        fields |= {"seconds_per_step": estimate.seconds, "peak_bytes": estimate.peak_bytes}
        fields |= {"seconds": estimate.seconds * plan.num_steps, "warnings": lines}
        print_json(fields | {"measured_on": rows, "device": performance.device})
        return
    print_cost(plan, cost)
    click.echo(
        f"\nAbout {estimate.seconds:.3g} s per step and {_hours(estimate.seconds * plan.num_steps)} for all steps on "
        f"{performance.device}, estimated from a few microbatches of {rows} of the greatest length"
        f"{' (shorter ones take less)' * is_text}, with {estimate.peak_bytes / 2**30:.2g} GiB of memory"
        f"{'' if is_gpu else ', the graph included'}. Not counted: reading the graph and the model"
        f"{', and tokenizing the texts' * is_text}. Nothing was trained or spent."
    )
    if recipe.negatives_note:
        say(f"\nNote: {recipe.negatives_note}")
    for line in lines:
        say(f"\nWarning: {line}")


def _rows(encoder: "Encoder") -> str:
    """Return what rows of an encoder are: texts, unless it keeps what a frozen model makes of them."""
    from reldp.encoders import TextEncoder
    from reldp.encoders.frozen import FrozenTextEncoder

    is_text = isinstance(encoder, TextEncoder) and not isinstance(encoder, FrozenTextEncoder)
    return "texts" if is_text else "rows"


def _hours(seconds: float) -> str:
    """Return a time in words, rounded up."""
    if seconds < 90:
        return f"{seconds:.2g} seconds"
    return f"{seconds / 60:.2g} minutes" if seconds < 5400 else f"{seconds / 3600 + 0.05:.2g} hours"
