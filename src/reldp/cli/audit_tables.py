"""The tables of ``reldp audit``.

>>> print_audits.__name__
'print_audits'
"""

from pathlib import Path
from typing import TYPE_CHECKING

from reldp.cli.output import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from reldp.auditing import Bound, StepAudit
    from reldp.auditing.suite import AuditResults

__all__ = ["print_audits"]


def print_audits(results: "AuditResults", plot: str | None) -> None:
    """Print bounds and checks of the audits, and one verdict for each."""
    if results.step is not None:
        print_table(_bounds("training step", _tightest(results.step.bounds)))
        print_table(_checks(results.step))
    sentences = results.verdicts
    if plot is not None:
        sentences.append(f"The figure is in {Path(plot).name}.")
    sentences.append(
        "An audit can refute a claim. It cannot prove one; the proof is in the plan's analysis."
    )
    print_table(_bounds("its parts", results.mechanism.bounds), *sentences)


def _tightest(bounds: "Sequence[Bound]") -> "list[Bound]":
    """Return one bound for each case and design: the closest to its claim."""
    best: dict[tuple[str, str], Bound] = {}
    for bound in bounds:
        label = bound.case, bound.design
        if label not in best or bound.share > best[label].share:
            best[label] = bound
    return list(best.values())


def _new_table(numbers: "Sequence[str]", words: "Sequence[str]") -> "Table":
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for header in words:
        table.add_column(header)
    for header in numbers:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def _bounds(title: str, bounds: "Sequence[Bound]") -> "Table":
    table = _new_table(("delta", "claimed", "audited", "share"), (title, "gradients", "direction"))
    for bound in bounds:
        style = "bold red" if bound.refuted else None
        numbers = (f"{bound.delta:.2g}", f"<= {bound.claimed:.3g}", f">= {bound.epsilon:.3g}")
        share = "-" if bound.claimed == 0 else f"{bound.share:.0%}"
        words = (bound.case, bound.design, bound.direction)
        table.add_row(*words, *numbers, share, style=style)
    return table


def _checks(audit: "StepAudit") -> "Table":
    table = _new_table(("p",), ("check", "expected", "seen"))
    for check in audit.checks:
        style = "bold red" if check.refuted else None
        table.add_row(check.name, check.expected, check.seen, f"{check.p_value:.2g}", style=style)
    return table
