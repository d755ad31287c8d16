"""One cell, run by the product's own parts: plan, sampler, rule, engine, noise, loss, evaluation.

`PrivateStep` of `reldp.training` does every step; the harness leaves out only what a run on disk
needs (ledger, checkpoints, a secret key). Graphs here are public, so keys follow from seeds: the
numbers can be had again. Everything in a result is sensitive.
"""

import gc
import hashlib
import itertools
import platform
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import reldp
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.levels import Levels
from benchmarks.experiments.levers import NoiseAwareAdam, freeze_first_halves
from benchmarks.experiments.weights import join_model
from reldp.encoders import TextEncoder
from reldp.encoders.tokens import TokenTable
from reldp.evaluation import evaluate
from reldp.noise import Streams
from reldp.plan import PrivacyPlan
from reldp.training.config import TrainingConfig
from reldp.training.optimizers import WeightAverage, learning_rate, make_optimizer
from reldp.training.step import Batch, PrivateStep, StepReport

_TRACE_POINTS = 20


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where cells run, and what they read."""

    inputs: Path
    levels: Path
    device: str = "cpu"

    @property
    def models(self) -> Path:
        """Model folders, by the encoder's name."""
        return self.inputs / "models"

    @property
    def parts(self) -> Path:
        """Parts of weights that traveled alone."""
        return self.inputs.parent / "parts"

    @property
    def whole(self) -> Path:
        """Model folders put together; beside the inputs, so that these stay small."""
        return self.inputs.parent / "whole"


class Laboratory:
    """Runs cells one after the other in this process."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.inputs = Inputs(place.inputs)
        self.levels = Levels(place.levels)
        self.short = False
        if place.device.startswith("cuda"):
            torch.set_float32_matmul_precision("high")  # TF32; clipping stays exact float32
            torch.backends.cuda.enable_cudnn_sdp(False)  # made for long texts
            self.short = True

    def run(self, cell: Cell) -> dict[str, Any]:
        """The result of a cell as plain JSON values."""
        began = time.perf_counter()
        self._reset_memory()
        encoder = self._encoder(cell)
        plan = self.levels.plan(cell, self.inputs)
        trained = self._train(cell, plan, encoder) if cell.method != "base" else {}
        evaluations = {name: self._evaluate(cell, encoder, name) for name in cell.tests}
        return {
            "id": cell.id,
            "cell": cell.to_dict(),
            "evaluations": evaluations,
            "noise_multiplier": plan.noise_multiplier if trained else None,
            "epsilon": self.levels.epsilon(cell, self.inputs),
            "delta": plan.delta,
            "num_relations": plan.num_relations,
            "num_trainable": sum(p.numel() for p in encoder.trainable().values()),
            "attention": self._attention(cell) or "sdpa",
            **trained,
            "seconds": round(time.perf_counter() - began, 2),
            "peak_memory_mb": self._peak_memory(),
            "device": self._device_name(),
            "versions": versions(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def _encoder(self, cell: Cell) -> TextEncoder:
        whole = self.place.whole / cell.encoder
        folder = join_model(self.place.models / cell.encoder, self.place.parts, whole)
        encoder = TextEncoder.load(
            folder,
            train="none" if cell.method == "base" else "lora",
            lora_rank=cell.lora_rank,
            lora_alpha=cell.lora_scale * cell.lora_rank,
            lora_targets=cell.lora_targets or "query-value",
            lora_layers=cell.lora_layers or None,
            pooling=cell.pooling,
            max_length=cell.max_length,
            dtype=cell.weights,
            attention=self._attention(cell),
            device=self.place.device,
            seed=cell.seed,
        )
        if cell.freeze_a:
            freeze_first_halves(encoder.module)
        return encoder

    def _attention(self, cell: Cell) -> str | None:
        """Our own kernel for short texts where it works; the library's choice elsewhere."""
        fits = cell.weights == "bfloat16" and cell.max_length <= 64
        return "short" if self.short and fits and cell.encoder != "mpnet" else None

    def _train(self, cell: Cell, plan: PrivacyPlan, encoder: TextEncoder) -> dict[str, Any]:
        if cell.warm_steps:
            warm = cell.but(
                train=cell.warm_graph, method="nonprivate", epsilon=0.0, noise=0.0, max_degree=0,
                steps=cell.warm_steps, warm_graph="", warm_steps=0, negatives="entities", pool="",
            )  # fmt: skip
            run_steps(warm, self.levels.plan(warm, self.inputs), encoder, self.inputs)
        return run_steps(cell, plan, encoder, self.inputs)

    def _evaluate(self, cell: Cell, encoder: TextEncoder, name: str) -> dict[str, Any]:
        table = self.inputs.tokens(name, cell.encoder, cell.max_length)
        found = evaluate(
            TokenizedEncoder(encoder, table),
            self.inputs.graph(name),  # type: ignore[arg-type] # its numbers are enough
            candidates=cell.candidates,
            max_relations=cell.max_relations or None,
            resamples=200,
        )
        values = found.to_json()
        kept = ("prec@1", "mrr", "hits@10", "ndcg")
        return {
            **{key: round(values[key], 6) for key in kept},
            "intervals": {k: [round(x, 5) for x in values["intervals"][k]] for k in kept[:2]},
            "num_relations": found.num_relations,
        }

    def _reset_memory(self) -> None:
        if self.place.device.startswith("cuda"):
            gc.collect()  # a step and its recordings refer to one another
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def _peak_memory(self) -> int:
        """Of tensors on a GPU; of the whole process on a CPU."""
        if self.place.device.startswith("cuda"):
            return int(torch.cuda.max_memory_allocated() >> 20)
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)

    def _device_name(self) -> str:
        if self.place.device.startswith("cuda"):
            return torch.cuda.get_device_name()
        return f"CPU ({platform.machine()}), {torch.get_num_threads()} threads"


class TokenizedEncoder:
    """An encoder beside the token table of the one graph it is asked about."""

    def __init__(self, encoder: TextEncoder, table: TokenTable) -> None:
        self._encoder, self._table = encoder, table

    def encode_graph(self, graph: Any, indices: Any = None, *, batch_size: Any = None) -> Any:
        """Embeddings (entities, dim) of the entities asked for; batches are sized by length."""
        chosen = np.arange(len(self._table)) if indices is None else np.asarray(indices)
        ids, mask = self._table.rows(chosen)
        lengths = self._table.lengths[chosen]
        return self._encoder.encode(
            TokenTable(
                ids=ids[mask.astype(bool)].astype(np.int32),
                offsets=np.concatenate([[0], np.cumsum(lengths)]),
                pad_id=self._table.pad_id,
            )
        )


def run_steps(
    cell: Cell, plan: PrivacyPlan, encoder: TextEncoder, inputs: Inputs
) -> dict[str, Any]:
    """Trains the encoder in place; returns what was met on the way."""
    config = _config(cell, str(encoder.device))
    table = inputs.tokens(cell.train, cell.encoder, cell.max_length)
    if cell.pool:
        table = table.join(inputs.tokens(cell.pool, cell.encoder, cell.max_length))
    # Texts were tokenized when inputs were prepared.
    encoder.table = lambda graph, **options: table  # type: ignore[method-assign]
    step = PrivateStep(encoder, inputs.capped(cell.train, cell.max_degree), plan, config)
    optimizer = _optimizer(cell, plan, step)
    average = WeightAverage(cell.average, step.parameters) if cell.average else None
    step.open(Streams(key_of(cell.seed)))
    draw = _nothing(plan) if cell.method == "noise-only" else step.draw
    times, reports = [], []
    try:
        for number in range(cell.steps):
            began = time.perf_counter()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(
                    cell.schedule, cell.learning_rate, number, cell.steps, cell.warmup
                )
            reports.append(step.run(draw(number, 0), number, 0))
            optimizer.step()
            if average is not None:
                average.update(step.parameters, number)
            times.append(time.perf_counter() - began)
    finally:
        step.close()
    if average is not None:
        encoder.load_trainable(average.values)
    return _summary(times, reports)


def key_of(seed: int) -> bytes:
    """The key of a seed: public, as the graphs are."""
    return hashlib.sha256(f"reldp experiments, not a secret: {seed}".encode()).digest()


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import transformers

    return {
        "reldp": reldp.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }


def _config(cell: Cell, device: str) -> TrainingConfig:
    return TrainingConfig.make(
        loss=cell.loss,
        temperature=cell.temperature,
        pairing=cell.pairing,
        learning_rate=cell.learning_rate,
        schedule=cell.schedule,
        warmup_steps=cell.warmup,
        average=cell.average or None,
        clip=cell.method != "nonprivate",
        device=device,
        precision=cell.precision,
        cuda_graphs=cell.replay and device.startswith("cuda"),
    )


def _optimizer(cell: Cell, plan: PrivacyPlan, step: PrivateStep) -> torch.optim.Optimizer:
    parameters, betas = step.parameters.values(), (0.9, cell.beta2)
    if not cell.bias_correction:
        return make_optimizer("adam", parameters, cell.learning_rate, {"betas": betas})
    deviation = plan.noise_multiplier * plan.clip_norm / plan.expected_batch_size
    return NoiseAwareAdam(
        parameters, lr=cell.learning_rate, betas=betas, noise_variance=deviation**2
    )


def _nothing(plan: PrivacyPlan) -> Callable[[int, int], Batch]:
    """Batches without tuples: noise still comes on every step."""
    none = np.zeros((0, 2), np.int64), np.zeros((0, plan.num_negatives), np.int64)
    units = plan.clipping.units(*none, clip_norm=plan.clip_norm)
    return lambda step, branch: Batch(units=units, num_tuples=0, overflow=False)


def _summary(times: list[float], reports: list[StepReport]) -> dict[str, Any]:
    """Time and a thin trace of losses, norms and clipping."""
    endpoints = np.linspace(0, len(reports), min(_TRACE_POINTS, len(reports)) + 1).astype(int)
    parts = [reports[a:b] for a, b in itertools.pairwise(endpoints)]
    return {
        "seconds_per_step": round(statistics.median(times[len(times) // 10 :]), 5),
        "overflows": sum(report.overflow for report in reports),
        "nonfinite": sum(report.num_nonfinite for report in reports),
        "trace": {
            name: [round(_mean([getattr(r, name) for r in part]), 5) for part in parts]
            for name in ("loss", "median_norm", "clipped_share")
        },
    }


def _mean(values: list[float]) -> float:
    """The mean of what is a number; -1 if nothing is."""
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else -1.0
