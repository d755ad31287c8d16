"""What privacy costs: a short training of the same sizes as every row of the tables.

Time beside other workers says nothing about a method, so this suite runs with one worker, alone on
the machine. `of` leads from any cell of the tables to the short training that measures it: what
changes neither time nor memory (target, clip norm, learning rate, seed, pooling) is taken out.

    python -m benchmarks.experiments run --suite cost --device cuda --workers 1

>>> from benchmarks.cross_domain import COLUMNS, private
>>> of(private(COLUMNS[0], "tuple", 4.0, 2)) == of(private(COLUMNS[0], "tuple-paper", 1.0, 0))
True
"""

from dataclasses import fields

from benchmarks import cross_domain, frontier
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.tuning import row

STEPS = 60
BATCHES = (64, 256)
POOLINGS = {"minilm": "cls", "mpnet": "cls", "smollm2": "last"}  # cheapest encoder first
# Texts of one kind are about as long: a graph stands for its kin.
STANDS_FOR = {
    "wordnet-verbs": "wordnet-nouns",
    "aan_coling_lrec_workshops": "aan_acl_venues",
}
# What changes neither time nor memory; everything else is taken over.
_IDLE = (
    "analysis",
    "epsilon",
    "max_degree",
    "learning_rate",
    "clip_norm",
    "temperature",
    "pairing",
    "schedule",
    "warmup",
    "lora_scale",
    "beta2",
    "warm_graph",
    "warm_steps",
    "max_relations",
    "candidates",
    "seed",
)
_DEFAULTS = {item.name: item.default for item in fields(Cell) if item.name in _IDLE}


def of(cell: Cell) -> Cell | None:
    """The short training that measures a cell; None if it trains on nothing."""
    if cell.method not in ("private", "nonprivate"):
        return None
    private = cell.method == "private"
    return cell.but(
        **_DEFAULTS,
        train=STANDS_FOR.get(cell.train, cell.train),
        tests=(),
        pooling=POOLINGS.get(cell.encoder, cell.pooling),
        steps=STEPS,
        noise=1.0 if private else 0.0,
        accountant=row(cell.clipping).get("accountant", "pld") if private else "pld",
        replay=True,
    )


def without_privacy(cell: Cell) -> Cell | None:
    """The short training of the same sizes that neither clips nor adds noise."""
    return of(
        cell.but(
            method="nonprivate", epsilon=0.0, noise=0.0, clipping="tuple", loss="infonce",
            negatives="entities", pool="",
        )
    )  # fmt: skip


def cells() -> list[Cell]:
    """Every short training, the cheapest encoder and the smallest first; nothing is evaluated."""
    shown = [*_rows(), *_larger(), *frontier.frontier_cells()]
    short = [own for cell in shown for own in (of(cell), without_privacy(cell)) if own]
    found = {cell.id: cell for cell in [*short, *_step_by_step()]}
    return sorted(found.values(), key=_expense)


def _expense(cell: Cell) -> tuple[int, float, str]:
    order = [*POOLINGS, cell.encoder]  # an unknown encoder comes last
    return order.index(cell.encoder), cell.work, cell.method


def _rows() -> list[Cell]:
    """One cell of every row of the cross-domain tables."""
    return [
        cross_domain.private(column, key, max(targets), 0)
        for column in cross_domain.COLUMNS
        for key, targets in column.targets.items()
    ]


def _larger() -> list[Cell]:
    """The rules at the first column's larger batches."""
    column = cross_domain.COLUMNS[0]
    return [
        cross_domain.private(column, key, 4.0, 0).but(batch=batch)
        for batch in BATCHES
        for key in ("tuple", "frequency", "pair")
    ]


def _step_by_step() -> list[Cell]:
    """Full precision and no replay: how much of the time is neither."""
    column = cross_domain.COLUMNS[0]
    found = []
    for batch in BATCHES:
        cell = cross_domain.private(column, "tuple", 4.0, 0)
        cell = cell.but(batch=batch, precision="float32", weights="float32")
        found += [own.but(replay=False) for own in (of(cell), without_privacy(cell)) if own]
    return found
