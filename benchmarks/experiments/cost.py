"""What privacy costs in time: the same short training by every method, alone on the machine.

Run with one worker; seconds per step beside other workers say nothing about a method.
"""

from benchmarks.experiments.cells import Cell
from benchmarks.experiments.tuning import VALIDATION, row

BATCHES = (64, 256)
STEPS = 60


def cells() -> list[Cell]:
    """Sixty steps of every method at two batch sizes, in both precisions."""
    start = Cell(train="wordnet-nouns", tests=(VALIDATION,), method="base", steps=STEPS)
    found = []
    for batch in BATCHES:
        for precision in ("float32", "bfloat16"):
            sized = start.but(batch=batch, precision=precision)
            found.append(sized.but(method="nonprivate"))
            found += [
                sized.but(method="private", noise=1.0, **row(name))
                for name in ("tuple", "frequency", "pair")
            ]
    return found
