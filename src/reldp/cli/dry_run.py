"""``reldp train --dry-run``: what a run would cost in privacy, time and memory; nothing is spent.

Public to `reldp.cli.train`: `show_dry_run`.

>>> _hours(7300.0)
'2.1 hours'
"""

from typing import TYPE_CHECKING, Any

import click

from reldp.cli.output import cost_fields, print_cost, print_json, say
from reldp.errors import ConfigError

if TYPE_CHECKING:
    from reldp.training.recipe import Recipe

__all__ = ["show_dry_run"]


def show_dry_run(recipe: "Recipe", *, show_ids: bool, as_json: bool) -> None:
    """Print plan, advice, time and memory of a recipe.

    Raises:
        ConfigError: The plan needs private sizes, which have not been released; releasing them would spend epsilon.
        PlanError: The budget of the graph would refuse the run.
    """
    import torch

    from reldp.graph.graph_names import graph_names
    from reldp.graph.sizes import has_release
    from reldp.runs.budget import Budget
    from reldp.runs.budget_entry import release_of
    from reldp.runs.budget_place import budget_of_graph
    from reldp.training.advice import advice
    from reldp.training.estimate import estimate_step
    from reldp.training.repeatability import no_random_numbers, repeatable

    capped = recipe.capped(show_ids=show_ids)
    if recipe._sizes()["sizes"] == "private" and not has_release(capped, recipe._folder()):
        split = "" if recipe.holdout is None else f" --holdout {recipe.holdout['share']:g}"
        raise ConfigError(
            "`dry_run` must not release private sizes, which costs epsilon, got a graph without a release. Use "
            f"reldp inspect GRAPH{split} --release-sizes first, or --sizes declared."
        )
    trainer = recipe.trainer(show_ids=show_ids, resumed=True)
    plan, performance = trainer.plan, trainer.config.performance
    cost = plan.privacy_cost()
    place = budget_of_graph(capped.graph.folder, trainer._budget, graph_names(capped.graph))
    if place is not None:
        with Budget.open(place, read_only=True) as budget:
            budget.refuse_run(plan, release=release_of(budget, plan, capped.fingerprint))
    threads = performance.threads or torch.get_num_threads()
    with repeatable(performance.device, threads), no_random_numbers():
        trainer.encoder.to(performance.device).eval()
        estimate = estimate_step(trainer._prepared())
    lines = advice(plan, cost.epsilon)
    is_gpu = str(performance.device).startswith("cuda")
    if as_json:
        fields: dict[str, Any] = cost_fields(plan, cost)
        fields |= {"seconds_per_step": estimate.seconds, "peak_bytes": estimate.peak_bytes}
        fields |= {"seconds": estimate.seconds * plan.num_steps, "warnings": lines}
        print_json(fields | {"device": performance.device})
        return
    print_cost(plan, cost)
    click.echo(
        f"\nAt most {estimate.seconds:.3g} s per step and {_hours(estimate.seconds * plan.num_steps)} in all on "
        f"{performance.device}, measured on public random rows of the greatest length, with "
        f"{estimate.peak_bytes / 2**30:.2g} GiB of memory{'' if is_gpu else ', the graph included'}. Nothing was "
        "trained or spent."
    )
    for line in lines:
        say(f"\nWarning: {line}")


def _hours(seconds: float) -> str:
    """Return a time in words, rounded up."""
    if seconds < 90:
        return f"{seconds:.2g} seconds"
    return f"{seconds / 60:.2g} minutes" if seconds < 5400 else f"{seconds / 3600 + 0.05:.2g} hours"
