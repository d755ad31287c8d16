"""``python -m tests.fuzz.soak --kills N``: runs that are disturbed until they end, and what became of them, as JSON.

A run is entered in a budget, trained, verified and published. It is disturbed at random moments: by SIGKILL, SIGTERM,
SIGINT or SIGHUP, by a disk that is full at one flush, by a second process in the same folder, and by a move of its
folder. Then it is started again, until it has been disturbed often enough and ends. All runs share one key, so all
must end with the same bits; the ledger must count every step once, the budget every run once, and the bundle must
verify.

Imports happen once; every run is a forked child of this process, so a signal hits nothing else.
"""

import argparse
import errno
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import torch

from reldp.errors import ReldpError
from reldp.reporting import verify
from reldp.reporting.bundle import publish
from reldp.runs import key
from reldp.runs.budget import Budget
from reldp.runs.ledger import read_ledger
from reldp.runs.privacy_cost import privacy_cost
from reldp.training import Trainer
from tests.training.killing import CAPPED, PLAN, SETTINGS
from tests.training.small import small_encoder

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
DISTURBED = 3  # exit code of a child that an error of reldp's own or a signal stopped


def child(home, name, *, full_at=None):
    """Start a process that does everything that is left to do for a run."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        if full_at is not None:
            fill_disk(full_at)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: os._exit(DISTURBED))
        budget = home / "budget"
        Trainer(small_encoder(), CAPPED, PLAN, budget=budget, **SETTINGS).fit(home / name)
        if not (home / f"{name} bundle").exists():
            publish(home / name, home / f"{name} bundle")
        code = 0
    except (ReldpError, KeyboardInterrupt) as error:
        code = DISTURBED
        if isinstance(error, ReldpError) and ("\n" in str(error) or not str(error)):
            code = 1
    finally:
        os._exit(code)


def fill_disk(number):
    """Let the disk be full at the n-th flush of this process."""
    fsync, seen = os.fsync, [0]

    def counted(descriptor):
        seen[0] += 1
        if seen[0] == number:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    os.fsync = counted


def ended(process):
    """Whether a child ended well; anything but a disturbance is a failure."""
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) not in SIGNALS:
            raise SystemExit(f"a process ended by signal {os.WTERMSIG(status)}")
        return False
    if os.WEXITSTATUS(status) not in (0, DISTURBED):
        raise SystemExit("a process failed by itself")
    return os.WEXITSTATUS(status) == 0


def disturb(home, name, generator, duration, counts):
    """Start a run, disturb it, and return whether it ended well all the same, and its name."""
    kind = generator.choice(("signal", "signal", "signal", "full disk", "second process", "move"))
    if kind == "move" and (home / name).exists():
        moved = f"{name}+"
        (home / name).rename(home / moved)
        if (home / f"{name} bundle").exists():
            (home / f"{name} bundle").rename(home / f"{moved} bundle")
        name = moved
        counts["moved"] += 1
    full_at = generator.randint(1, 60) if kind == "full disk" else None
    process = child(home, name, full_at=full_at)
    second = None
    if kind == "second process":
        time.sleep(generator.uniform(0.0, 0.5) * duration)
        second = child(home, name)
        counts["second process"] += 1
    if kind != "full disk":
        number = generator.choice(SIGNALS)
        time.sleep(generator.uniform(0.01, 0.95) * duration)
        os.kill(process, number)
        counts[number.name] += 1
    else:
        counts["full disk"] += 1
    done = ended(process)
    if second is not None:
        done = ended(second) or done
    return done, name


def outcome(home, name):
    """What a run has become, once it and its bundle are verified."""
    verify(home / name)
    verify(home / f"{name} bundle")
    record = read_ledger(home / name / "ledger.jsonl")
    left = [
        p.name
        for p in home.rglob("*")
        if p.name.endswith(".partial") or p.name.startswith(".model")
    ]
    return {
        "weights": record.completion["weights_sha256"],
        "counted": record.num_counted,
        "branches": len(record.branches),
        "key": (home / name / "key").exists(),
        "left": sorted(left),
    }


def soak(home, *, kills, seed):
    """Disturb runs until there were as many disturbances as asked for."""
    torch.set_num_threads(1)
    key.new_key = lambda: bytes(range(32))
    for accountant in ("pld", "rdp"):  # computed here once; children inherit the cache
        privacy_cost(PLAN, accountant, PLAN.num_steps)
    _ = CAPPED.fingerprint
    generator, counts = random.Random(seed), Counter()
    (home / "budget").mkdir()
    Budget.create(home / "budget").close()
    began = time.monotonic()
    assert ended(child(home, "whole"))
    duration = time.monotonic() - began
    whole, failures, number = outcome(home, "whole"), [], 0
    while sum(counts.values()) - counts["moved"] < kills:
        number, name = number + 1, f"run {number}"
        goal, done = generator.randint(1, 8), False
        for _ in range(goal):
            done, name = disturb(home, name, generator, duration, counts)
        for _ in range(20):
            if done := ended(child(home, name)):
                break
        result = outcome(home, name) if done else {"ended": False}
        if result != whole:
            failures.append({"run": number, **result})
    with Budget.open(home / "budget") as budget:
        entered = len(budget.charges)
    return {
        "disturbances": sum(counts.values()),
        "kinds": dict(sorted(counts.items())),
        "runs": number,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "steps_of_a_run": whole["counted"],
        "runs_in_budget": entered - 1,
        "failures": failures,
    }


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as place:
        result = soak(Path(place), kills=given.kills, seed=given.seed)
    shown = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["scripts/soak", *sys.argv[1:]]),
    }
    print(json.dumps(shown | result, indent=2))
    bad = result["failures"] or result["runs_in_budget"] != result["runs"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
