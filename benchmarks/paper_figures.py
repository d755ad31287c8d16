"""The paper's numerical figures, redrawn with what is proven beside what is claimed.

Around the paper's default (n = 10^6, m = 5 * 10^6, K = 5, rate 1e-5, 4 negatives, noise 0.5 for its own rule, delta =
1/m) one of degree, negatives and noise varies. Above: Renyi epsilon of one step against the order. Below: epsilon
against the number of steps. All curves of a panel have the same noise per tuple, noise divided by the most that one
tuple can add: the frequency rule gives a tuple at most C/2, so its noise multiplier is half of the others'. The plain
Gaussian takes the frequency rule's claim (one entity moves the sum by at most C) and leaves sampling out. Pictures
and data:

    python benchmarks/paper_figures.py -o docs/figures
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reldp import PrivacyPlan
from reldp.reporting.rule_comparison import noise_multiplier_for, paper_plan

VARIED: dict[str, tuple[str, tuple[float, ...]]] = {
    "degree": ("max_degree", (2, 5, 20)),
    "negatives": ("num_negatives", (1, 4, 16)),
    "noise": ("noise_multiplier", (0.6, 1.0, 2.0)),
}
WORDS = {
    "max_degree": "relations per entity: {:g}",
    "num_negatives": "negatives per relation: {:g}",
    "noise_multiplier": "noise per tuple: {:g}",
}
ORDERS = tuple(np.geomspace(1.25, 32, 40).round(4).tolist())
STEPS = tuple(int(steps) for steps in np.geomspace(100, 10**6, 13).round())
QUICK_ORDERS, QUICK_STEPS = (1.5, 4.0), (1000, 100_000)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One way to train and to account, and how it is drawn."""

    label: str
    clipping: str
    analysis: str
    accountant: str | None  # None: a Gaussian mechanism without sampling
    style: dict[str, Any]
    drawn_above: bool = True  # False: another curve already shows the same Renyi epsilon


CURVES = (
    Curve(
        label="plain Gaussian, no sampling (claimed sensitivity)",
        clipping="frequency",
        analysis="best",
        accountant=None,
        style={"color": "#888888", "linestyle": ":", "linewidth": 1.6},
    ),
    Curve(
        label="frequency rule, Renyi (claimed, false in the worst case)",
        clipping="frequency",
        analysis="best",
        accountant="rdp",
        style={"color": "#d55e00", "linestyle": "--", "linewidth": 1.8},
    ),
    Curve(
        label="tuple, replacement, Renyi (proven)",
        clipping="tuple",
        analysis="replacement",
        accountant="rdp",
        style={"color": "#0072b2", "linewidth": 1.8},
    ),
    Curve(
        label="tuple, replacement, PLD (proven)",
        clipping="tuple",
        analysis="replacement",
        accountant="pld",
        style={"color": "#56b4e9", "linewidth": 1.4},
        drawn_above=False,
    ),
    Curve(
        label="ours: tuple, anchored, PLD (proven; above: Renyi)",
        clipping="tuple",
        analysis="anchored",
        accountant="pld",
        style={"color": "#009e73", "linewidth": 2.6},
    ),
    Curve(
        label="ours: pair, replacement, PLD (proven; above: Renyi)",
        clipping="pair",
        analysis="replacement",
        accountant="pld",
        style={"color": "#aa4499", "linewidth": 1.8, "linestyle": "-."},
    ),
)


def plan_of(curve: Curve, setting: PrivacyPlan) -> PrivacyPlan:
    """Return the setting under a curve's rule, at the same noise per tuple."""
    noise = noise_multiplier_for(curve.clipping, setting.noise_multiplier)
    return replace(
        setting, clipping=curve.clipping, analysis=curve.analysis, noise_multiplier=noise
    )


def renyi_of(curve: Curve, setting: PrivacyPlan, orders: Sequence[float]) -> list[float]:
    """Renyi epsilon of one step at each order."""
    plan = plan_of(curve, setting)
    if curve.accountant is None:
        return [order / (2 * plan.noise_multiplier**2) for order in orders]
    return [float(value) for value in plan.rdp(orders)]


def gaussian_epsilon(noise: float, steps: int, delta: float) -> float:
    """Epsilon of composed Gaussian mechanisms by Renyi divergences, as in the paper."""
    orders = 1 + np.geomspace(1e-6, 1e6, 20_001)
    bounds = steps * orders / (2 * noise**2) + np.log1p(-1 / orders)
    bounds -= (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(bounds.min())


def epsilons_of(curve: Curve, setting: PrivacyPlan, steps: Sequence[int]) -> list[float]:
    """Epsilon after each number of steps."""
    plan = plan_of(curve, setting)
    if curve.accountant is None:
        return [gaussian_epsilon(plan.noise_multiplier, t, plan.delta) for t in steps]
    return [plan.epsilon(curve.accountant, num_steps=t) for t in steps]


def compute(varied: str, quick: bool) -> dict[str, Any]:
    """All numbers of one figure."""
    field, values = VARIED[varied]
    orders, steps = (QUICK_ORDERS, QUICK_STEPS) if quick else (ORDERS, STEPS)
    panels = []
    for value in values[1:2] if quick else values:
        setting = replace(paper_plan(), **{field: value})
        curves = [
            {
                "label": curve.label,
                "clipping": curve.clipping,
                "analysis": curve.analysis,
                "accountant": curve.accountant,
                "noise_multiplier": plan_of(curve, setting).noise_multiplier,
                "status": plan_of(curve, setting).status,
                "renyi_epsilon_per_step": renyi_of(curve, setting, orders),
                "epsilon": epsilons_of(curve, setting, steps),
            }
            for curve in CURVES
        ]
        panels.append({field: value, "curves": curves})
    setting = paper_plan().to_dict()
    return {
        "varied": field,
        "setting": {k: v for k, v in setting.items() if k not in ("clipping", "analysis", field)},
        "orders": list(orders),
        "num_steps": list(steps),
        "panels": panels,
    }


def draw(data: dict[str, Any], path: Path) -> None:
    """Draws one figure: Renyi epsilon per step above, epsilon against steps below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels, field = data["panels"], data["varied"]
    figure, axes = pyplot.subplots(
        2, len(panels), figsize=(4.2 * len(panels), 8.4), sharey="row", squeeze=False
    )
    for column, panel in enumerate(panels):
        above, below = axes[0, column], axes[1, column]
        for curve, numbers in zip(CURVES, panel["curves"], strict=True):
            if curve.drawn_above:
                above.plot(data["orders"], numbers["renyi_epsilon_per_step"], **curve.style)
            below.plot(data["num_steps"], numbers["epsilon"], label=curve.label, **curve.style)
        above.set_title(WORDS[field].format(panel[field]))
        above.set_xlabel("order")
        below.set_xlabel("training steps")
        for axis in (above, below):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.grid(alpha=0.25)
        above.set_xticks([1.5, 2, 4, 8, 16, 32], ["1.5", "2", "4", "8", "16", "32"])
        above.minorticks_off()
        below.set_ylim(0.002, 1000)
        below.set_yticks([0.01, 0.1, 1, 10, 100, 1000], ["0.01", "0.1", "1", "10", "100", "1000"])
    axes[0, 0].set_ylabel("Renyi epsilon of one step")
    axes[1, 0].set_ylabel(f"epsilon at delta = {data['setting']['delta']:g}")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.11, 1, 1))
    # No date in the file: the same numbers give the same picture.
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/figures"))
    parser.add_argument("--quick", action="store_true", help="a few points, to see that it works")
    parser.add_argument("--redraw", action="store_true", help="draw the stored numbers again")
    parser.add_argument("--only", choices=list(VARIED), help="one figure instead of all")
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    for varied in [chosen.only] if chosen.only else VARIED:
        stored = chosen.output / f"{varied}.json"
        data = json.loads(stored.read_text()) if chosen.redraw else compute(varied, chosen.quick)
        stored.write_text(json.dumps(data, indent=1) + "\n")
        draw(data, chosen.output / f"{varied}.png")
        print(f"drew {varied}")


if __name__ == "__main__":
    main()
