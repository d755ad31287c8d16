"""One cell, run by `reldp.Trainer` in a temporary run folder and evaluated by `reldp.evaluate`.

A cell's seed decides the new weights of the adapters. Random draws and noise come from the
operating system, as in every run of the trainer, so a cell that is run again gives another number
within the spread over seeds. Everything in a result is sensitive; the graphs here are public.
"""

import gc
import itertools
import math
import platform
import resource
import statistics
import tempfile
import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import reldp
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.levels import Levels
from benchmarks.experiments.optimizers import freeze_first_halves, registered
from benchmarks.experiments.subspaces import (
    Bases,
    projected,
    public_bases,
    scale_change,
    start_adapters,
)

_TRACE_POINTS = 20
# Adam does not depend on the scale of its gradients, so noise of this many times the size leaves
# the noise alone to be learned from.
_NOISE_ALONE = 1e6
_METRICS = ("prec@1", "mrr", "hits@10", "ndcg")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where cells run, and what they read.

    Attributes:
        levels: File of calibrated noise levels.
        data: Folder of graph folders that are not bundled.
        models: Folder of model folders, by the encoder's name.
        device: ``"cpu"`` or ``"cuda"``.
    """

    levels: Path
    data: Path | None = None
    models: Path | None = None
    device: str = "cpu"

    @property
    def on_gpu(self) -> bool:
        """Whether cells run on a GPU."""
        return self.device.startswith("cuda")


class Laboratory:
    """Runs cells one after the other in this process."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.inputs = Inputs(place.data, place.models)
        self.levels = Levels(place.levels)
        self._bases: Bases = {}
        if place.on_gpu:
            torch.set_float32_matmul_precision("high")  # TF32; clipping stays exact float32
            torch.backends.cuda.enable_cudnn_sdp(False)  # made for long texts

    def run(self, cell: Cell) -> dict[str, Any]:
        """Return the result of a cell as plain JSON values."""
        began = time.perf_counter()
        self._reset_memory()
        encoder = self.encoder(cell)
        plan = self.levels.plan(cell, self.inputs)
        trained = self.train(cell, plan, encoder) if cell.method != "base" else {}
        evaluations = {name: self._evaluate(cell, encoder, name) for name in cell.tests}
        for scale in cell.scales if trained else ():
            scale_change(encoder, scale)
            evaluations |= {
                f"{name} x {scale:g}": self._evaluate(cell, encoder, name) for name in cell.tests
            }
            scale_change(encoder, 1 / scale)
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

    def encoder(self, cell: Cell) -> reldp.TextEncoder:
        """Load the encoder of a cell, untrained."""
        encoder = reldp.TextEncoder.load(
            self.inputs.model(cell.encoder),
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
        self._bases = {}
        if cell.start_graph and cell.method != "base":
            self._bases = public_bases(
                encoder,
                self.inputs.graph(cell.start_graph),
                weighted=cell.adapter_start == "gradients",
            )
        if cell.adapter_start and cell.method != "base":
            start_adapters(encoder, cell.adapter_start, self._bases, cell.start_scale)
        if cell.freeze_a:
            freeze_first_halves(encoder.module)
        return encoder

    def _attention(self, cell: Cell) -> str | None:
        """Attention for short texts on a GPU, where the encoder can use it."""
        fits = cell.weights == "bfloat16" and cell.max_length <= 64 and cell.encoder != "mpnet"
        return "short" if self.place.on_gpu and fits else None

    def train(
        self, cell: Cell, plan: reldp.PrivacyPlan, encoder: reldp.TextEncoder
    ) -> dict[str, Any]:
        """Train an encoder in place; return its time and a thin trace of the run."""
        if cell.warm_steps:
            warm = cell.but(
                train=cell.warm_graph, method="nonprivate", epsilon=0.0, noise=0.0, max_degree=0,
                steps=cell.warm_steps, warm_graph="", warm_steps=0, negatives="entities", pool="",
            )  # fmt: skip
            public = self.encoder(warm)
            self.train(warm, self.levels.plan(warm, self.inputs), public)
            encoder.load_trainable(public.trainable())
        if cell.method == "noise-only":
            plan = replace(plan, noise_multiplier=_NOISE_ALONE * plan.noise_multiplier)
        settings = self._settings(cell)
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", UserWarning)  # advice on plans that are poor on purpose
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            if cell.bias_correction:
                deviation = plan.noise_multiplier * plan.clip_norm / plan.expected_batch_size
                settings["optimizer"] = stack.enter_context(registered())
                settings["optimizer_options"] |= {"noise_variance": deviation**2}
            if cell.project:
                settings["optimizer"] = stack.enter_context(
                    projected(encoder, self._bases, cell.project)
                )
            trainer = reldp.Trainer(
                encoder,
                self.inputs.capped(cell.train, cell.max_degree),
                plan,
                pool=self.inputs.graph(cell.pool) if cell.pool else None,
                **settings,
            )
            return _summary(trainer.fit(folder / "run").metrics)

    def _settings(self, cell: Cell) -> dict[str, Any]:
        """Return the trainer's settings for a cell."""
        return {
            "loss": cell.loss,
            "temperature": cell.temperature,
            "pairing": cell.pairing,
            "optimizer_options": {"betas": [cell.beta1, cell.beta2]},
            "learning_rate": cell.learning_rate,
            "schedule": cell.schedule,
            "warmup_steps": cell.warmup,
            "average": cell.average or None,
            "clip": cell.method != "nonprivate",
            "device": self.place.device,
            "precision": cell.precision,
            "cuda_graphs": cell.cuda_graphs and self.place.on_gpu,
            "checkpoint_every": cell.steps,
            "progress": False,
            "log_sensitive": True,
        }

    def _evaluate(self, cell: Cell, encoder: reldp.TextEncoder, name: str) -> dict[str, Any]:
        result = reldp.evaluate(
            encoder,
            self.inputs.graph(name),
            candidates=cell.candidates,
            max_relations=cell.max_relations or None,
            resamples=200,
        )
        values = result.to_json()
        intervals = {k: [round(x, 5) for x in values["intervals"][k]] for k in _METRICS[:2]}
        return {
            **{key: round(values[key], 6) for key in _METRICS},
            "intervals": intervals,
            "num_relations": result.num_relations,
        }

    def _reset_memory(self) -> None:
        if self.place.on_gpu:
            gc.collect()  # a step and its CUDA graphs refer to one another
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def _peak_memory(self) -> int:
        """Return MiB of tensors on a GPU, or of the whole process on a CPU."""
        if self.place.on_gpu:
            return int(torch.cuda.max_memory_allocated() >> 20)
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)

    def _device_name(self) -> str:
        if self.place.on_gpu:
            return torch.cuda.get_device_name()
        return f"CPU ({platform.machine()}), {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    import transformers

    return {
        "reldp": reldp.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": np.__version__,
    }


def _summary(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median time of a step, and losses, norms and clipping at a few points."""
    lines = [line["sensitive"] for line in metrics]
    end_times = [line["seconds"] for line in lines]
    times = [after - before for before, after in itertools.pairwise([0.0, *end_times])]
    bounds = np.linspace(0, len(lines), min(_TRACE_POINTS, len(lines)) + 1).astype(int)
    parts = [lines[a:b] for a, b in itertools.pairwise(bounds)]
    return {
        "seconds_per_step": round(statistics.median(times[len(times) // 10 :]), 5),
        "overflows": sum(line["overflow"] for line in lines),
        "nonfinite": sum(line["num_nonfinite"] for line in lines),
        "trace": {
            name: [round(_mean([line.get(name, math.nan) for line in part]), 5) for part in parts]
            for name in ("loss", "median_norm", "clipped_share")
        },
    }


def _mean(values: list[float]) -> float:
    """Return the mean of the values that are numbers; -1 if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else -1.0
