"""``reldp account``: the epsilon of a training run.

The computation is in `reldp.accounting`, the comparison of clipping rules in `reldp.reporting`.
"""

from typing import Any

import click

from reldp.cli.commands import Command, option
from reldp.cli.options import accountant_option, json_option, make_plan, plan_options
from reldp.cli.output import cost_fields, print_comparison, print_cost, print_json
from reldp.cli.progress import show_busy

__all__ = ["command"]


@click.command(
    cls=Command,
    examples=[
        "reldp account --num-entities 1e6 --num-relations 5e6 --max-degree 5 --num-negatives 4 \\\n"
        "    --sample-rate 1e-5 --noise-multiplier 1 --num-steps 100000 --delta 2e-7",
    ],
)
@plan_options
@accountant_option
@option(
    "--compare",
    is_flag=True,
    help="Compute epsilon for every clipping rule, analysis and accountant, at the same noise per tuple.",
)
@option("--price-list", "compare_alias", is_flag=True, hidden=True)  # the name in 0.3
@json_option
def command(
    accountant: str, compare: bool, compare_alias: bool, as_json: bool, **settings: Any
) -> None:
    """Compute the epsilon of a training run from its settings alone.

    No data is read. Required: all options under "Plan", and exactly one of --sample-rate and --expected-batch-size.
    With --json one object is printed, in which an infinite epsilon is the string "Infinity".
    """
    plan = make_plan(settings)
    if compare or compare_alias:
        from reldp.reporting.rule_comparison import compare_rules

        print_comparison(plan, compare_rules(plan), as_json)
        return
    with show_busy("computing epsilon", is_sensitive=False):
        cost = plan.privacy_cost(accountant)
    if as_json:
        print_json(cost_fields(plan, cost))
    else:
        print_cost(plan, cost)
