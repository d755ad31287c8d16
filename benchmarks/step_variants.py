"""Variants of one training step on the same workload: plain, private by reldp, private by Opacus.

``stock`` is plain non-private PEFT (or full) training with AdamW; ``tuple`` and ``pair`` are reldp's
clipped sums plus device noise and the same AdamW; ``secure`` is ``tuple`` with noise from the keyed
stream, prefetched; ``opacus`` takes per-sample gradients with Opacus' hooks and adds them up per
tuple; ``stock-graph`` and ``tuple-graph`` run the step as one CUDA graph, because small batches are
bound by the host otherwise. Weights and tokens are random, rows have full length.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor, nn

from reldp.gradients import GradientSettings, PerUnitGradients

CLIP_NORM, NOISE, RATE = 1.0, 1.0, 1e-4


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Sizes, precision and variants of one measurement."""

    shape: str = "minilm"
    train: str = "lora"
    batch: int = 32
    negatives: int = 4
    length: int = 32
    rank: int = 8
    precision: str = "fp32"
    variants: tuple[str, ...] = ("stock", "tuple", "pair", "opacus")
    compile: bool = False


def build_model(work: Workload, device: torch.device) -> nn.Module:
    """Return a model of the shape with random weights, the same for every variant."""
    import transformers

    torch.manual_seed(0)
    with device:
        if work.shape.startswith("llama"):
            layers = 2 if work.shape == "llama-tiny" else 32
            config = transformers.LlamaConfig(num_hidden_layers=layers, use_cache=False)
            torch.set_default_dtype(torch.bfloat16)
            model = transformers.LlamaModel(config)
            torch.set_default_dtype(torch.float32)
            targets = ["q_proj", "v_proj"]
        else:
            sizes = {"minilm": (384, 6, 1536), "bert-base": (768, 12, 3072)}[work.shape]
            config = transformers.BertConfig(
                hidden_size=sizes[0],
                num_hidden_layers=sizes[1],
                intermediate_size=sizes[2],
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
            )
            model = transformers.BertModel(config, add_pooling_layer=False)
            targets = ["query", "value"]
    if work.train == "lora":
        peft = import_module("peft")
        config = peft.LoraConfig(r=work.rank, lora_alpha=2 * work.rank, target_modules=targets)
        model = peft.get_peft_model(model, config)
        for name, p in model.named_parameters():
            if "lora_B" in name:  # zeros would hide errors
                p.data.normal_(std=0.02)
    model.to(device).train()
    if work.compile:
        model.compile()
    return model


@contextmanager
def precision(work: Workload, device: torch.device) -> Iterator[None]:
    """Set the precision of the workload."""
    torch.set_float32_matmul_precision("high" if work.precision == "tf32" else "highest")
    with torch.autocast(device.type, torch.bfloat16, enabled=work.precision == "bf16"):
        yield


class Job:
    """One variant of a workload: a model, its rows, and a step."""

    def __init__(self, work: Workload, variant: str, device: torch.device) -> None:
        self.work, self.variant, self.device = work, variant, device
        self.model = build_model(work, device)
        self.params = [p for p in self.model.parameters() if p.requires_grad]
        self.size = sum(p.numel() for p in self.params)
        rows = torch.randint(1000, 20_000, (work.batch, work.negatives + 2, work.length))
        if variant == "pair":
            endpoints = rows[:, :2].repeat_interleave(work.negatives, 0)
            rows = torch.cat([endpoints, rows[:, 2:].reshape(-1, 1, work.length)], 1)
        self.rows = rows.to(device)  # (units, rows per unit, length)
        self.positions = torch.arange(work.length, device=device)[None]
        self.thresholds = torch.full(
            (len(rows),),
            CLIP_NORM / (work.negatives if variant == "pair" else 1),
            dtype=torch.float64,
            device=device if variant.endswith("-graph") else "cpu",
        )
        graph = variant.endswith("-graph")
        self.optimizer = torch.optim.AdamW(self.params, lr=RATE, capturable=graph)
        self.count = 0
        self.step = self._make_step(variant.removesuffix("-graph"))
        if graph:
            self.step = self._captured()

    def losses(self, start: int, stop: int) -> Tensor:
        """Return pairwise logistic losses of units, from one forward pass over their rows."""
        chosen = self.rows[start:stop]
        units, rows, length = chosen.shape
        ids = chosen.reshape(-1, length)
        positions = {}  # Opacus needs BERT's in every row; Llama would look for packed sequences
        if not self.work.shape.startswith("llama"):
            positions["position_ids"] = self.positions.expand(len(ids), -1)
        with precision(self.work, self.device):
            out = self.model(input_ids=ids, **positions).last_hidden_state
        vectors = nn.functional.normalize(out.float().mean(1), dim=-1).view(units, rows, -1)
        positive = (vectors[:, 0] * vectors[:, 1]).sum(-1, keepdim=True)
        negative = (vectors[:, :1] * vectors[:, 2:]).sum(-1)
        return nn.functional.softplus(negative - positive).sum(1)  # (units,)

    def _make_step(self, variant: str) -> Callable[[], None]:
        """Return the variant's step as a function."""
        if variant == "stock":
            return self._stock
        if variant == "opacus":
            return self._opacus_step()
        self.engine = PerUnitGradients(self.model, GradientSettings())
        if variant == "secure":
            return self._secure_step()
        return lambda: self._apply(self._sums(), torch.randn(self.size, device=self.device))

    def _sums(self) -> list[Tensor]:
        """Return the clipped sums of the batch, by parameter."""
        clipped = self.engine.clipped_sum(self.losses, self.thresholds, self.rows.shape[1])
        return [clipped.sums[name] for name in self.engine.parameters]

    def _apply(self, sums: list[Tensor], noise: Tensor) -> None:
        """Add noise, divide by the batch size, and run the optimizer."""
        noisy = torch.cat([s.reshape(-1) for s in sums]).add_(noise, alpha=NOISE * CLIP_NORM)
        self._set(noisy)

    def _set(self, noisy: Tensor) -> None:
        """Pass the noisy mean to the optimizer."""
        parts = noisy.div_(self.work.batch).split([p.numel() for p in self.params])
        for p, part in zip(self.params, parts, strict=True):
            p.grad = part.view(p.shape).to(p.dtype)
        self.optimizer.step()

    def _stock(self) -> None:
        """Run one step of plain training."""
        self.optimizer.zero_grad(set_to_none=True)
        self.losses(0, len(self.rows)).sum().div(self.work.batch).backward()
        self.optimizer.step()

    def _secure_step(self) -> Callable[[], None]:
        """Return a step with noise from the keyed stream, drawn ahead in background threads."""
        from reldp.noise import GaussianNoise, Streams, add_noise, new_key

        pinned = self.device.type == "cuda"
        self.noise = GaussianNoise(
            Streams(new_key()),
            prefetch=2,
            workers=max(1, (os.cpu_count() or 2) - 2),
            allocate=lambda n: torch.empty(n, dtype=torch.float64, pin_memory=pinned).numpy(),
        )

        def step() -> None:
            flat = torch.cat([s.reshape(-1) for s in self._sums()]).double()
            draw = torch.from_numpy(self.noise.draw(self.count, 0, self.size))
            noise = draw.to(self.device, non_blocking=True)
            noisy = add_noise(flat, noise, standard_deviation=NOISE * CLIP_NORM)
            self._set(noisy.float())
            self.count += 1

        return step

    def _opacus_step(self) -> Callable[[], None]:
        """Return a step with per-sample gradients by Opacus' hooks, added per tuple, clipped, summed."""
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        grad_sample = import_module("opacus.grad_sample")
        self.model = grad_sample.GradSampleModule(
            self.model, batch_first=True, loss_reduction="sum", strict=False
        )
        self.params = [p for p in self.model.parameters() if p.requires_grad]

        def step() -> None:
            self._apply(self._opacus_sums(), torch.randn(self.size, device=self.device))

        return step

    def _opacus_sums(self) -> list[Tensor]:
        """Return clipped sums from per-sample gradients."""
        units, rows, _ = self.rows.shape
        self.losses(0, units).sum().backward()
        grads = [p.grad_sample.view(units, rows, -1).sum(1) for p in self.params]
        norms = torch.stack([g.norm(dim=1) for g in grads]).norm(dim=0)
        factors = (self.thresholds.to(norms) / norms).clamp(max=1.0)
        for p in self.params:
            p.grad_sample, p.grad = None, None
        return [factors @ g for g in grads]

    def _captured(self) -> Callable[[], None]:
        """Return the step as one CUDA graph."""
        eager = self.step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                eager()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eager()
        return graph.replay

    def first_sum(self) -> Tensor | None:
        """Return the clipped sum of the first batch, to compare variants."""
        if self.variant == "tuple":
            return torch.cat([s.reshape(-1) for s in self._sums()]).cpu()
        if self.variant == "opacus":
            return torch.cat([s.reshape(-1) for s in self._opacus_sums()]).cpu()
        return None
