"""``reldp account``: epsilon of a plan.

The pricing is in `reldp.accounting`, the comparison of rules in `reldp.reporting.price_list`.
"""

from typing import Any

import click

from reldp.cli.options import accountant_option, json_option, make_plan, plan_options
from reldp.cli.output import price_fields, print_json, print_price, print_price_list

__all__ = ["command"]


@click.command(short_help="epsilon of a plan")
@plan_options
@accountant_option
@click.option(
    "--price-list",
    is_flag=True,
    help="Price every rule, analysis and accountant at the same noise per tuple.",
)
@json_option
def command(accountant: str, price_list: bool, as_json: bool, **settings: Any) -> None:
    r"""Say what a training run costs: epsilon at delta, by which proof.

    \b
    Example, the default setting of the paper:
      reldp account --num-entities 1e6 --num-relations 5e6 --max-degree 5 --num-negatives 4
        --sample-rate 1e-5 --noise-multiplier 1 --num-steps 100000 --delta 2e-7

    With --json one object is printed; an infinite epsilon is the string "Infinity" there.
    """
    plan = make_plan(settings)
    if price_list:
        from reldp.reporting.price_list import price_list as rows_of

        print_price_list(plan, rows_of(plan), as_json)
        return
    price = plan.price(accountant)
    if as_json:
        print_json(price_fields(plan, price))
    else:
        print_price(plan, price)
