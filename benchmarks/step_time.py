"""Time and memory of one training step, private and not, for the same workload in one process.

Variants: ``stock`` is plain non-private PEFT (or full) training with AdamW; ``tuple`` and ``pair``
are reldp's clipped sums plus device noise and the same AdamW; ``secure`` is ``tuple`` with noise
from the keyed stream, prefetched; ``opacus`` takes per-sample gradients with Opacus' hooks and adds
them up per tuple; ``stock-graph`` and ``tuple-graph`` replay the step as one CUDA graph, because
small batches are bound by the host otherwise. Weights and tokens are random, rows have full length.

    python benchmarks/step_time.py --suite cpu -o cpu.json
    python benchmarks/step_time.py --suite h200 -o h200.json
    python benchmarks/step_time.py --shape bert-base --batch 256 --precision bf16

PEFT, accelerate and Opacus may lie unpacked in folders named by RELDP_BENCH_PATH (separated as in
PATH) where they are not installed; a variant whose package is missing is reported as such.
"""

import argparse
import gc
import json
import os
import platform
import shlex
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path[:0] = [p for p in os.environ.get("RELDP_BENCH_PATH", "").split(os.pathsep) if p]
sys.path.append(str(Path(__file__).resolve().parents[1] / "src"))

import torch  # noqa: E402 - the folders above come first
from torch import Tensor, nn  # noqa: E402

from reldp.gradients import GradientSettings, PerUnitGradients  # noqa: E402

CLIP_NORM, NOISE, RATE = 1.0, 1.0, 1e-4
VARIANTS = ("stock", "tuple", "pair", "secure", "opacus", "stock-graph", "tuple-graph")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One row of the table, for all variants."""

    shape: str = "minilm"
    train: str = "lora"
    batch: int = 32
    negatives: int = 4
    length: int = 32
    rank: int = 8
    precision: str = "fp32"
    variants: tuple[str, ...] = ("stock", "tuple", "pair", "opacus")
    compile: bool = False


SUITES = {
    "cpu": [
        Workload(batch=16),
        Workload(batch=4, train="full", variants=("stock", "tuple", "opacus")),
    ],
    "h200": [
        Workload(shape="bert-base", batch=256, precision="tf32", variants=VARIANTS[:5]),
        Workload(shape="bert-base", batch=256, precision="bf16", variants=VARIANTS[:5]),
        Workload(shape="llama-7b", batch=32, precision="bf16", variants=VARIANTS[:5]),
        Workload(shape="bert-base", batch=32, precision="tf32", variants=VARIANTS),
        Workload(shape="bert-base", batch=32, precision="bf16", variants=VARIANTS),
        Workload(
            shape="bert-base",
            train="full",
            batch=256,
            precision="tf32",
            variants=("stock", "tuple", "opacus"),
        ),
        Workload(
            shape="bert-base",
            train="full",
            batch=256,
            precision="bf16",
            variants=("stock", "tuple", "opacus"),
        ),
        Workload(
            shape="bert-base",
            train="full",
            batch=32,
            precision="bf16",
            variants=("stock", "tuple", "opacus"),
        ),
        Workload(
            shape="bert-base",
            batch=256,
            precision="bf16",
            variants=("stock", "tuple"),
            compile=True,
        ),
    ],
}


def build_model(work: Workload, device: torch.device) -> nn.Module:
    """A model of the shape with random weights, the same for every variant."""
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
            if "lora_B" in name:  # zeros would hide mistakes
                p.data.normal_(std=0.02)
    model.to(device).train()
    if work.compile:
        model.compile()
    return model


@contextmanager
def precision(work: Workload, device: torch.device) -> Iterator[None]:
    """The workload's arithmetic."""
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
        """Pairwise logistic losses of units, one forward over their rows."""
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
        """The variant's step as a function."""
        if variant == "stock":
            return self._stock
        if variant == "opacus":
            return self._opacus_step()
        self.engine = PerUnitGradients(self.model, GradientSettings())
        if variant == "secure":
            return self._secure_step()
        return lambda: self._apply(self._sums(), torch.randn(self.size, device=self.device))

    def _sums(self) -> list[Tensor]:
        """The clipped sums of the batch, by parameter."""
        found = self.engine.clipped_sum(self.losses, self.thresholds, self.rows.shape[1])
        return [found.sums[name] for name in self.engine.parameters]

    def _apply(self, sums: list[Tensor], noise: Tensor) -> None:
        """Noise, division by the batch size, and the optimizer."""
        noisy = torch.cat([s.reshape(-1) for s in sums]).add_(noise, alpha=NOISE * CLIP_NORM)
        self._set(noisy)

    def _set(self, noisy: Tensor) -> None:
        """Gives the noisy mean to the optimizer."""
        parts = noisy.div_(self.work.batch).split([p.numel() for p in self.params])
        for p, part in zip(self.params, parts, strict=True):
            p.grad = part.view(p.shape).to(p.dtype)
        self.optimizer.step()

    def _stock(self) -> None:
        """Plain training."""
        self.optimizer.zero_grad(set_to_none=True)
        self.losses(0, len(self.rows)).sum().div(self.work.batch).backward()
        self.optimizer.step()

    def _secure_step(self) -> Callable[[], None]:
        """Steps with noise from the keyed stream, drawn ahead in background threads."""
        from reldp.noise.gaussian import GaussianNoise, add_noise
        from reldp.noise.streams import Streams, new_key

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
        """Per-sample gradients by Opacus' hooks, added up per tuple, clipped and summed."""
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
        """Clipped sums from per-sample gradients."""
        units, rows, _ = self.rows.shape
        self.losses(0, units).sum().backward()
        grads = [p.grad_sample.view(units, rows, -1).sum(1) for p in self.params]
        norms = torch.stack([g.norm(dim=1) for g in grads]).norm(dim=0)
        factors = (self.thresholds.to(norms) / norms).clamp(max=1.0)
        for p in self.params:
            p.grad_sample, p.grad = None, None
        return [factors @ g for g in grads]

    def _captured(self) -> Callable[[], None]:
        """The step as one CUDA graph."""
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
        """The clipped sum of the first batch, to compare variants by."""
        if self.variant == "tuple":
            return torch.cat([s.reshape(-1) for s in self._sums()]).cpu()
        if self.variant == "opacus":
            return torch.cat([s.reshape(-1) for s in self._opacus_sums()]).cpu()
        return None


def timed(job: Job) -> float:
    """Milliseconds of one step: on a GPU by the wall, on a CPU the time the process computed."""
    if job.device.type == "cpu":  # what other processes do on the machine does not count
        start = time.process_time()
        job.step()
        return 1e3 * (time.process_time() - start)
    torch.cuda.synchronize()
    start = time.perf_counter()
    job.step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def measure(work: Workload, device: torch.device, steps: int, warmup: int) -> list[dict[str, Any]]:
    """All variants of one workload."""
    if device.type == "cpu":  # a shared machine is not equally fast all the time: take turns
        jobs = {v: _attempt(lambda v=v: Job(work, v, device)) for v in work.variants}
        found = {v: _prepare(job, warmup) for v, job in jobs.items()}
        times: dict[str, list[float]] = {v: [] for v in jobs}
        for _ in range(steps):
            for v, job in jobs.items():
                if isinstance(job, Job) and "error" not in found[v]:
                    times[v].append(timed(job))
        rows = [_row(work, v, times[v], found[v]) for v in jobs]
    else:
        rows = []
        for v in work.variants:
            job = _attempt(lambda v=v: Job(work, v, device))
            facts = _prepare(job, warmup)
            torch.cuda.reset_peak_memory_stats()
            done = (
                [] if "error" in facts else _attempt(lambda j=job: [timed(j) for _ in range(steps)])
            )
            facts["peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20)
            rows.append(_row(work, v, done if isinstance(done, list) else [], facts))
            del job
            gc.collect()
            torch.cuda.empty_cache()
    return _with_ratios(rows)


def _attempt(make: Callable[[], Any]) -> Any:
    """The result, or what went wrong in one line."""
    try:
        return make()
    except (ImportError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"


def _prepare(job: Any, warmup: int) -> dict[str, Any]:
    """Warms a job up; its facts so far."""
    if not isinstance(job, Job):
        return {"error": job}
    facts: dict[str, Any] = {"parameters": job.size}
    sums = _attempt(job.first_sum)
    if isinstance(sums, Tensor):
        facts["first_sum"] = sums
    failed = _attempt(lambda: [job.step() for _ in range(warmup)])
    if isinstance(failed, str):
        facts["error"] = failed
    return facts


def _row(work: Workload, variant: str, times: list[float], facts: dict[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    row = {k: v for k, v in asdict(work).items() if k != "variants"}
    row |= {"variant": variant, **facts}
    if times:
        middle = statistics.median(times)
        row |= {"ms_per_step": round(middle, 3), "ms_least": round(min(times), 3)}
        row["tuples_per_second"] = round(1e3 * work.batch / middle, 1)
    return row


def _with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds ratios to the non-private variant, and how far two ways to the same sum differ."""
    base = {r["variant"]: r for r in rows}
    sums = {r["variant"]: r.pop("first_sum") for r in rows if "first_sum" in r}
    for row in rows:
        graph = row["variant"].endswith("-graph")
        stock = base.get("stock-graph" if graph else "stock", {})
        for key, name in (("ms_per_step", "time_ratio"), ("peak_mib", "memory_ratio")):
            if stock.get(key) and row.get(key) and "error" not in row:
                row[name] = round(row[key] / stock[key], 3)
        if row["variant"] == "opacus" and {"tuple", "opacus"} <= set(sums):
            gap = (sums["tuple"] - sums["opacus"]).norm() / sums["opacus"].norm()
            row["sum_differs_from_tuple"] = float(f"{float(gap):.2e}")
    return rows


def environment(device: torch.device) -> dict[str, Any]:
    """What was run where."""
    packages = {}
    for name in ("torch", "transformers", "peft", "opacus", "numpy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = getattr(sys.modules.get(name), "__version__", None)
    gpu = torch.cuda.get_device_name() if device.type == "cuda" else None
    return {
        "command": shlex.join(["python", "benchmarks/step_time.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "clock": "wall" if gpu else "processor time of the process",
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "versions": packages,
    }


def show(row: dict[str, Any]) -> str:
    """One line for people."""
    head = f"{row['shape']:>9} {row['train']:>4} b={row['batch']:<4} {row['precision']:>4} "
    head += f"{row['variant']:>11} "
    if "error" in row:
        return head + row["error"]
    return head + (
        f"{row['ms_per_step']:>9.1f} ms {row['tuples_per_second']:>9.1f} tuples/s "
        f"{row.get('peak_mib') or 0:>7} MiB  x{row.get('time_ratio', 0):.3f} time "
        f"x{row.get('memory_ratio', 0):.3f} memory"
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", default="minilm")
    parser.add_argument("--train", default="lora", choices=("lora", "full"))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--negatives", type=int, default=4)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "tf32", "bf16"))
    parser.add_argument("--variants", default="stock,tuple,pair,opacus")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--only", type=int, nargs="*", help="rows of the suite, from 0")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args(arguments)


def workloads(args: argparse.Namespace) -> list[Workload]:
    """The rows to measure."""
    if args.suite:
        rows = SUITES[args.suite]
        return [rows[i] for i in args.only] if args.only else rows
    names = ("shape", "train", "batch", "negatives", "length", "rank", "precision", "compile")
    work = Workload(**{name: getattr(args, name) for name in names})
    return [replace(work, variants=tuple(args.variants.split(",")))]


def main(arguments: list[str] | None = None) -> None:
    args = parse(arguments)
    device = torch.device(args.device)
    result: dict[str, Any] = {"results": []}
    for work in workloads(args):
        rows = measure(work, device, args.steps, args.warmup)
        for row in rows:
            print(show(row), flush=True)
        result["results"] += rows
        result = environment(device) | {"steps": args.steps} | {"results": result["results"]}
        if args.output:  # after each workload, so that a stopped run leaves what it has
            args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
