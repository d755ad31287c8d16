"""The sentences of a certificate about the end of a run: why it ended, and how its weights were chosen.

All other sentences are in `reldp.runs.wording`.

Private to the package: `GIVEN_SIZES`, `choice`, `early_end`, `interruptions`, `is_given_sizes`, `is_part`,
`part_condition`, `search`, `sensitive_stops`.

>>> choice({}, {})
[]
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reldp.runs.made_by import is_since

if TYPE_CHECKING:
    from reldp.plan import PrivacyPlan

__all__ = [
    "GIVEN_SIZES",
    "choice",
    "early_end",
    "interruptions",
    "is_given_sizes",
    "is_part",
    "part_condition",
    "search",
    "sensitive_stops",
]

_Values = Mapping[str, Any]

GIVEN_SIZES = "the released bounds on sizes (theory.md 2.4)"
_GIVEN = (
    " Private sizes: epsilon of a part of the steps follows from the released bounds, so it holds given them, also if "
    'the target epsilon was fixed before they were released (theory.md 2.4, "Noise fixed first").'
)


def is_part(plan: "PrivacyPlan", completion: _Values) -> bool:
    """Return whether epsilon of a run is that of a part of its planned steps."""
    return _is_part(completion, completion.get("num_counted"), plan.num_steps)


def _is_part(end: _Values, num_counted: Any, num_planned: int) -> bool:
    by_result = end.get("stop_decided_by") == "result"
    return "stopped_at" in end and not by_result and num_counted != num_planned


def is_given_sizes(plan: "PrivacyPlan", start: _Values, completion: _Values) -> bool:
    """Return whether epsilon of a run holds only given the released bounds on sizes (theory.md 2.4).

    Certificates of versions before 0.9 say it among their assumptions, and not beside epsilon.
    """
    if plan.sizes != "private" or plan.noise_multiplier == 0:
        return False
    return is_since(start["versions"], 0, 9) and ("search" in start or is_part(plan, completion))


def part_condition(certificate: _Values) -> str:
    """Return what epsilon of a part of the steps is conditional on, as the end of a line; empty for nothing."""
    steps = certificate["steps"]
    is_part_of = _is_part(steps, steps["counted"], steps["planned"])
    if certificate["plan"]["sizes"] != "private" or not is_part_of:
        return ""
    return "; epsilon holds given the released bounds on sizes (theory.md 2.4)"


def early_end(plan: "PrivacyPlan", num_counted: int, completion: _Values) -> list[str]:
    """Return the assumption about the decision to end a run early (theory.md 6); none if it was not."""
    if "stopped_at" not in completion or plan.noise_multiplier == 0:
        return []
    ended = f"Training was ended after {num_counted:,} of {plan.num_steps:,} planned steps."
    if num_counted == plan.num_steps:
        ended = (
            f"Training was ended after step {completion['stopped_at']:,}, when all {plan.num_steps:,} planned steps "
            "were counted already."
        )
    given = _GIVEN if plan.sizes == "private" and is_part(plan, completion) else ""
    if completion.get("stop_decided_by") == "result":
        return [
            f"{ended} The decision was made by looking at noisy weights or at what follows from them and "
            "public data, so epsilon is that of all planned steps. Sensitive values, such as losses and "
            "evaluations on private relations, were not looked at (theory.md 6)."
        ]
    if completion.get("stop_decided_by") == "time":
        return [
            f"{ended} Epsilon covers the steps that were counted. Time decided when to end, and the time that steps "
            "take depends on the private data: it is assumed that the number of steps shows nothing about them. Nobody "
            f"decided by looking at noisy weights or sensitive values (theory.md 6).{given}"
        ]
    return [
        f"{ended} Epsilon covers the steps that were counted. Their number was fixed without looking at anything that "
        "depends on the private data: neither noisy weights, nor sensitive values, nor the time that steps took "
        f"(theory.md 6).{given}"
    ]


def choice(start: _Values, completion: _Values) -> list[str]:
    """Return the assumption about weights that were chosen by a public graph (theory.md 6)."""
    if "chosen" not in completion:
        return []
    by = start["selection"]
    shared = " It shares ids with the private graph, and was declared public." * by["shares_ids"]
    return [
        f"The released weights are those after step {completion['chosen']['step']:,}, the best of the weights after "
        f"every {by['every']:,} steps and the last step by {by['metric']} on a public graph (SHA-256 "
        f"{by['graph_sha256'][:16]}...). Epsilon covers all counted steps, and so every choice among their results. "
        f"The public graph does not depend on the private one.{shared}"
    ]


def interruptions(plan: "PrivacyPlan", start: _Values, num_abandoned: int) -> list[str]:
    """Return what is assumed of resumptions in new branches, which leave out steps that are counted."""
    if not num_abandoned or plan.noise_multiplier == 0 or not is_since(start["versions"], 0, 10):
        return []
    steps = "step is" if num_abandoned == 1 else "steps are"
    return [
        f"Training was interrupted and resumed: {num_abandoned:,} counted {steps} not in the weights. When it was "
        "interrupted did not depend on sensitive values (theory.md 6)."
    ]


def sensitive_stops(plan: "PrivacyPlan", start: _Values, steps: Sequence[int]) -> list[str]:
    """Return what a ledger shows of sensitive values: where callbacks that see them stopped a run that went on."""
    if not steps or plan.noise_multiplier == 0 or not is_since(start["versions"], 0, 10):
        return []
    named = ", ".join(f"{step:,}" for step in steps[:5]) + (", and more" if len(steps) > 5 else "")
    return [
        "Stops by sensitive values: a callback that sees them stopped training, which was resumed, after steps "
        f"that the ledger names ({named}). No epsilon covers what these steps reveal."
    ]


def search(plan: "PrivacyPlan", start: _Values) -> list[str]:
    """Return the assumption about the search that released a run as its best one (theory.md 3.5)."""
    if "search" not in start or plan.noise_multiplier == 0:
        return []
    by = start["search"]
    given = (
        " Epsilon of the search holds given the released bounds on sizes (theory.md 2.4)."
        if plan.sizes == "private"
        else ""
    )
    if "runs" in by:
        return [
            f"This run is the best of {by['runs']:,} runs of the same plan by a score on public data. Epsilon is that "
            f"of all of these runs together (theory.md 3.5).{given}"
        ]
    return [
        f"This run is the best, by a score on public data, of a number of runs that was drawn from the "
        f"{by['distribution']} distribution with mean {by['mean']:g} and is secret, each with settings drawn from "
        f"{by['candidates']:,} that were fixed before. Epsilon is that of the search. Nothing else about its runs is "
        f"released, neither their number nor any other result (theory.md 3.5).{given}"
    ]
