"""``python -m tests.fuzz --minutes N``: prints the counts as JSON, and exits with 1 if anything failed."""

import argparse
import json
import platform
import sys
from datetime import UTC, datetime

import numpy
import pyarrow
import torch

import reldp
from tests.fuzz.runner import BAD, TARGETS, fuzz

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/fuzz")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--cases", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first case, to repeat a failure"
    )
    parser.add_argument("--target", action="append", help="name of a target (default: all)")
    given = parser.parse_args()
    if given.minutes is None and given.cases is None:
        given.minutes = 1.0
    chosen = {t: w for t, w in TARGETS.items() if not given.target or t.__name__ in given.target}
    result = fuzz(
        cases=given.cases,
        seconds=None if given.minutes is None else 60 * given.minutes,
        seed=given.seed,
        first=given.first,
        targets=chosen,
        report=lambda failure: print(json.dumps(failure), file=sys.stderr, flush=True),
    )
    shown = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["scripts/fuzz", *sys.argv[1:]]),
        "versions": {
            "reldp": reldp.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "pyarrow": pyarrow.__version__,
        },
        "what is a failure": ", ".join(BAD) + ": see tests/fuzz/runner.py",
    }
    print(json.dumps(shown | result, indent=2))
    sys.exit(1 if result["failures"] else 0)
