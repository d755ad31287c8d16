"""Noise multipliers of all cells, calibrated beforehand and stored as JSON beside the results.

A level is an accountant's answer about one plan: the smallest noise for a target epsilon, or the
epsilon of a given noise. Levels are looked up by the hash of the plan. A cell whose level is
missing does not run.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from reldp import PrivacyPlan
from reldp.errors import ConfigError

NOISY = ("private", "noise-only")


def bare_plan(cell: Cell, inputs: Inputs) -> PrivacyPlan:
    """Return the cell's plan before calibration; sizes are public, delta is 1/m of the capped graph."""
    capped = inputs.capped(cell.train, cell.max_degree)
    pool = inputs.graph(cell.pool).num_entities if cell.pool else capped.num_entities
    if cell.negatives == "relations":
        pool = capped.num_relations
    return PrivacyPlan(
        num_entities=capped.num_entities,
        num_relations=capped.num_relations,
        max_degree=capped.max_degree,
        num_negatives=cell.num_negatives,
        expected_batch_size=float(cell.batch),
        num_steps=cell.steps,
        clipping=cell.clipping,
        negatives=cell.negatives,
        pool_size=pool,
        analysis=cell.analysis,
        clip_norm=1.0,  # does not change epsilon
        noise_multiplier=cell.noise if cell.noise else 1.0,
        delta=1.0 / capped.num_relations,
        sizes="public",  # exact, as in other work
    )


class Levels:
    """Calibrated levels, in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, dict[str, Any]] = (
            json.loads(path.read_text()) if path.is_file() else {}
        )

    def plan(self, cell: Cell, inputs: Inputs) -> PrivacyPlan:
        """Return the cell's plan with its noise; without privacy, a plan without noise."""
        plan = bare_plan(cell, inputs)
        if cell.method not in NOISY:
            return replace(plan, noise_multiplier=0.0, clip_norm=cell.clip_norm)
        level = self.known.get(level_key(cell, plan))
        if level is None:
            raise ConfigError(f"`noise` must be calibrated first, got none for {cell.name!r}.")
        return replace(plan, noise_multiplier=level["noise_multiplier"], clip_norm=cell.clip_norm)

    def epsilon(self, cell: Cell, inputs: Inputs) -> float | None:
        """Return the epsilon of the cell's noise; None without privacy."""
        if cell.method not in NOISY:
            return None
        return float(self.known[level_key(cell, bare_plan(cell, inputs))]["epsilon"])

    def calibrate(self, cells: Iterable[Cell], inputs: Inputs, workers: int = 1) -> int:
        """Compute the levels that are not known, in processes; return how many were new."""
        noisy = [cell for cell in cells if cell.method in NOISY]
        keyed = {level_key(cell, bare_plan(cell, inputs)): cell for cell in noisy}
        missing = {key: cell for key, cell in keyed.items() if key not in self.known}
        if workers > 1 and len(missing) > 1:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(workers, mp_context=context) as pool:
                levels = list(pool.map(_level, missing.values(), [inputs] * len(missing)))
        else:
            levels = [_level(cell, inputs) for cell in missing.values()]
        self.known |= dict(zip(missing, levels, strict=True))
        if missing:
            self._write()
        return len(missing)

    def renew(self) -> int:
        """Recompute epsilon of every level; calibrate again the noise that misses its target."""
        missed = 0
        names = {item.name for item in fields(PrivacyPlan)}
        for level in self.known.values():
            plan = PrivacyPlan(**{name: level[name] for name in names & set(level)})
            epsilon = plan.epsilon(level["accountant"])
            if level["target"] and epsilon > level["target"]:
                missed += 1
                plan = plan.calibrate(level["target"], level["accountant"])
                epsilon = plan.epsilon(level["accountant"])
            level |= {"epsilon": epsilon, "noise_multiplier": plan.noise_multiplier}
        self._write()
        return missed

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(self.known.items()))
        self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _level(cell: Cell, inputs: Inputs) -> dict[str, Any]:
    """Return the accountant's answer about the cell's plan."""
    plan = bare_plan(cell, inputs)
    if cell.epsilon:
        plan = plan.calibrate(cell.epsilon, cell.accountant)
    return {
        "noise_multiplier": plan.noise_multiplier,
        "epsilon": plan.epsilon(cell.accountant),
        "accountant": cell.accountant,
        "target": cell.epsilon,
        "status": plan.status,
        **plan.to_dict(),
    }


def level_key(cell: Cell, plan: PrivacyPlan) -> str:
    """Return the key of a level: the plan, the accountant and the target.

    The hash leaves out the fields about sizes, which version 0.3 did not have, so that committed
    levels keep their keys.
    """
    values = {k: v for k, v in plan.to_dict().items() if not k.startswith("sizes")}
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return f"{digest[:16]}-{cell.accountant}-{cell.epsilon:g}"
