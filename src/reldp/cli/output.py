"""How epsilons are printed: a table for people, one JSON object for programs.

Epsilon is rounded up wherever it is rounded. JSON has no infinity: an infinite epsilon is written as the string
``"Infinity"``, which ``float`` in Python and ``Number`` in JavaScript read back, and which, unlike null, no program
mistakes for a small number.

Public to the other commands: `print_json`, `print_cost`, `print_comparison`, `cost_fields`, `guarantee`,
`round_up`, `print_table`, `say`, `shell_word`, `visible_console`.

Graphs, models, recipes and run folders may come from others: control characters of their names and words do not reach
a terminal.

>>> round_up(0.45824831)
'0.4583'
>>> to_json({"epsilon": float("inf")}, indent=None)
'{"epsilon": "Infinity"}'
"""

import json
import math
import os
import shlex
from dataclasses import asdict
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING, Any

import click

from reldp.runs.inert_text import visible_text
from reldp.runs.wording import other_relations, relation_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table

    from reldp.accounting import PrivacyCost
    from reldp.plan import PrivacyPlan
    from reldp.reporting.rule_comparison import RuleCost

__all__ = [
    "cost_fields",
    "guarantee",
    "print_comparison",
    "print_cost",
    "print_json",
    "print_table",
    "round_up",
    "say",
    "shell_word",
    "to_json",
    "visible_console",
]

_ANALYSIS_LABELS = {
    "anchored": "anchored: one tuple changes for each negative draw of the entity",
    "replacement": "replacement: the published coupling, which counts such a tuple twice",
}
_STATUS_LABELS = {
    "proven": "proven",
    "claimed": "claimed, false in the worst case",
    "none": "none: without noise nothing is guaranteed",
}
_ACCOUNTANT_LABELS = {"pld": "privacy-loss distributions (pld)", "rdp": "Renyi divergences (rdp)"}
_POOL_LABELS = {
    "entities": "all entities of the graph",
    "unprotected": "entities that are not protected",
    "public": "a public pool",
}


def round_up(value: float, digits: int = 4) -> str:
    """Return the number with that many significant digits, never below its value."""
    if not math.isfinite(value):
        return "infinite"
    # From its decimal notation: the binary 1e-5 is slightly larger and would be rounded up.
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(value)))
    return f"{float(rounded):.{digits}g}"


def _valid(value: Any) -> Any:
    """Return the value with infinities as strings, since JSON has none."""
    if isinstance(value, dict):
        return {name: _valid(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def to_json(fields: dict[str, Any], indent: int | None = 2) -> str:
    """Return the fields as valid JSON; NaN is refused."""
    return json.dumps(_valid(fields), indent=indent, allow_nan=False)


def print_json(fields: dict[str, Any]) -> None:
    """Print one JSON object."""
    click.echo(to_json(fields))


def say(words: str, *, err: bool = False) -> None:
    """Print words that may be of others, without control characters."""
    click.echo(visible_text(words), err=err)


def visible_console() -> "Console":
    """Return a console for standard output that shows text of others without its control characters."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> "Iterator[Segment]":
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else visible_text(text), style, control)

    has_no_width = set(os.environ.get("COLUMNS", "")) == {"0"}  # rich would show nothing
    return VisibleConsole(highlight=False, markup=False, width=80 if has_no_width else None)


def cost_fields(plan: "PrivacyPlan", cost: "PrivacyCost") -> dict[str, Any]:
    """Return what ``--json`` prints: epsilon, what it rests on, and the plan."""
    return {
        "epsilon": cost.epsilon,
        "delta": cost.delta,
        "accountant": cost.accountant,
        "clipping": plan.clipping.name,
        "analysis": cost.analysis,
        "status": plan.clipping.status,  # of the epsilon, which may be infinite: see `guarantee`
        "guarantee": guarantee(plan, cost),
        "plan": plan.to_dict(),
        "plan_hash": plan.hash,
    }


def guarantee(plan: "PrivacyPlan", cost: "PrivacyCost") -> str:
    """Return one sentence: what is guaranteed to whom, and whether it is proven."""
    if math.isinf(cost.epsilon):
        reason = (
            "there is no noise"
            if plan.noise_multiplier == 0
            else "the noise or the pool of negatives is too small"
        )
        return f"Nothing is guaranteed: epsilon is infinite because {reason} for this delta."
    if plan.status == "claimed" and plan.clipping.is_local:
        return (
            f"Claimed, not proven: reldp has no proof of the sensitivity that the {plan.clipping} rule states. "
            "Do not promise this epsilon to anyone; --clipping tuple has a proven one."
        )
    if plan.status == "claimed":
        return (
            "Claimed, false in the worst case: the published argument that one entity changes the sum of a batch by "
            "at most the clip norm has counterexamples. Do not promise this epsilon to anyone; "
            "--clipping tuple has a proven one."
        )
    pair = f"({round_up(cost.epsilon)}, {round_up(cost.delta)})"
    if plan.unit == "relation":
        return (
            f"Proven: training is {pair}-differentially private for any one relation. This is weaker than "
            "protecting an entity, whose presence, or relations together, may show."
        )
    who = (
        "owner together with all its entities and"
        if plan.unit == "owner"
        else "entity together with"
    )
    return (
        f"Proven: training is {pair}-differentially private for any one protected {who} "
        f"all {'their' if plan.unit == 'owner' else 'its'} relations, at most {plan.max_degree}, in the capped graph."
    )


def _facts(plan: "PrivacyPlan", cost: "PrivacyCost") -> list[tuple[str, str]]:
    """Return label and text of each row of the table."""
    rate = f"{plan.sample_rate:.6g}"
    return [
        ("epsilon", f"{round_up(cost.epsilon)} at delta {round_up(cost.delta)}"),
        ("status", _STATUS_LABELS[plan.status]),
        ("accountant", _ACCOUNTANT_LABELS[cost.accountant]),
        ("analysis", _ANALYSIS_LABELS.get(cost.analysis, "the published claim; no proof")),
        ("clipping", f"{plan.clipping}: {plan.clipping.summary.split(';')[0]}"),
        ("noise", f"{round_up(plan.noise_multiplier, 6)} times the clip norm"),
        ("steps", f"{plan.num_steps:,}"),
        (
            "batch size",
            f"{plan.expected_batch_size:,.6g} relations expected, each sampled at rate {rate}",
        ),
        ("negatives", _negatives(plan)),
        ("graph", _graph(plan)),
        ("unit of privacy", _unit(plan)),
    ]


def _negatives(plan: "PrivacyPlan") -> str:
    if plan.negatives == "relations":
        return other_relations(plan.num_negatives)
    return f"{plan.num_negatives} per relation, from {_POOL_LABELS[plan.negatives]}"


def _graph(plan: "PrivacyPlan") -> str:
    if plan.sizes == "public":
        return f"{plan.num_entities:,} {_units(plan)}, {plan.num_relations:,} relations"
    return f"at least {plan.num_entities:,} {_units(plan)}, {relation_bounds(plan)}"


def _units(plan: "PrivacyPlan") -> str:
    return "owners" if plan.unit == "owner" else "entities"


def _unit(plan: "PrivacyPlan") -> str:
    if plan.unit == "relation":
        return "one relation"
    if plan.unit == "owner":
        return f"one owner, its entities and their relations, at most {plan.max_degree:,}"
    return f"one entity and its relations, at most {plan.max_degree:,}"


def print_cost(plan: "PrivacyPlan", cost: "PrivacyCost") -> None:
    """Print the table for people and the guarantee below it."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, words in _facts(plan, cost):
        table.add_row(label, words, style="bold" if label == "epsilon" else None)
    print_table(table, guarantee(plan, cost))


def print_comparison(plan: "PrivacyPlan", rows: list["RuleCost"], as_json: bool) -> None:
    """Print the epsilon of one setting under every clipping rule, analysis and accountant."""
    setting = {**plan.to_dict(), "noise_per_tuple": plan.noise_multiplier}
    for name in ("clipping", "analysis", "noise_multiplier"):
        del setting[name]
    if as_json:
        print_json({"setting": setting, "comparison": [asdict(row) for row in rows]})
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("clipping", "analysis", "accountant", "noise", "epsilon", ""):
        right = header in ("noise", "epsilon")
        table.add_column(header, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        remark = "" if row.status == "proven" else "false in the worst case"
        noise, epsilon = f"{row.noise_multiplier:g}", round_up(row.epsilon)
        table.add_row(row.clipping, row.analysis, row.accountant, noise, epsilon, remark)
    print_table(
        table,
        f"{plan.num_entities:,} {_units(plan)}, {plan.num_relations:,} relations, at most {plan.max_degree} each, "
        f"{plan.num_negatives} negatives, rate {plan.sample_rate:g}, {plan.num_steps:,} steps, "
        f"delta {round_up(plan.delta)}.",
        "All rows have the same noise per tuple. The frequency rule clips a tuple to half of the clip norm, so its "
        "noise multiplier is half as large.",
    )


def print_table(table: "Table | None", *sentences: str) -> None:
    """Print a table, if there is one, and sentences below it, wrapped to the terminal."""
    console = visible_console()
    for number, part in enumerate(([] if table is None else [table]) + list(sentences)):
        if number:
            console.print()
        console.print(part)


def shell_word(path: object) -> str:
    """Return a path as one word of a command that is printed to be copied.

    >>> shell_word("my run")
    "'my run'"
    """
    return shlex.quote(str(path))
