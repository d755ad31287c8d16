"""Time and memory of a row: columns of the tables, and a section."""

from typing import Any

from benchmarks.experiments import cost
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.store import Store
from benchmarks.experiments.tables.layout import (
    DASH,
    listed,
    named,
    paragraphs,
    precision_of,
    results_of,
    table,
)

# Encoders whose forward pass copies from the CPU: their steps cannot be captured as CUDA graphs.
NOT_CAPTURED = ("mpnet",)
HEADER = ["ms per step", "peak MiB", "training, s", "time vs. no privacy"]


def columns(store: Store, cell: Cell) -> list[str]:
    """Return `HEADER` for a cell, from the short training of the same sizes."""
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
    """Return every short training."""
    cells = [cell for cell in cost.cells() if store.get(cell)]
    if not cells:
        return ""
    rows = [_line(store, cell) for cell in sorted(cells, key=_likeness)]
    header = ["training", "encoder", "graph", "batch", "k", "adapters", "precision", "CUDA graphs"]
    text = "## Cost\n\n" + paragraphs(
        f"""Short trainings ({cost.STEPS} steps), one at a time, alone on the machine ({devices(store)}). A step
        includes
        sampling, tokens, forward and backward pass, clipping, secure noise and the optimizer. The table shows the
        median step, without loading and without the capture of CUDA graphs, which happens once per shape. With
        CUDA graphs, training with and without privacy is captured in the same way, with the same padding
        (`benchmarks/private_step.py` compares with stock PEFT, which needs no padding). The rows of MPNet are
        without CUDA graphs. The private step fuses each adapter with its layer, while training without
        privacy runs PEFT's modules: ratios may be below 1. Target, analysis and pooling change neither time nor
        memory. *Precision*: bfloat16 weights and activations, bfloat16 autocast (matrix multiplications only), or
        float32; adapters, gradients, norms, sums and noise are float32 or better everywhere. Runs with
        bfloat16 weights use attention for short texts
        (`TextEncoder.load(..., attention="short")`), except MPNet."""
    )
    total = sum(result["seconds"] for result in store.results.values())
    after = f"All runs of this page together: {total / 3600:.1f} hours, summed over processes."
    return "\n\n".join([text, table([*header, *HEADER[:2], HEADER[3]], rows), after])


def devices(store: Store) -> str:
    """Return the devices of the short trainings."""
    return listed(sorted({result["device"] for result in results_of(store, cost.cells())}))


def _likeness(cell: Cell) -> tuple[Any, ...]:
    """Return a sort key that puts comparable rows together, without privacy first."""
    encoders = [*cost.POOLINGS, cell.encoder]
    setting = (cell.train, precision_of(cell), cell.batch, cell.num_negatives, cell.lora_targets)
    return (encoders.index(cell.encoder), *setting, cell.method, cell.work, cell.clipping)


def _line(store: Store, cell: Cell) -> list[str]:
    result = store.results[cell.id]
    plain = store.get(_without_privacy(cell))
    return [
        method(cell),
        named(cell.encoder),
        named(cell.train),
        str(cell.batch),
        str(cell.num_negatives),
        " ".join(cell.lora_targets) or "query value",
        precision_of(cell),
        "yes" if cell.cuda_graphs and cell.encoder not in NOT_CAPTURED else "no",
        f"{1000 * result['seconds_per_step']:.1f}",
        f"{result['peak_memory_mb']:,}",
        _ratio(result, plain),
    ]


def method(cell: Cell) -> str:
    """Return the reader's name of a cell's method."""
    if cell.method != "private":
        return "without privacy"
    return f"{cell.clipping}, public negatives" if cell.pool else cell.clipping


def _without_privacy(cell: Cell) -> Cell:
    """Return the same short training without privacy."""
    plain = cost.without_privacy(cell)
    return cell if plain is None else plain.but(cuda_graphs=cell.cuda_graphs)


def _ratio(result: dict[str, Any], plain: dict[str, Any] | None) -> str:
    if plain is None:
        return DASH
    return f"{result['seconds_per_step'] / plain['seconds_per_step']:.2f}"
