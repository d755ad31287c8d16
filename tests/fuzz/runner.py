"""Runs cases, each in a folder of its own and for 10 seconds at most, and counts how they ended."""

import contextlib
import io
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from reldp.errors import ReldpError
from tests.fuzz.targets import TARGETS

PATIENCE = 10.0


class Hangs(BaseException):
    """A case did not end in time."""


def _hang(number, frame):
    raise Hangs


def run_case(target, random, home):
    """How a case ended: accepted, refused, a traceback or a hang; and why."""
    before = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            target(random, home)
        return "accepted", ""
    except ReldpError as error:
        words = str(error)
        good = words and "\n" not in words
        return (
            ("refused", "") if good else ("traceback", f"a message that is not one line: {words!r}")
        )
    except Hangs:
        return "hang", traceback.format_exc(limit=-4)
    except Exception:
        return "traceback", traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fuzz(*, cases=None, seconds=None, seed=0, targets=TARGETS, first=0):
    """Run a number of cases, or for some time.

    Returns:
        Counts of ends by target, and the failures with the number that repeats each of them.
    """
    counts, failures, began, number = Counter(), [], time.monotonic(), first
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "case"
        while (cases is None or number < first + cases) and (
            seconds is None or time.monotonic() - began < seconds
        ):
            random = Random(f"{seed} {number}")
            target = random.choices(list(targets), list(targets.values()))[0]
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            end, why = run_case(target, random, home)
            counts[f"{target.__name__}: {end}"] += 1
            if end in ("traceback", "hang"):
                failures.append(
                    {"number": number, "target": target.__name__, "end": end, "why": why}
                )
            number += 1
    return {
        "cases": number - first,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "counts": dict(sorted(counts.items())),
        "failures": failures,
    }
