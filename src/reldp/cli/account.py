"""``reldp account``: epsilon of a plan.

The computation is in `reldp.accounting`, the comparison of rules in `reldp.reporting.rule_comparison`.
"""

from typing import Any

import click

from reldp.cli.options import accountant_option, json_option, make_plan, plan_options
from reldp.cli.output import cost_fields, print_comparison, print_cost, print_json

__all__ = ["command"]


@click.command(short_help="epsilon of a plan")
@plan_options
@accountant_option
@click.option(
    "--compare",
    is_flag=True,
    help="Print epsilon for every clipping rule, analysis and accountant at the same noise per tuple.",
)
@click.option("--price-list", "compare_alias", is_flag=True, hidden=True)  # name in 0.3
@json_option
def command(
    accountant: str, compare: bool, compare_alias: bool, as_json: bool, **settings: Any
) -> None:
    r"""Say what a training run costs: epsilon at delta, by which proof.

    \b
    Example, the default setting of the paper:
      reldp account --num-entities 1e6 --num-relations 5e6 --max-degree 5 --num-negatives 4
        --sample-rate 1e-5 --noise-multiplier 1 --num-steps 100000 --delta 2e-7

    With --json one object is printed; an infinite epsilon is the string "Infinity" there.
    """
    plan = make_plan(settings)
    if compare or compare_alias:
        from reldp.reporting.rule_comparison import compare_rules

        print_comparison(plan, compare_rules(plan), as_json)
        return
    cost = plan.privacy_cost(accountant)
    if as_json:
        print_json(cost_fields(plan, cost))
    else:
        print_cost(plan, cost)
