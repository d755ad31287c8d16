"""The picture of a mechanism audit: claimed epsilon above, audited lower bounds below, over delta.

A point above the line is a refutation and is drawn as one. Needs matplotlib (``pip install reldp[figures]``).

Public: `draw_audit`.

>>> draw_audit.__name__
'draw_audit'
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reldp.errors import InputError, MissingDependency

if TYPE_CHECKING:
    from reldp.auditing.results import MechanismAudit

__all__ = ["check_format", "draw_audit"]

_FORMATS = (".png", ".svg", ".pdf")
_CLAIM, _BOUND, _BAD = "#1f4e79", "#2e8b57", "#b22222"


def draw_audit(audit: "MechanismAudit", path: str | Path) -> None:
    """Write the picture; the name's ending decides the format.

    Args:
        audit: What to draw.
        path: A ``.png``, ``.svg`` or ``.pdf`` file.
    """
    target = check_format(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            "`plot` needs matplotlib. Install it with pip install 'reldp[figures]'."
        ) from error
    figure: Any = Figure(figsize=(6.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    _fill(axes, audit)
    figure.savefig(target, dpi=160)


def check_format(path: str | Path) -> Path:
    """Refuse the name of a picture whose ending is no known format, before an audit is run for it."""
    target = Path(path)
    if target.suffix.lower() not in _FORMATS:
        raise InputError(
            f"`plot` must end in {', '.join(_FORMATS)}, got {target.name!r}. "
            "The ending decides the format."
        )
    return target


def _fill(axes: Any, audit: "MechanismAudit") -> None:
    deltas = [bound.delta for bound in audit.bounds]
    claimed = [bound.claimed for bound in audit.bounds]
    audited = [bound.epsilon for bound in audit.bounds]
    colors = [_BAD if bound.refuted else _BOUND for bound in audit.bounds]
    axes.plot(deltas, claimed, "-o", color=_CLAIM, label="claimed: epsilon is at most this")
    axes.fill_between(deltas, audited, claimed, color=_CLAIM, alpha=0.06, linewidth=0)
    axes.vlines(deltas, 0, audited, color=colors, linewidth=1, alpha=0.6)
    label = f"audited: at least this ({audit.confidence:.0%} confidence)"
    axes.scatter(deltas, audited, color=colors, marker="^", s=55, zorder=3, label=label)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.12 * max(*claimed, *audited, 1e-3))
    axes.set_xlabel("delta")
    axes.set_ylabel("epsilon")
    steps = "one step" if audit.num_steps == 1 else f"{audit.num_steps:,} steps"
    rule = audit.plan.get("clipping", "")
    axes.set_title(f"{rule} rule, {steps}, {audit.trials:,} trials on each graph", fontsize=10)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
