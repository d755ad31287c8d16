"""``python -m tests.fuzz --minutes N``: prints the counts as JSON, and exits with 1 if anything failed."""

import argparse
import json
import sys
from datetime import UTC, datetime

from tests.fuzz.runner import fuzz

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/fuzz")
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--cases", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first case, to repeat a failure"
    )
    given = parser.parse_args()
    if given.minutes is None and given.cases is None:
        given.minutes = 1.0
    result = fuzz(
        cases=given.cases,
        seconds=None if given.minutes is None else 60 * given.minutes,
        seed=given.seed,
        first=given.first,
    )
    result = {"command": " ".join(["scripts/fuzz", *sys.argv[1:]]), **result}
    print(json.dumps({"date": datetime.now(UTC).date().isoformat(), **result}, indent=2))
    sys.exit(1 if result["failures"] else 0)
