"""How long scripts/demo takes in fresh clones: installation, and every phase of the demo.

Each run clones the repository into a new folder and calls scripts/demo there, which makes an environment of its own;
pip may have downloaded the packages before. Run this on a quiet machine; the load average before each run is recorded:

    python -m benchmarks.demo --runs 3 -o benchmarks/results/demo.json
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 120.0


def measure(repository: Path, arguments: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run the demo of a fresh clone, and return its times and results."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        clone = Path(place) / "reldp"
        subprocess.run(["git", "clone", "--quiet", str(repository), str(clone)], check=True)
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=clone, check=True, capture_output=True, text=True
        ).stdout.strip()
        variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        began = time.perf_counter()
        done = subprocess.run(
            [clone / "scripts" / "demo", "--json", *arguments],
            cwd=place,
            env={**variables, "RELDP_STATE_DIR": str(Path(place) / "state")},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = time.perf_counter() - began
    result = json.loads(done.stdout.splitlines()[-1])
    chosen = ("phases", "seconds", "epsilon", "delta", "base", "private", "gain", "test_relations")
    return {
        "commit": commit,
        "load_before": round(load, 2),
        "installation_seconds": round(seconds - result["seconds"], 1),
        **{name: result[name] for name in chosen},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    runs = []
    for number in range(given.runs):
        runs.append(measure(ROOT))
        print(f"run {number + 1}: {json.dumps(runs[-1])}", flush=True)
    result = {
        "runs": runs,
        "limit_seconds": LIMIT_SECONDS,
        "all_within_limit": all(run["seconds"] <= LIMIT_SECONDS for run in runs),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if given.output is not None:
        given.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"within {LIMIT_SECONDS:.0f} s: {result['all_within_limit']}")


if __name__ == "__main__":
    main()
