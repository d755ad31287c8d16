"""``reldp demo``: what the paper's default setting costs, under every rule and analysis."""

import click

from reldp.cli.options import json_option
from reldp.cli.output import print_price_list

__all__ = ["command"]


@click.command(short_help="the price list of the paper's default setting")
@json_option
def command(as_json: bool) -> None:
    """Price the paper's default setting: one run, every rule and analysis."""
    from reldp.reporting.price_list import paper_plan, price_list

    plan = paper_plan()
    print_price_list(plan, price_list(plan), as_json)
