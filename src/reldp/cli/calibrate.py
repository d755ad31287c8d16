"""``reldp calibrate``: the noise a target epsilon needs, or the steps it allows.

The search is in `reldp.accounting.calibration`; it computes epsilon for what it returns.
"""

from typing import Any

import click

from reldp.cli.options import (
    HINTS,
    Number,
    accountant_option,
    json_option,
    make_plan,
    plan_options,
)
from reldp.cli.output import cost_fields, print_cost, print_json
from reldp.errors import PlanError

__all__ = ["command"]


@click.command(short_help="the noise a target epsilon needs, or the steps it allows")
@click.option("--target-epsilon", type=Number(), metavar="EPSILON", help="Largest epsilon allowed.")
@plan_options
@accountant_option
@json_option
def command(target_epsilon: float | None, accountant: str, as_json: bool, **settings: Any) -> None:
    r"""Find the least noise, or the most steps, that keep epsilon within a target.

    Leave out what you want to know: --noise-multiplier for the least noise (to 0.1 %), or --num-steps for the
    most steps. Epsilon of the answer never exceeds the target.

    \b
    Example:
      reldp calibrate --target-epsilon 4 --num-entities 1e6 --num-relations 5e6 --max-degree 5
        --num-negatives 4 --expected-batch-size 50 --num-steps 100000 --delta 2e-7
    """
    from rich.console import Console

    wanted = _wanted(target_epsilon, settings)
    plan = make_plan(settings, optional=(wanted,))
    assert target_epsilon is not None  # checked with what is wanted
    with Console(stderr=True).status(f"searching for {wanted.replace('_', ' ')}"):
        search = plan.calibrate if wanted == "noise_multiplier" else plan.extend
        plan = search(target_epsilon, accountant)
        cost = plan.privacy_cost(accountant)
    if not as_json:
        print_cost(plan, cost)
        return
    found = {"noise_multiplier": plan.noise_multiplier, "num_steps": plan.num_steps}
    asked = {"target_epsilon": target_epsilon, "solved_for": wanted}
    print_json({**found, **cost_fields(plan, cost), **asked})


def _wanted(target_epsilon: float | None, settings: dict[str, Any]) -> str:
    """Which of noise and steps is asked for: the one left out."""
    if target_epsilon is None:
        raise PlanError(f"`target_epsilon` must be given. {HINTS['target_epsilon']}")
    left_out = [name for name in ("noise_multiplier", "num_steps") if settings[name] is None]
    if len(left_out) == 2:
        raise PlanError(
            "`noise_multiplier` or `num_steps` must be given. With the one, the other is searched for."
        )
    if not left_out:
        raise PlanError(
            "`noise_multiplier` and `num_steps` exclude one another here, got both. "
            "Leave out the one to search for."
        )
    return left_out[0]
