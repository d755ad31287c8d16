"""What a row costs: columns beside the tables, and a section of their own."""

from typing import Any

from benchmarks.experiments import cost
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.layout import (
    DASH,
    found,
    listed,
    named,
    numbers,
    paragraphs,
    table,
)

# Encoders whose code copies from the CPU in every forward: their steps run one by one.
NOT_RECORDED = ("mpnet",)
HEADER = ["ms per step", "peak MiB", "training, s", "time to no privacy"]


def columns(store: Store, cell: Cell) -> list[str]:
    """`HEADER` for a cell, from the short training of the same sizes."""
    short, plain = cost.of(cell), cost.without_privacy(cell)
    result = store.get(short) if short else None
    if result is None:
        return [DASH] * len(HEADER)
    beside = store.get(plain) if plain else None
    step = result["seconds_per_step"]
    return [
        f"{1000 * step:.1f}",
        f"{result['peak_memory_mb']:,}",
        f"{cell.steps * step:,.0f}",
        _ratio(result, beside),
    ]


def section(store: Store) -> str:
    """Every short training."""
    cells = [cell for cell in cost.cells() if store.get(cell)]
    if not cells:
        return ""
    rows = [_line(store, cell) for cell in sorted(cells, key=_likeness)]
    header = ["training", "encoder", "graph", "batch", "k", "adapters", "numbers", "replayed"]
    text = "## Cost\n\n" + paragraphs(
        f"""Short trainings ({cost.STEPS} steps), one at a time, alone on the machine ({devices(store)}). Everything
        counts: coins, tokens, forward, backward, clipping, secure noise, optimizer. The median step is shown:
        loading is not in it, nor is the recording of a step, which happens once per shape. *Replayed* steps are
        recorded as a CUDA graph, without privacy as with it, and both kinds use the same padding (against stock
        PEFT, which needs none, `benchmarks/step_time.py` compares). MPNet cannot be recorded with this version of
        transformers. The private step fuses each adapter with its layer, training without privacy runs PEFT's
        modules as they are: ratios may be below 1. Target, analysis and pooling change nothing here.
        *Numbers*: bfloat16 of weights and activations, or of products only; adapters, gradients, norms, sums and
        noise are float32 or better everywhere."""
    )
    total = sum(result["seconds"] for result in store.results.values())
    after = f"All runs of this page together: {total / 3600:.1f} worker hours."
    return "\n\n".join([text, table([*header, *HEADER[:2], HEADER[3]], rows), after])


def devices(store: Store) -> str:
    """Where the short trainings ran."""
    return listed(sorted({result["device"] for result in found(store, cost.cells())}))


def _likeness(cell: Cell) -> tuple[Any, ...]:
    """What can be compared stands together, without privacy first."""
    encoders = [*cost.POOLINGS, cell.encoder]
    setting = (cell.train, numbers(cell), cell.batch, cell.num_negatives, cell.lora_targets)
    return (encoders.index(cell.encoder), *setting, cell.method, cell.work, cell.clipping)


def _line(store: Store, cell: Cell) -> list[str]:
    result = store.results[cell.id]
    plain = store.get(_unpaid(cell))
    return [
        method(cell),
        named(cell.encoder),
        named(cell.train),
        str(cell.batch),
        str(cell.num_negatives),
        " ".join(cell.lora_targets) or "query value",
        numbers(cell),
        "yes" if cell.replay and cell.encoder not in NOT_RECORDED else "no",
        f"{1000 * result['seconds_per_step']:.1f}",
        f"{result['peak_memory_mb']:,}",
        _ratio(result, plain),
    ]


def method(cell: Cell) -> str:
    """A cell's method in the reader's words."""
    if cell.method != "private":
        return "without privacy"
    return f"{cell.clipping}, public negatives" if cell.pool else cell.clipping


def _unpaid(cell: Cell) -> Cell:
    """A short training as it is, but without privacy."""
    plain = cost.without_privacy(cell)
    return cell if plain is None else plain.but(replay=cell.replay)


def _ratio(result: dict[str, Any], plain: dict[str, Any] | None) -> str:
    if plain is None:
        return DASH
    return f"{result['seconds_per_step'] / plain['seconds_per_step']:.2f}"
