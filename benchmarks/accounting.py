"""Seconds for epsilon and calibration with each accountant, and beside dp-accounting's generic mixtures.

Four settings: the paper's default, and three harder ones (small noise, many relations per entity, a small graph sampled
densely). Epsilons are those of the default analysis ("best": both are computed). The generic construction is
`from_mixture_gaussian_mechanism` of dp-accounting, which takes one mixture: the replacement analysis with the
number of positives fixed at its mean. Ours is timed on the same mixture at the same interval, equally spaced, both
directions. (An epsilon takes all batch sizes into account, on the adaptive grid.) Start-up times are whole processes.
One run on an idle machine:

    OMP_NUM_THREADS=1 python benchmarks/accounting.py -o benchmarks/results/accounting.json
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from reldp import PrivacyPlan
from reldp.accounting.discretization import discretize, loss_range
from reldp.accounting.dominating import DominatingPair, dominating_pair

LOG_RARE = -50.0  # dp-accounting's default truncation, given to both sides
LIMITS = {"rdp epsilon": 0.5, "pld epsilon": 2.0, "pld calibrate": 15.0}
GENERIC_AT_SMALL_NOISE = 20.0
IMPORT_LIMIT, COMMAND_LIMIT = 0.3, 3.0
COMMAND = (
    "account --num-entities 1e6 --num-relations 5e6 --max-degree 5 --num-negatives 4 --sample-rate 1e-5 "
    "--noise-multiplier 1 --num-steps 100000 --delta 2e-7 --json"
)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A plan whose epsilon is computed, a target to calibrate it to, and the interval of the comparison."""

    plan: PrivacyPlan
    target_epsilon: float
    interval: float


def settings() -> dict[str, Setting]:
    large = {"num_entities": 10**6, "num_relations": 5 * 10**6, "sample_rate": 1e-5}
    large |= {"num_negatives": 4, "num_steps": 100_000, "delta": 2e-7}
    small = {"num_entities": 5000, "num_relations": 25_000, "sample_rate": 0.02}
    small |= {"num_negatives": 4, "num_steps": 100, "delta": 4e-5}
    return {
        "the paper's default, noise 1": Setting(
            plan=PrivacyPlan(**large, max_degree=5), target_epsilon=4.0, interval=1e-4
        ),
        "small noise 0.3": Setting(
            plan=PrivacyPlan(**large, max_degree=5, noise_multiplier=0.3),
            target_epsilon=30.0,
            interval=1e-3,
        ),
        "K = 50, noise 1": Setting(
            plan=PrivacyPlan(**large, max_degree=50), target_epsilon=4.0, interval=1e-3
        ),
        "n = 5,000, rate 0.02, noise 1": Setting(
            plan=PrivacyPlan(**small, max_degree=5), target_epsilon=4.0, interval=1e-3
        ),
    }


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median seconds of a call, and what it returned."""
    times, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def timed(call: Callable[[], Any], repeats: int) -> tuple[dict[str, float], Any]:
    """Median seconds by the clock, mean seconds of the processor, and what the call returned."""
    start = time.process_time()
    taken, result = seconds(call, repeats)
    processor = (time.process_time() - start) / repeats
    return {"seconds": round(taken, 3), "processor_seconds": round(processor, 3)}, result


def costs(setting: Setting, repeats: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for accountant in ("rdp", "pld"):
        plan, target = setting.plan, setting.target_epsilon
        taken, epsilon = timed(lambda a=accountant, p=plan: p.epsilon(a), repeats)
        rows[f"{accountant} epsilon"] = {**taken, "epsilon": epsilon}
        taken, result = timed(lambda a=accountant, p=plan, t=target: p.calibrate(t, a), 1)
        noise = {"target_epsilon": target, "noise_multiplier": result.noise_multiplier}
        rows[f"{accountant} calibrate"] = {**taken, **noise}
    return rows


def one_mixture(plan: PrivacyPlan) -> DominatingPair:
    """Return the replacement analysis at the mean number of positives: weights are affine in it."""
    pair = dominating_pair(plan.event, "replacement", LOG_RARE)
    mean = pair.node_weights @ np.exp(pair.log_weights)
    logs = np.log(mean / mean.sum())[None, :]
    return replace(pair, log_weights=logs, node_weights=np.ones(1), excess=np.zeros(1))


def generic(mixture: DominatingPair, interval: float) -> Any:
    """dp-accounting's own construction of one mixture, both directions."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_mixture_gaussian_mechanism(
        mixture.sigma,
        mixture.sensitivities.tolist(),
        np.exp(mixture.log_weights[0]).tolist(),
        value_discretization_interval=interval,
        log_mass_truncation_bound=LOG_RARE,
    )


def construct(pair: DominatingPair, interval: float) -> int:
    """Our construction, equally spaced, both directions; returns how many losses it kept."""
    lowest, highest = loss_range(pair, math.exp(LOG_RARE))
    positions = np.arange(math.floor(lowest / interval) - 1, math.ceil(highest / interval) + 2)
    discretize(pair, positions, interval)
    return len(positions)


def beside_generic(setting: Setting, repeats: int) -> dict[str, Any]:
    mixture = one_mixture(setting.plan)
    theirs, _ = seconds(lambda: generic(mixture, setting.interval), 1)
    same, num_losses = seconds(lambda: construct(mixture, setting.interval), repeats)
    return {
        "interval": setting.interval,
        "losses": num_losses,
        "components": len(mixture.sensitivities),
        "generic_seconds": round(theirs, 3),
        "ours_seconds": round(same, 3),
        "generic_to_ours": round(theirs / same, 1),
    }


def start_up(repeats: int) -> dict[str, float]:
    """Median seconds of `import reldp` inside a fresh process, and of `reldp account` as a whole."""
    code = "import time; s = time.perf_counter(); import reldp; print(time.perf_counter() - s)"
    imports = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(repeats)
    ]
    call = [sys.executable, "-c", "from reldp.cli.main import main; main()", *COMMAND.split()]
    whole, _ = seconds(lambda: subprocess.run(call, capture_output=True, check=True), repeats)
    return {
        "import_reldp": round(statistics.median(imports), 4),
        "reldp_account": round(whole, 3),
    }


def reached(rows: dict[str, Any], starts: dict[str, float]) -> dict[str, bool]:
    """Which of the stated limits hold, in every setting."""
    met = {
        f"{what} under {limit:g} s": all(row[what]["seconds"] < limit for row in rows.values())
        for what, limit in LIMITS.items()
    }
    ratio = rows["small noise 0.3"]["construction"]["generic_to_ours"]
    met[f"{GENERIC_AT_SMALL_NOISE:g} times faster than generic at small noise"] = (
        ratio >= GENERIC_AT_SMALL_NOISE
    )
    met[f"import under {IMPORT_LIMIT:g} s"] = starts["import_reldp"] < IMPORT_LIMIT
    met[f"account under {COMMAND_LIMIT:g} s"] = starts["reldp_account"] < COMMAND_LIMIT
    return met


def show(rows: dict[str, Any], starts: dict[str, float], met: dict[str, bool]) -> None:
    for name, row in rows.items():
        print(f"\n{name}")
        for what in ("rdp epsilon", "pld epsilon", "rdp calibrate", "pld calibrate"):
            result = row[what]
            value = result.get("epsilon", result.get("noise_multiplier"))
            label = "epsilon" if "epsilon" in what else f"noise for {result['target_epsilon']:g}"
            clock, processor = result["seconds"], result["processor_seconds"]
            print(
                f"  {what:14s} {clock:8.3f} s (processor {processor:.3f} s)   {label} {value:.4g}"
            )
        built = row["construction"]
        print(
            f"  construction at interval {built['interval']:g}: generic {built['generic_seconds']:.2f} s, "
            f"ours {built['ours_seconds']:.3f} s ({built['generic_to_ours']:g} times faster)"
        )
    print(f"\nimport reldp {starts['import_reldp']:.3f} s, account {starts['reldp_account']:.2f} s")
    for what, holds in met.items():
        print(f"  {'yes' if holds else 'NO '}  {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    rows = {}
    for name, setting in settings().items():
        rows[name] = costs(setting, arguments.repeats)
        rows[name]["construction"] = beside_generic(setting, arguments.repeats)
    starts = start_up(arguments.repeats)
    met = reached(rows, starts)
    show(rows, starts, met)
    result = {
        "command": f"python benchmarks/accounting.py --repeats {arguments.repeats}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "load_before": round(load, 2),
        "settings": rows,
        "start_up_seconds": starts,
        "reached": met,
    }
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
