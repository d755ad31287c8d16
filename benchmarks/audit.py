"""How strong the audits are: throughput, tightness, wrong accountants, the gallery of mistakes, the neighbor search.

Everything runs the real parts; seeds are fixed, so numbers other than times repeat exactly. One run:

    python benchmarks/audit.py -o benchmarks/results/audit.json --page docs/audit.md --search-seconds 600
"""

import argparse
import json
import platform
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.auditing.mistakes import clipping, noise, sampling

from reldp import PrivacyPlan
from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.auditing import audit_mechanism, search_neighbors, worst_pair
from reldp.auditing.designs import OPPOSING_ELSEWHERE, ZERO_ELSEWHERE
from reldp.auditing.mechanism import real_parts, run_steps
from reldp.clipping import get_rule

SMALL = {
    "num_entities": 12, "num_relations": 4, "max_degree": 1, "num_negatives": 2, "num_steps": 1,
    "delta": 0.05,
}  # fmt: skip
SEEDS = (0, 1, 2)
BEGIN, END = "<!-- begin measured -->", "<!-- end measured -->"
# What the page says for names in the results.
WRONG_ACCOUNTANTS = {
    "no reweighting": "without the reweighting of theory.md 3.2",
    "shift 0.7 for negatives": "with sensitivity 0.7 instead of 1 for the entity as a negative",
}
SCORES = {
    "likelihood": "likelihood ratio",
    "smallest": "smallest output",
    "range": "range of outputs",
    "peak": "largest output",
}


def throughput(count: int) -> dict[str, float]:
    """Return steps of a small graph per minute of one core's time."""
    plan = PrivacyPlan(**SMALL, sample_rate=0.4, noise_multiplier=1.0)
    pair = worst_pair(plan)
    graph = pair.with_entity
    parts = real_parts(plan, graph, bytes(32))
    run_steps(parts, pair, graph, ZERO_ELSEWHERE, first=0, count=500)
    clocks = time.perf_counter(), time.process_time()
    run_steps(parts, pair, graph, ZERO_ELSEWHERE, first=500, count=count)
    wall, cpu = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
    return {
        "trials": count,
        "trials_per_minute_wall": round(60 * count / wall),
        "trials_per_minute_of_one_core": round(60 * count / cpu),
    }


def exact_epsilon(pair: Any, delta: float) -> float:
    """Epsilon of one step from the exact profile of a dominating pair."""
    return float(
        brentq(
            lambda e: max(float(v[0]) for v in hockey_stick(pair, np.array([e]))) - delta, 1e-9, 60
        )
    )


def wrong_claims(plan: PrivacyPlan) -> dict[str, float]:
    """Return what two wrong anchored accountants would claim."""
    right = dominating_pair(plan.event, "anchored", -80.0)
    total = np.log(np.exp(right.log_weights).sum(axis=1, keepdims=True))
    even = replace(right, log_weights=right.log_weights - total)
    short = dominating_pair(replace(plan.event, negative_removal=0.7), "anchored", -80.0)
    return {
        "no reweighting": exact_epsilon(even, plan.delta),
        "shift 0.7 for negatives": exact_epsilon(short, plan.delta),
    }


def tightness(trials: int) -> list[dict[str, Any]]:
    """Audited against claimed epsilon on the worst graphs, three seeds each."""
    settings = [
        ("replacement", 1.0, 2.0, OPPOSING_ELSEWHERE),
        ("anchored", 0.4, 2.0, OPPOSING_ELSEWHERE),
        ("anchored", 0.4, 1.0, ZERO_ELSEWHERE),
    ]
    rows = []
    for analysis, rate, sigma, design in settings:
        plan = PrivacyPlan(**SMALL, sample_rate=rate, noise_multiplier=sigma, analysis=analysis)
        audits = [
            audit_mechanism(
                plan, trials=trials, deltas=[0.05], key=bytes([seed] * 32), designs=[design]
            )
            for seed in SEEDS
        ]
        rows.append(
            {
                "analysis": analysis,
                "sample_rate": rate,
                "noise_multiplier": sigma,
                "delta": 0.05,
                "trials": trials,
                "claimed": audits[0].tightest.claimed,
                "audited": [audit.tightest.epsilon for audit in audits],
                "share": [audit.tightest.share for audit in audits],
                "wrong_claims": wrong_claims(plan) if analysis == "anchored" else {},
            }
        )
    return rows


def gallery() -> list[dict[str, Any]]:
    """Claim and bounds for every mistake, and for the right rules on the same graphs."""
    rows = []
    cases = sorted(clipping.CASES + sampling.CASES + noise.CASES, key=lambda c: c.letter)
    for case in cases:
        wrong = [case.audit_wrong(seed).tightest for seed in SEEDS]
        right = {
            rule: [case.audit_right(seed, rule).tightest.share for seed in SEEDS]
            for rule in ("tuple", "pair")
        }
        rows.append(
            {
                "letter": case.letter,
                "mistake": case.title,
                "claimed": wrong[0].claimed,
                "audited": [bound.epsilon for bound in wrong],
                "refuted": all(bound.refuted for bound in wrong),
                "method": f"{wrong[0].method}, {wrong[0].score}, {wrong[0].direction}",
                "trials": case.trials,
                "right_rules_share_of_claim": right,
                "right_rules_accepted": max(max(shares) for shares in right.values()) <= 1,
            }
        )
    return rows


def search(seconds: float) -> list[dict[str, Any]]:
    """Return the worst batch found for each rule; the frequency rule gets at most a minute."""
    rows = []
    for name, families in (
        ("frequency", True),
        ("frequency", False),
        ("tuple", True),
        ("pair", True),
    ):
        limit = min(seconds, 60.0) if name == "frequency" else seconds
        finding = search_neighbors(
            get_rule(name), max_degree=5, num_negatives=4, seconds=limit, evaluations=10**9,
            use_families=families,
        )  # fmt: skip
        rows.append(
            {
                "rule": name,
                "families": families,
                "seconds": round(finding.seconds, 1),
                "batches": finding.evaluations,
                "moved": finding.moved,
                "claimed": finding.claimed,
                "ratio": finding.ratio,
                "origin": finding.origin,
            }
        )
    return rows


def _method(words: str) -> str:
    """Return method, score and direction of a bound in the words of the page."""
    return ", ".join(SCORES.get(word, word) for word in words.split(", "))


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def markdown(result: dict[str, Any]) -> str:
    """Return the tables of docs/audit.md."""
    speed = result["throughput"]
    commands = dict.fromkeys(f"`{m['command']}`" for m in result["measured"].values())
    lines = [
        f"From {' and '.join(commands)}. Seeds 0, 1, 2; confidence 99 %.",
        "",
        f"A small graph's step is audited {speed['trials_per_minute_of_one_core']:,} times per minute of one core.",
        "",
        "**Tightness**, one step, delta 0.05, on the worst graph:",
        "",
        "| analysis | sample rate | noise | claimed | audited | share | epsilon of wrong accountants, all refuted |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["tightness"]:
        low = min(row["audited"])
        claims = row["wrong_claims"].items()
        wrong = [f"{v:.3f} {WRONG_ACCOUNTANTS[n]}" for n, v in claims if v < low]
        lines.append(
            f"| {row['analysis']} | {row['sample_rate']:g} | {row['noise_multiplier']:g} | "
            f"{row['claimed']:.3f} | {_numbers(row['audited'])} | "
            f"{min(row['share']):.0%} to {max(row['share']):.0%} | {'; '.join(wrong)} |"
        )
    lines += [
        "",
        "**Mistakes put into the parts** (`tests/auditing/mistakes`), delta 0.05, three seeds. *Refuted by*: method,",
        "score and direction of the bound. The last columns are the largest share of its claim that correct code",
        "reached in the same audit:",
        "",
        "| | mistake | claimed | audited, at least | refuted by | tuple | pair |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["gallery"]:
        right = row["right_rules_share_of_claim"]
        lines.append(
            f"| {row['letter']} | {row['mistake']} | {row['claimed']:.2f} | {_numbers(row['audited'])} | "
            f"{_method(row['method'])} | {max(right['tuple']):.0%} | {max(right['pair']):.0%} |"
        )
    lines += [
        "| o | accountant that drops the tail of the batch size | | | exact lower bound, without trials | | |",
        "",
        "**The search for bad neighbors**, K = 5, k = 4; *moved* and *claimed* for the batch that was found, "
        "in clip norms. For `tuple` the claim is i + 2j, for `pair` i + 2j/k (i relations of the entity in the "
        "batch, j = 1 if it is a negative elsewhere), for `frequency` 1 for every batch:",
        "",
        "| rule | started from | seconds | batches | moved | claimed |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["search"]:
        start = "structured batches" if row["families"] else "one relation of the entity"
        lines.append(
            f"| {row['rule']} | {start} | {row['seconds']:g} | {row['batches']:,} | "
            f"{row['moved']:.2f} | {row['claimed']:g} |"
        )
    return "\n".join(lines)


def write_page(result: dict[str, Any], page: Path) -> None:
    """Put the tables between the page's marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{markdown(result)}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--search-seconds", type=float, default=20.0)
    parser.add_argument(
        "--only", nargs="+", choices=["throughput", "tightness", "gallery", "search"],
        help="Measure these again and keep the rest of the output file.",
    )  # fmt: skip
    parser.add_argument("--page", type=Path, help="Write the tables into this page.")
    arguments = parser.parse_args()
    parts = {
        "throughput": lambda: throughput(arguments.trials),
        "tightness": lambda: tightness(arguments.trials),
        "gallery": gallery,
        "search": lambda: search(arguments.search_seconds),
    }
    old = arguments.output
    result: dict[str, Any] = (
        json.loads(old.read_text()) if arguments.only and old and old.exists() else {}
    )
    result |= {"python": platform.python_version(), "numpy": np.__version__}
    result["machine"] = platform.machine()
    for name in arguments.only or parts:
        result[name] = parts[name]()
        result.setdefault("measured", {})[name] = {
            "command": "python benchmarks/audit.py " + " ".join(sys.argv[1:]),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
    text = json.dumps(result, indent=2)
    if arguments.output:
        arguments.output.write_text(text + "\n")
    if arguments.page:
        write_page(result, arguments.page)
    print(text)


if __name__ == "__main__":
    main()
