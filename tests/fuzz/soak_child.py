"""One process of a soak: ``reldp train`` and ``reldp publish`` by way of the command line, with its phases reported.

The process is forked from one that has all modules loaded, and runs the commands as a shell would: the same
`main`, handlers of signals and exit codes. It reports every phase as it begins, as one byte in a pipe. Where asked,
it sends itself a signal just before the n-th operation on the disk in a phase, or finds the disk full there.
"""

import errno
import faulthandler
import json
import os
import signal
from functools import lru_cache

import reldp.cli.publish
import reldp.cli.train
import reldp.cli.verify
from reldp.cli.main import main
from reldp.plan import PrivacyPlan
from reldp.reporting import bundle
from reldp.runs import budget_cost, key, ledger, session
from reldp.runs.budget import Budget
from reldp.runs.budgeted_graphs import FILE_NAME
from reldp.runs.privacy_cost import privacy_cost
from reldp.training import shared_run, trainer
from tests.training.small import small_graph

PHASES = ("start", "budget entry", "training", "completion", "certificate", "publishing")
NUM_STEPS = 20
_SETTINGS = {
    "max_degree": 4, "num_negatives": 3, "noise_multiplier": 3.0, "delta": 1e-4, "num_steps": NUM_STEPS,
    "expected_batch_size": 20.0,
}  # fmt: skip
_OPERATIONS = ("fsync", "write", "open", "mkdir", "replace", "rename", "unlink", "ftruncate")
_FULL = ("fsync", "write", "mkdir", "open")  # what a full disk refuses


def prepare(home):
    """Write the graph, fix the key, and compute once what every process needs."""
    os.environ["RELDP_STATE_DIR"] = str(home / "state")
    key.new_key = lambda: bytes(range(32))
    capped = small_graph().promise_degrees(_SETTINGS["max_degree"])
    plan = PrivacyPlan.for_graph(
        capped, sizes="public", **{k: v for k, v in _SETTINGS.items() if k != "max_degree"}
    )
    for accountant in ("pld", "rdp"):
        privacy_cost(plan, accountant, plan.num_steps)
    whole = budget_cost.composed_epsilon
    cached = lru_cache(lambda count, delta: whole([budget_cost.Charge(plan=plan)] * count, delta))
    # All runs have one plan: epsilon follows from their number.
    reldp.runs.budget.composed_epsilon = lambda charges, delta, **_: cached(len(charges), delta)
    cached(1, plan.delta)
    rows = home / "graph"
    rows.mkdir()
    entities, relations = (table.to_pydict() for table in small_graph().to_arrow())
    for name, table in (("entities", entities), ("relations", relations)):
        _lines(rows / f"{name}.jsonl", table)


def _lines(path, columns):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_budget(home, name):
    """Make the budget of a run; all runs use one graph, so the state folder must forget the budget before."""
    (home / "state" / FILE_NAME).unlink(missing_ok=True)
    budget_folder(home, name).mkdir()
    Budget.create(budget_folder(home, name)).close()


def budget_folder(home, name):
    """Where the budget of a run is; it stays when the run is moved."""
    return home / f"{name.rstrip('+')} budget"


def train_words(home, name):
    """The command that trains a run."""
    flags = [w for k, v in _SETTINGS.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    sets = ("learning.average=0.9", "encoder.hidden=[5]", "encoder.dim=4")
    return [
        *("train", str(home / "graph"), *flags, "--sizes", "public", "--promise-degrees"),
        *("--checkpoint-every", "3", "--threads", "1", "--quiet"),
        *(word for change in sets for word in ("--set", change)),
        *("--budget", str(budget_folder(home, name)), "-o", str(home / name)),
    ]


def start(home, name, *, disturbance=None):
    """Fork a process that does everything that is left to do for a run.

    Args:
        home: The folder of everything.
        name: The run.
        disturbance: Phase, number of the operation in it, and a signal; or 0 for a disk that is full
            once, -1 for one that stays full.

    Returns:
        The process id, and the end of a pipe from which the phases can be read.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    code = 99
    try:
        os.close(reader)
        errors = os.open(home / f"{name} errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(errors, stream)
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
        _report(writer, disturbance)
        code = main(train_words(home, name))
        if code == 0 and not (home / f"{name} bundle").exists():
            _Phase.begin("publishing")
            code = main(["publish", str(home / name), "-o", str(home / f"{name} bundle")])
    except KeyboardInterrupt:
        code = 130  # between two commands, or as Python was at its end
    finally:
        os._exit(code)


class _Phase:
    """The phase of this process, and how many operations it has had."""

    now, count, writer, disturbance = "start", 0, -1, None
    write = os.write

    @classmethod
    def begin(cls, phase):
        cls.write(cls.writer, bytes([PHASES.index(phase)]))
        cls.now, cls.count = phase, 0

    @classmethod
    def is_due(cls):
        cls.count += 1
        if cls.disturbance is None or cls.disturbance[0] != cls.now:
            return False
        stays = cls.disturbance[2] == -1
        return cls.count >= cls.disturbance[1] if stays else cls.count == cls.disturbance[1]


def _report(writer, disturbance):
    """Report phases, and disturb this process where asked."""
    _Phase.writer, _Phase.disturbance = writer, disturbance
    _Phase.begin("start")
    for name in ("enter", "note_session"):
        _announce(session, name, "budget entry")
    _announce(trainer.TrainingLoop, "run", "training")
    _announce(session, "complete_run", "completion")
    _announce(shared_run, "write_certificate", "certificate")
    for name in _OPERATIONS:
        _count(name, getattr(os, name))


def _announce(owner, name, phase):
    function = getattr(owner, name)

    def announced(*arguments, **settings):
        _Phase.begin(phase)
        return function(*arguments, **settings)

    setattr(owner, name, announced)


def _count(name, function):
    def counted(*arguments, **settings):
        is_plain_open = name == "open" and not arguments[1] & os.O_CREAT
        if not is_plain_open and _Phase.is_due():
            kind = _Phase.disturbance[2]
            if kind > 0:
                os.kill(os.getpid(), kind)
            elif name in _FULL:
                raise OSError(errno.ENOSPC, "No space left on device")
        return function(*arguments, **settings)

    setattr(os, name, counted)


__all__ = ["NUM_STEPS", "PHASES", "bundle", "ledger", "prepare", "start", "train_words"]
