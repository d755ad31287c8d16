"""What privacy costs in time: the same short training by every method, alone on the machine.

Run with one worker; seconds per step beside other workers say nothing about a method.
"""

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.tuning import row

BATCHES = (64, 256)
STEPS = 40


def cells() -> list[Cell]:
    """A short training by every method at two batch sizes; nothing is evaluated."""
    start = Cell(train="wordnet-nouns", tests=(), method="base", steps=STEPS)
    found = []
    for batch in BATCHES:
        for precision in ("float32", "bfloat16"):
            sized = start.but(batch=batch, precision=precision)
            names = ("tuple", "frequency", "pair") if precision == "bfloat16" else ("tuple",)
            found.append(sized.but(method="nonprivate"))
            found += [sized.but(method="private", noise=1.0, **row(name)) for name in names]
    return found
