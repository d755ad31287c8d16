"""``reldp calibrate``: the least noise, or the largest number of steps, for a target epsilon.

The search is in `reldp.accounting.calibration`, which checks the epsilon of what it returns.
"""

from typing import Any

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import (
    HINTS,
    Number,
    accountant_option,
    json_option,
    make_plan,
    plan_options,
)
from reldp.cli.output import cost_fields, print_cost, print_json
from reldp.cli.progress import show_busy
from reldp.errors import PlanError

__all__ = ["command"]


@click.command(
    cls=Command,
    examples=[
        "reldp calibrate --target-epsilon 4 --num-entities 1e6 --num-relations 5e6 --max-degree 5 \\\n"
        "    --num-negatives 4 --expected-batch-size 50 --num-steps 100000 --delta 2e-7",
    ],
)
@option(
    "--target-epsilon",
    type=Number(),
    metavar="EPSILON",
    group="Main options",
    help="Largest epsilon allowed (required).",
)
@plan_options
@accountant_option
@json_option
def command(target_epsilon: float | None, accountant: str, as_json: bool, **settings: Any) -> None:
    """Compute the least noise, or the largest number of steps, that keeps epsilon within a target.

    No data is read. Leave out what you want to compute: --noise-multiplier for the least noise (to 0.1 %), or
    --num-steps for the largest number of steps. Required: all other options under "Plan", and exactly one of
    --sample-rate and --expected-batch-size. The epsilon of the answer never exceeds the target.
    """
    wanted = _wanted(target_epsilon, settings)
    plan = make_plan(settings, optional=(wanted,))
    assert target_epsilon is not None  # checked by _wanted
    with show_busy(f"searching for {wanted.replace('_', ' ')}", is_sensitive=False):
        search = plan.calibrate if wanted == "noise_multiplier" else plan.extend
        plan = search(target_epsilon, accountant)
        cost = plan.privacy_cost(accountant)
    if not as_json:
        print_cost(plan, cost)
        return
    answer = {"noise_multiplier": plan.noise_multiplier, "num_steps": plan.num_steps}
    question = {"target_epsilon": target_epsilon, "solved_for": wanted}
    print_json({**answer, **cost_fields(plan, cost), **question})


def _wanted(target_epsilon: float | None, settings: dict[str, Any]) -> str:
    """Return which of noise and steps to compute: the one left out."""
    if target_epsilon is None:
        raise PlanError(f"`target_epsilon` must be given. {HINTS['target_epsilon']}")
    left_out = [name for name in ("noise_multiplier", "num_steps") if settings[name] is None]
    if len(left_out) == 2:
        raise PlanError(
            "`noise_multiplier` or `num_steps` must be given. The other one is computed."
        )
    if not left_out:
        raise PlanError(
            "`noise_multiplier` and `num_steps` exclude one another here, got both. "
            "Leave out the one to compute."
        )
    return left_out[0]
