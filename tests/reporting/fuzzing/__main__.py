"""``python -m tests.reporting.fuzzing --edits 100000 --state FILE``"""

import argparse
import sys

import torch

from tests.reporting.fuzzing.runner import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Edit a run, and check that each edit is refused.")
    parser.add_argument("--edits", type=int, default=100_000, help="How many in all.")
    parser.add_argument("--state", help="File to go on from, and to keep the counts in.")
    parser.add_argument(
        "--seed", type=int, default=0, help="Decides the edits of a new state file."
    )
    parser.add_argument("--home", help="Folder for the runs; one in memory is quicker.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    known = run(given.edits, given.state, seed=given.seed, home=given.home)
    for words, count in sorted(known["counts"].items()):
        print(f"{count:8,}  {words}")
    for failure in known["failures"]:
        print(f"\nedit {failure['number']} ({failure['kind']}): {failure['why']}")
    sys.exit(bool(known["failures"]))
