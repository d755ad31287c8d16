"""``python -m tests.fuzz.soak --kills N``: runs that are killed until they end, and what became of them, as JSON.

A run is entered in a budget, trained and published by commands. Its processes are ended by SIGKILL, SIGTERM, SIGINT
or SIGHUP, at a random time of a phase or just before an operation on the disk; they find the disk full; a second
process works in the same folder; the folder is moved, also while a process works in it. Then the commands
are given again, until the run is published. All runs share one key, so all must end with the same
bits; the ledger must count every step once, the budget every run once, and the bundle must verify.

A command that nothing disturbs (no signal before its end, no second process, no full disk, a folder that stays in its
place) must succeed at once; one that was given a signal must succeed or end by it. A refusal of either is a failure.
Only a full disk, a second process and a folder that is moved away at work may be answered with a refusal.

A *kill* is a process that was alive, in the phase that is named, and ended by the signal (by the signal itself or
with the exit code of it) or by the full disk (exit code 2). Signals that came too late are counted apart.
"""

import argparse
import json
import os
import platform
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy
import torch

import reldp
from reldp.reporting import verify
from reldp.runs.budget import Budget
from reldp.runs.ledger import read_ledger
from tests.fuzz.soak_child import NUM_STEPS, PHASES, budget_folder, make_budget, prepare, start

PATIENCE = 60.0  # seconds of the wall clock; a run takes half a second of the CPU
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
KINDS = {
    "time": 8,
    "operation": 8,
    "full disk": 2,
    "second process": 2,
    "move": 1,
    "move at work": 2,
}
# How many an undisturbed run has in each phase.
OPERATIONS = {
    "budget entry": 49, "training": 152, "completion": 23, "certificate": 15, "publishing": 47,
}  # fmt: skip


def _codes(number):
    """With which codes a process ends by a signal."""
    return (-number, CODES.get(number, -number))


class Soak:
    """Runs that are disturbed, and counts of what was done to them."""

    def __init__(self, home, seed):
        self.home, self.random = home, random.Random(seed)
        self.kills, self.late, self.others = Counter(), 0, Counter()
        self.failures, self.durations, self.done = [], {}, []
        prepare(home)
        self._new("whole")
        self._end("whole", *start(home, "whole"), learn=True)
        self.whole = self._outcome("whole")

    def _new(self, name):
        make_budget(self.home, name)

    def run(self, number):
        """Disturb one run a few times, then let it end, and compare it with the undisturbed one."""
        name = self.stem = f"run-{number}-"
        self.done = []
        self._new(name)
        for _ in range(self.random.randint(2, 9)):
            name = self._disturb(name)
            if (self.home / f"{name} bundle").exists():
                break
        self.finish(name)
        for place in (*self.home.glob(f"{self.stem}*"), *self.home.glob(f".{self.stem}*")):
            shutil.rmtree(place) if place.is_dir() else place.unlink()

    def finish(self, name):
        """Let a run end undisturbed, which must succeed at once, and compare it with the undisturbed one."""
        self._end(name, *start(self.home, name))
        try:
            found = self._outcome(name)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        if found != self.whole:
            differs = {k: v for k, v in found.items() if v != self.whole.get(k)}
            self._fail(
                {"run": name, "differs": differs, "done": self.done, "said": self._said(name)}
            )

    def _said(self, name):
        errors = self.home / f"{name} errors"
        return errors.read_text(errors="replace")[-2000:] if errors.exists() else ""

    def _disturb(self, name):
        """Disturb a run once; return its name, which a move changes."""
        kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
        phase = self._phase(name)
        if kind == "move at work" and phase in ("start", "budget entry"):
            phase = "training"
        if kind == "move":
            self.others["moved"] += (self.home / name).exists()
            name = self._moved(name)
            kind = "time"
        number = self.random.choice(SIGNALS)
        self.done.append(f"{kind}, {phase}, {number.name}")
        if kind in ("operation", "full disk") and phase in OPERATIONS:
            place = self.random.randint(1, OPERATIONS[phase])
            full = kind == "full disk"
            last = self.random.choice((0, -1)) if full else number
            self._count(
                self._end(
                    name,
                    *start(self.home, name, disturbance=(phase, place, last)),
                    allowed=(2,) if full else _codes(number),
                ),
                "full disk" if full else number.name,
                phase,
            )
            return name
        process, pipe = start(self.home, name)
        if not self._await(pipe, phase):
            self.late += 1
            self._end(name, process, pipe)
            return name
        length = self.durations.get(phase, 0.1)
        time.sleep(self.random.uniform(0.0, 0.9) * length * (1 if kind == "time" else 0.5))
        if kind == "move at work":
            if (self.home / name / "ledger.jsonl").exists():
                name = self._moved(name)
                self.others["moved at work"] += 1
            # It cannot write what is not there, nor verify it.
            self._end(name, process, pipe, allowed=(2, 3))
            self._collect(name.removesuffix("+"), name)
            return name
        second = None
        if kind == "second process":
            second = start(self.home, name)
            self.others["second process"] += 1
            time.sleep(self.random.uniform(0.0, 0.5) * length)
        alive = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        os.kill(process, number)
        also = () if second is None else (2,)  # the folder is in use
        code = self._end(name, process, pipe, allowed=(*_codes(number), *also))
        self._count(code, number.name if alive else "late", phase)
        if second is not None:
            self._end(name, *second, allowed=also)
        return name

    def _collect(self, old, new):
        """Bring a bundle that was written in the old place after a move; drop a model, which is written again."""
        if new != old and (self.home / f"{old} bundle").exists():
            (self.home / f"{old} bundle").rename(self.home / f"{new} bundle")
        if new != old and [p.name for p in (self.home / old).glob("*")] == ["model"]:
            shutil.rmtree(self.home / old)
            self.others["model left behind by a move"] += 1

    def _phase(self, name):
        """Choose a phase that is still to come."""
        if (self.home / name / "certificate.json").exists():
            return "publishing"
        weights = {
            "start": 1,
            "budget entry": 2,
            "training": 8,
            "completion": 3,
            "certificate": 2,
            "publishing": 3,
        }
        return self.random.choices(list(weights), list(weights.values()))[0]  # fmt: skip

    def _moved(self, name):
        for end in ("", " bundle", " errors"):
            if (self.home / f"{name}{end}").exists():
                (self.home / f"{name}{end}").rename(self.home / f"{name}+{end}")
        return f"{name}+"

    def _await(self, pipe, phase):
        """Wait until a process reports a phase; False if it ended before."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if select.select([pipe], [], [], 1.0)[0]:
                data = os.read(pipe, 1)
                if not data:
                    return False
                if PHASES[data[0]] == phase:
                    return True
        return False

    def _count(self, code, what, phase):
        """Count a disturbance that ended its process; a process may also have been faster."""
        expected = {"full disk": 2, "SIGKILL": -signal.SIGKILL}
        expected |= {number.name: code for number, code in CODES.items()}
        if code == expected.get(what) or (code < 0 and -code == getattr(signal, what, None)):
            self.kills[f"{what}, {phase}"] += 1
        else:
            self.late += 1

    def _end(self, name, process, pipe, learn=False, allowed=()):
        """Wait for a process of a run, for a minute at most; return its exit code, or minus its signal.

        Any code but 0 and those that are allowed is a failure.
        """
        until, marks = time.monotonic() + PATIENCE, []
        with os.fdopen(pipe, "rb", buffering=0) as reader:
            while time.monotonic() < until:
                if select.select([reader], [], [], 1.0)[0]:
                    data = reader.read(1)
                    if not data:
                        break
                    marks.append((PHASES[data[0]], time.monotonic()))
            else:
                self._hang(process)
        now = time.monotonic()
        ends = [*(moment for _, moment in marks[1:]), now]
        if learn:
            self.durations = {p: end - at for (p, at), end in zip(marks, ends, strict=True)}
        _, status = os.waitpid(process, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, *allowed):
            self._fail(
                {"run": name, "exit code": code, "done": self.done, "said": self._said(name)}
            )
        return code

    def _hang(self, process):
        os.kill(process, signal.SIGUSR1)  # the stacks of its threads go to its errors
        time.sleep(1.0)
        used = Path(f"/proc/{process}/stat").read_text().split()[13:15]
        os.kill(process, signal.SIGKILL)
        self._fail({"hang": process, "cpu ticks": used})

    def _fail(self, failure):
        self.failures.append(failure)
        print(json.dumps(failure), file=sys.stderr, flush=True)

    def _outcome(self, name):
        """What a run has become, once it and its bundle are verified."""
        run, bundle = self.home / name, self.home / f"{name} bundle"
        verify(run)
        epsilon = verify(bundle).certificate.epsilon
        record = read_ledger(run / "ledger.jsonl")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        stem = name.rstrip("+")  # moves add to the name
        with Budget.open(budget_folder(self.home, name)) as budget:
            entered = len(budget.charges)
        errors = (self.home / f"{name} errors").read_text(errors="replace")
        return {
            "weights": record.completion["weights_sha256"],
            "files": record.completion["model"]["files"],
            "epsilon": epsilon,
            "counted": record.num_counted,
            "branches": len(record.branches),
            "metrics": [(line["step"], line["weights"]) for line in lines],
            "entered": entered,
            "key": any(self.home.glob(f"{stem}*/key")),
            "traceback": "Traceback" in errors or "Internal error" in errors,
            "left": sorted(
                str(p.relative_to(self.home))
                for p in (*self.home.glob(f".{name} *"), *run.rglob("*"), *bundle.rglob("*"))
                if p.name.endswith(".partial") or p.name.startswith(".model")
            ),
            "strays": sorted(
                p.name
                for p in self.home.glob(f"{stem}*")
                if p.is_dir() and p.name not in (name, f"{name} bundle", f"{stem} budget")
            ),
        }


def soak(home, *, kills, seed, minutes=None):
    """Disturb runs until as many processes were killed as asked for, or the time is over."""
    torch.set_num_threads(1)
    began, number = time.monotonic(), 0
    work = Soak(home, seed)
    while sum(work.kills.values()) < kills:
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
        number += 1
        work.run(number)
        if number % 10 == 0:
            print(
                f"{number} runs, {work.kills.total()} kills, {len(work.failures)} failures",
                file=sys.stderr,
            )
    by_signal, by_phase = Counter(), Counter()
    for name, count in work.kills.items():
        by_signal[name.partition(", ")[0]] += count
        by_phase[name.partition(", ")[2]] += count
    return {
        "what a kill is": "a process that was alive and was ended by a signal or a full disk; others are late",
        "kills": work.kills.total(),
        "kills by cause": dict(sorted(by_signal.items())),
        "kills by phase": {phase: by_phase[phase] for phase in PHASES},
        "came too late": work.late,
        **{f"times {name}": count for name, count in sorted(work.others.items())},
        "runs": number,
        "steps of a run": NUM_STEPS,
        "what is compared": "weights, files of the model, epsilon, counted steps, branches, the weights after each "
        "step, entries in the budget, the key, files left over, tracebacks",
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "cpu seconds": round(sum(os.times()[:4]), 1),
        "failures": work.failures,
    }


def main():
    parser = argparse.ArgumentParser(prog="scripts/soak")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=None, help="stop after this time")
    given = parser.parse_args()
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as place:
        result = soak(Path(place), kills=given.kills, seed=given.seed, minutes=given.minutes)
    shown = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["scripts/soak", *sys.argv[1:]]),
        "versions": {
            "reldp": reldp.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "disk": "memory" if quick else "temporary folder",
    }
    print(json.dumps(shown | result, indent=2))
    return 1 if result["failures"] or result["kills"] < given.kills else 0


if __name__ == "__main__":
    sys.exit(main())
