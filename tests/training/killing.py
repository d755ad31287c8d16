"""Kills tiny trainings, resumes them, and prints what became of them as one JSON object.

Run as ``python -m tests.training.killing FOLDER RUNS SEED``. Imports, and the checks before the first
step, happen once; every training is a forked child of this process, so a kill hits nothing but the
training. The run that is left alone makes its own trainer. All runs share one key, so all must end
with the same bits.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from reldp.reporting.verification import verify
from reldp.runs import key
from reldp.runs.ledger import read_ledger
from reldp.runs.privacy_cost import privacy_cost
from reldp.training import Trainer
from reldp.training.repeatability import repeatable
from tests.training.small import small_encoder, small_graph, small_plan

SETTINGS = {"checkpoint_every": 3, "average": 0.9, "threads": 1}
CAPPED = small_graph().promise_degrees(4)
PLAN = small_plan(CAPPED, num_steps=40, noise_multiplier=3.0)


def prepared():
    """A trainer whose step is ready, so that kills come while something is computed or written."""
    trainer = Trainer(small_encoder(), CAPPED, PLAN, **SETTINGS)
    with repeatable("cpu", SETTINGS["threads"]):
        trainer._prepared().prepare()
    return trainer


def fork(folder, trainer=None, *, die_at=None):
    """A child that trains in the folder; with die_at, it kills itself at that flush to the disk."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        if die_at is not None:
            die_at_flush(die_at)
        (trainer or Trainer(small_encoder(), CAPPED, PLAN, **SETTINGS)).fit(folder)
        code = 0
    finally:
        os._exit(code)


def die_at_flush(number):
    """The process kills itself just before its n-th flush: every state the disk can be left in."""
    fsync, seen = os.fsync, [0]

    def counted(descriptor):
        seen[0] += 1
        if seen[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    os.fsync = counted


def ended(child):
    """Whether the child came to its own good end (True) or was killed (False)."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    if os.WEXITSTATUS(status) != 0:
        raise SystemExit("a training failed by itself")
    return True


def outcome(folder):
    """Hashes of the weights and what the ledger counts, once the run is verified."""
    verify(folder)
    record = read_ledger(folder / "ledger.jsonl")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    return {
        "files": record.completion["model"]["files"],
        "weights": record.completion["weights_sha256"],
        "counted": record.num_counted,
        "branches": len(record.branches),
        "metrics": steps == list(range(PLAN.num_steps)),
        "key": (folder / "key").exists(),
        "left": sorted(p.name for p in folder.rglob("*") if p.name.startswith(".model")),
    }


def main(home, runs, seed):
    torch.set_num_threads(1)
    key.new_key = lambda: bytes(range(32))
    generator = random.Random(seed)
    # Computed here once; children inherit the cache.
    for accountant in ("pld", "rdp"):
        privacy_cost(PLAN, accountant, PLAN.num_steps)
    _ = CAPPED.fingerprint
    assert ended(fork(home / "whole"))
    trainer = prepared()
    began = time.perf_counter()
    assert ended(fork(home / "prepared", trainer))
    duration = time.perf_counter() - began
    found = {"whole": outcome(home / "whole"), "duration": duration, "random": [], "flushes": []}
    for index in range(runs):
        folder, kills, attempt = home / f"random-{index}", 0, 0
        while True:
            child = fork(folder, trainer)
            if kills < 1 + index % 3:
                time.sleep(generator.uniform(0.02, 0.9) * duration)
                os.kill(child, signal.SIGKILL)
            if not ended(child):
                kills += 1
            elif kills:
                break
            else:  # it was done before the kill came
                attempt += 1
                folder = home / f"random-{index}-{attempt}"
        found["random"].append({"kills": kills, **outcome(folder)})
    number = 1
    while True:
        folder = home / f"flush-{number}"
        if ended(fork(folder, trainer, die_at=number)):
            break
        assert ended(fork(folder, trainer))
        found["flushes"].append(outcome(folder))
        # The steps in the middle are all alike: enough of them, then the end.
        number += 1 if number < 20 else generator.randint(1, 9)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
