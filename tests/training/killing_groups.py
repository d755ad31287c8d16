"""Kills processes of trainings in groups at random moments, resumes them, and prints the outcome as one JSON object.

Run as ``python -m tests.training.killing_groups FOLDER KILLS SEED``; 40 kills take some minutes. A group has one to
three processes, and another number after each kill. All runs share one key, so all must end with the same bits.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from reldp.runs import key
from reldp.runs.privacy_cost import privacy_cost
from reldp.training import Trainer
from tests.training.groups import start_group
from tests.training.killing import CAPPED, PLAN, SETTINGS, outcome
from tests.training.small import small_encoder

PATIENCE = 60  # seconds in which the processes that are left must end by themselves


def train(rank, folder):
    """One process of a run, whose batches have several microbatches; a file says that it has joined the group."""
    trainer = Trainer(small_encoder(), CAPPED, PLAN, microbatch_units=6, **SETTINGS)
    joined(folder, os.getpid()).touch()
    trainer.fit(folder)


def joined(folder, child):
    return folder.with_name(f"joined-{child}")


def wait(children):
    """Return by rank whether each process ended well; one that hangs stops the program."""
    until, codes = time.monotonic() + PATIENCE, {}
    while len(codes) < len(children):
        for rank, (child, path) in enumerate(children):
            if rank in codes:
                continue
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                killed = os.WIFSIGNALED(status)
                failed = killed or "error" in (json.loads(path.read_text() or "{}") or {})
                codes[rank] = "killed" if killed else "stopped" if failed else "fine"
                path.unlink()
        if time.monotonic() > until:
            for rank, (child, _) in enumerate(children):
                if rank not in codes:
                    os.kill(child, signal.SIGKILL)
            raise SystemExit(f"processes did not end after a kill: {codes}")
        time.sleep(0.01)
    return [codes[rank] for rank in range(len(children))]


def main(home, kills, seed):
    torch.set_num_threads(1)
    key.new_key = lambda: bytes(range(32))
    generator = random.Random(seed)
    for accountant in ("pld", "rdp"):
        privacy_cost(PLAN, accountant, PLAN.num_steps)
    _ = CAPPED.fingerprint
    began = time.perf_counter()
    assert wait(start_group(2, train, home / "whole")) == ["fine"] * 2
    duration = time.perf_counter() - began
    found = {"whole": outcome(home / "whole"), "duration": duration, "runs": [], "killed": []}
    index = 0
    while len(found["killed"]) < kills:
        folder, planned = home / f"run-{index}", 1 + index % 3
        while True:
            size = generator.choice((2, 3)) if planned else generator.choice((1, 2, 3))
            children = start_group(size, train, folder)
            if planned:
                victim = generator.randrange(size)
                while not all(joined(folder, child).exists() for child, _ in children):
                    time.sleep(0.01)  # before there is a group, torchrun ends the others
                time.sleep(generator.uniform(0.0, 0.9) * duration)
                os.kill(children[victim][0], signal.SIGKILL)
            codes = wait(children)
            if "killed" in codes:
                found["killed"].append([size, victim, codes])
                planned -= 1
                continue
            if set(codes) != {"fine"}:
                raise SystemExit(f"processes failed without a kill: {codes}")
            if not planned:
                break
            folder = home / f"run-{index}-{generator.random()}"  # it was done before the kill
            duration *= 0.7  # the machine has become faster since it was measured
        found["runs"].append(outcome(folder))
        index += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
