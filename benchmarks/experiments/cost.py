"""Time and memory that privacy costs: a short training of the same sizes as every row of the tables.

Times measured beside other workers say nothing about a method, so this suite runs with one worker,
alone on the machine. `of` maps any cell of the tables to the short training that measures it:
fields that change neither time nor memory (target, clip norm, learning rate, seed, pooling) get
their defaults.

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
# Texts of similar graphs are about as long, so one graph represents the others.
STANDS_FOR = {
    "wordnet-verbs": "wordnet-nouns",
    "aan_coling_lrec_workshops": "aan_acl_venues",
}
# Fields that change neither time nor memory.
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
    """Return the short training that measures a cell; None for methods without gradients."""
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
        cuda_graphs=True,
    )


def without_privacy(cell: Cell) -> Cell | None:
    """Return the short training of the same sizes that neither clips nor adds noise."""
    return of(
        cell.but(
            method="nonprivate", epsilon=0.0, noise=0.0, clipping="tuple", loss="infonce",
            negatives="entities", pool="",
        )
    )  # fmt: skip


def cells() -> list[Cell]:
    """Return every short training, the cheapest encoder and the smallest first, without evaluation."""
    shown = [*_rows(), *_larger(), *frontier.frontier_cells()]
    pairs = [short for cell in shown for short in (of(cell), without_privacy(cell)) if short]
    by_id = {cell.id: cell for cell in [*pairs, *_without_graphs()]}
    return sorted(by_id.values(), key=_expense)


def _expense(cell: Cell) -> tuple[int, float, str]:
    order = [*POOLINGS, cell.encoder]  # an unknown encoder comes last
    return order.index(cell.encoder), cell.work, cell.method


def _rows() -> list[Cell]:
    """Return one cell of every row of the cross-domain tables."""
    return [
        cross_domain.private(column, key, max(targets), 0)
        for column in cross_domain.COLUMNS
        for key, targets in column.targets.items()
    ]


def _larger() -> list[Cell]:
    """Return the rules at larger batches of the first column."""
    column = cross_domain.COLUMNS[0]
    return [
        cross_domain.private(column, key, 4.0, 0).but(batch=batch)
        for batch in BATCHES
        for key in ("tuple", "frequency", "pair")
    ]


def _without_graphs() -> list[Cell]:
    """Return cells in full precision without CUDA graphs, to tell how much both save."""
    column = cross_domain.COLUMNS[0]
    cells = []
    for batch in BATCHES:
        cell = cross_domain.private(column, "tuple", 4.0, 0)
        cell = cell.but(batch=batch, precision="float32", weights="float32")
        cells += [
            short.but(cuda_graphs=False) for short in (of(cell), without_privacy(cell)) if short
        ]
    return cells
