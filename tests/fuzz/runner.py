"""Runs cases in a process that is watched from another one, and counts how they ended.

| end | meaning |
|---|---|
| accepted | a result |
| refused | a `ReldpError` of one line, or a complaint of the command line |
| traceback | anything else |
| hang | more than 10 seconds of CPU time, 20 seconds in which it does nothing, or two minutes |
| crash | the process itself ended |
| memory | the case made the process larger by more than a gigabyte |

The CPU time is that of the case: on a machine with other work the clock on the wall says little.
"""

import contextlib
import faulthandler
import io
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

from reldp.errors import ReldpError
from tests.fuzz import authored, calls, commands, targets, templates
from tests.fuzz.damage import Undamaged

PATIENCE = 10.0  # seconds of CPU time
STUCK = 20.0  # seconds of the wall clock in which it does nothing
LARGEST = 2**20  # KiB
CASES_PER_PROCESS = 2000
BAD = ("traceback", "hang", "crash", "memory")

TARGETS = {
    targets.graph: 30, targets.columns: 6, targets.store: 6, targets.lists: 15, targets.plan: 20, targets.recipe: 12,
    targets.budget: 8, targets.run_files: 12, commands.inspected: 12, commands.run_folder: 8, commands.half_run: 1.5,
    commands.plan_file: 0.5, commands.options: 6, commands.account: 2, commands.settings: 1, commands.audit: 0.2,
    commands.prepared: 12, commands.one_option: 6,
    authored.model_folder: 4, authored.gguf_file: 1, authored.authored_run: 8,
    authored.authored_store: 6,
}  # fmt: skip
"""What is fuzzed, and how often compared with the others."""

_kept: list = []  # folders of templates, until this process ends


def run_case(target, random, home):
    """How a case ended, and why."""
    try:
        with (
            contextlib.chdir(home.parent),  # where commands write what a random option names
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            target(random, home)
        return "accepted", ""
    except calls.Refused:
        return "refused", ""
    except ReldpError as error:
        words = str(error)
        good = words and "\n" not in words
        why = "" if good else f"a message that is not one line: {words!r}"
        return ("refused" if good else "traceback"), why
    except Exception:
        return "traceback", traceback.format_exc(limit=-6)


def _choose(seed, number, chosen, undamaged=False):
    random = Random(f"{seed} {number}")
    if undamaged:
        return Undamaged(f"{seed} {number}"), list(chosen)[number % len(chosen)]
    return random, random.choices(list(chosen), list(chosen.values()))[0]


def _work(writer, numbers, choose, place):
    """Run cases, and write a line when each begins and when it ends."""
    for number in numbers:
        random, target = choose(number)
        home, state = place / f"case {number}", place / f"state {number}"
        os.write(writer, f"{number}\n".encode())
        home.mkdir()
        shutil.copytree(templates.PLACE / "state", state)  # what one case notes, no other knows
        os.environ["RELDP_STATE_DIR"] = str(state)
        os.chdir(home)  # commands are given names of files that are relative
        size, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        end, why = run_case(target, random, home)
        used = time.process_time() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size
        if used > PATIENCE:
            end, why = "hang", f"it ended after {used:.1f} seconds of CPU time; {why}"
        elif grown > LARGEST:
            end, why = "memory", f"{grown >> 10} MiB; {why}"
        os.chdir(place)
        for folder in (home, state):
            shutil.rmtree(folder, ignore_errors=True)
        os.write(writer, (json.dumps([number, end, why[-3000:], used]) + "\n").encode())


class _Worker:
    """A process that runs cases, seen from outside."""

    def __init__(self, numbers, choose, place):
        reader, writer = os.pipe()
        self._stacks = place / "stacks"
        self._stacks.write_text("")
        self.process = os.fork()
        if not self.process:
            try:
                os.close(reader)
                os.dup2(2, 1)  # libraries in Rust print past Python; the output is the JSON alone
                faulthandler.register(signal.SIGUSR1, file=self._stacks.open("w"))
                _work(writer, numbers, choose, place)
            finally:
                os._exit(0)
        os.close(writer)
        self.lines, self.number = os.fdopen(reader, "rb", buffering=0), None
        self._rest, self._began, self._cpu = b"", time.monotonic(), 0.0

    def results(self):
        """Yield [number, end, why, CPU seconds] of each case, until the process ends or is ended."""
        while True:
            if select.select([self.lines], [], [], 0.2)[0]:
                data = self.lines.read(65536)
                if not data:
                    _, status = os.waitpid(self.process, 0)
                    if self.number is not None:
                        yield [self.number, "crash", f"status {status}", 0.0]
                    return
                *whole, self._rest = (self._rest + data).split(b"\n")
                for line in whole:
                    yield from self._read(line)
            elif self.number is not None:
                used, waited = self._cpu_time() - self._cpu, time.monotonic() - self._began
                idle = self._idle(used)
                if used > 1.5 * PATIENCE or idle > STUCK or waited > 6 * STUCK:
                    where = self._stack()
                    os.kill(self.process, signal.SIGKILL)
                    os.waitpid(self.process, 0)
                    why = f"{used:.1f} s of CPU time, {waited:.1f} s; {where}"
                    yield [self.number, "hang", why, used]
                    return

    def _idle(self, used):
        """For how long the process has not used the CPU."""
        if used > self._used[0]:
            self._used = used, time.monotonic()
        return time.monotonic() - self._used[1]

    def _stack(self):
        os.kill(self.process, signal.SIGUSR1)
        time.sleep(0.5)
        return self._stacks.read_text()[-3000:]

    def _read(self, line):
        if line.startswith(b"["):
            self.number = None
            yield json.loads(line)
        else:
            self.number, self._began, self._cpu = int(line), time.monotonic(), self._cpu_time()
            self._used = 0.0, self._began

    def _cpu_time(self):
        try:
            fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fuzz(*, cases=None, seconds=None, seed=0, targets=None, first=0, report=None, undamaged=False):
    """Run a number of cases, or for some time; all targets by turns on what nothing was damaged in, if asked for.

    Returns:
        Counts of ends by target, and the failures with the number that repeats each of them.
    """
    chosen = TARGETS if targets is None else targets
    choose = partial(_choose, seed, chosen=chosen, undamaged=undamaged)
    counts, failures, began, number = Counter(), [], time.monotonic(), first
    slowest = [0.0, None, ""]
    last = None if cases is None else first + cases
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    if not templates.PLACE.is_dir():
        made = tempfile.TemporaryDirectory(dir=quick)
        _kept.append(made)
        templates.make(Path(made.name))
    with tempfile.TemporaryDirectory(dir=quick) as place:
        while (last is None or number < last) and (
            seconds is None or time.monotonic() - began < seconds
        ):
            stop = (
                number + CASES_PER_PROCESS
                if last is None
                else min(last, number + CASES_PER_PROCESS)
            )
            worker = _Worker(range(number, stop), choose, Path(place))
            for case, end, why, used in worker.results():
                name = choose(case)[1].__name__
                counts[f"{name}: {end}"] += 1
                slowest = max(slowest, [round(used, 2), case, name], key=lambda item: item[0])
                number = case + 1
                if end in BAD:
                    failure = {"number": case, "target": name, "end": end, "why": why}
                    failures.append(failure)
                    if report is not None:
                        report(failure)
                if seconds is not None and time.monotonic() - began >= seconds:
                    break
            worker.lines.close()
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(worker.process, signal.SIGKILL)
                os.waitpid(worker.process, 0)
    ends = Counter(name.rpartition(": ")[2] for name in counts.elements())
    return {
        "cases": number - first,
        "ends": dict(sorted(ends.items())),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "slowest case": {"cpu seconds": slowest[0], "number": slowest[1], "target": slowest[2]},
        "counts": dict(sorted(counts.items())),
        "failures": failures,
    }
