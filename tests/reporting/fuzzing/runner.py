"""Makes the runs, edits them, and keeps count."""

import json
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from reldp.errors import ReldpError
from reldp.reporting import verify
from reldp.reporting.publishing import record_audit, write_report
from reldp.runs.run_folder import RunFolder
from tests.reporting.fuzzing.edits import KINDS
from tests.reporting.fuzzing.workspace import Workspace, content
from tests.training.small import small_parts

_PATIENCE = 10.0


class Hangs(BaseException):
    """Verification did not end in time."""


def make_run(folder, *, public):
    """A complete run with an audit and a report."""
    from reldp.training import Trainer

    Trainer(*small_parts(), checkpoint_every=5, log_sensitive=True).fit(folder)
    record_audit(RunFolder(folder), [{"kind": "mechanism", "refuted": False, "bound": 0.25}])
    write_report(folder, public=public)
    return folder


class Fuzzer:
    """Edits that are a function of a seed and their number.

    Attributes:
        counts: How many edits of each kind had each outcome.
        failures: What went wrong, with the number of the edit.
    """

    def __init__(self, workspaces, *, check=verify, seed=0, counts=(), failures=()):
        """Takes over two workspaces; `check` raises an error of reldp's own to refuse a folder."""
        signal.signal(signal.SIGALRM, _hang)
        self._workspaces, self._check, self._seed = workspaces, check, seed
        self.counts, self.failures = Counter(dict(counts)), list(failures)

    def edit(self, number):
        """Makes one edit, has it judged, and undoes it."""
        random = Random(f"{self._seed} {number}")
        weights = [weight for weight, _ in KINDS.values()]
        kind = random.choices(list(KINDS), weights)[0]
        workspace = self._workspaces[number % len(self._workspaces)]
        try:
            outcome, why = self._judged(kind, random, workspace)
            equivalent = outcome != "traceback" and workspace.is_equivalent()
        finally:
            workspace.undo()
        verdict = f"equivalent, {outcome}" if equivalent else outcome
        self.counts[f"{kind.__name__}: {verdict}"] += 1
        if outcome == "traceback" or (outcome == "passed" and KINDS[kind][1] and not equivalent):
            self.failures.append({"number": number, "kind": kind.__name__, "why": why})

    def _judged(self, kind, random, workspace):
        """Whether the edited folder passed, was refused, or broke the verifier."""
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        try:
            kind(random, workspace)
            self._check(workspace.path)
            return "passed", "passed, and is not equivalent"
        except ReldpError as error:
            return ("refused", "") if str(error) else ("traceback", "an error without words")
        except (Exception, Hangs):
            return "traceback", traceback.format_exc(limit=-4)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def make_workspaces(home):
    """Two runs to edit, and the files of a third."""
    lender = content(make_run(home / "c" / "run", public=True))
    return [
        Workspace(make_run(home / name / "run", public=public), lender)
        for name, public in (("a", True), ("b", False))
    ]


def run(edits, state=None, *, seed=0, home=None, every=1000, say=print):
    """Makes edits up to a number, going on from a state file; returns what is known.

    Edits depend on the seed and their number alone, so a state file is all there is to go on from.
    It stops early after twenty failures.
    """
    known = {"seed": seed, "done": 0, "seconds": 0.0, "counts": {}, "failures": []}
    if state is not None and Path(state).exists():
        known = json.loads(Path(state).read_text())
    with tempfile.TemporaryDirectory(dir=home) as place:
        workspaces = make_workspaces(Path(place))
        for workspace in workspaces:
            verify(workspace.path)  # what is not edited passes, and epsilon is computed once
        past = {name: known[name] for name in ("seed", "counts", "failures")}
        fuzzer = Fuzzer(workspaces, **past)
        began = time.process_time() - known["seconds"]
        while known["done"] < edits and len(fuzzer.failures) < 20:
            stop = min(known["done"] + every, edits)
            for number in range(known["done"], stop):
                fuzzer.edit(number)
            known |= {"done": stop, "seconds": round(time.process_time() - began, 1)}
            known |= {"counts": dict(fuzzer.counts), "failures": fuzzer.failures}
            if state is not None:
                Path(state).write_text(json.dumps(known, indent=2) + "\n")
            say(f"{stop:,} edits, {known['seconds']} s of CPU, {len(fuzzer.failures)} failures")
    return known


def _hang(number, frame):
    raise Hangs
