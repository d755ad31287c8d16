"""Time and memory of one training step, private and not, for the same workload in one process.

Variants are described in `benchmarks.step_variants`; one whose package is missing is reported.

    python -m benchmarks.step_time --suite cpu -o cpu.json
    python -m benchmarks.step_time --suite h200 -o h200.json
    python -m benchmarks.step_time --shape bert-base --batch 256 --precision bf16
"""

import argparse
import gc
import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.step_variants import Job, Workload

VARIANTS = ("stock", "tuple", "pair", "secure", "opacus", "stock-graph", "tuple-graph")

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


def timed(job: Job) -> float:
    """Return milliseconds of one step: wall time on a GPU, processor time on a CPU."""
    if job.device.type == "cpu":  # independent of other processes on the machine
        start = time.process_time()
        job.step()
        return 1e3 * (time.process_time() - start)
    torch.cuda.synchronize()
    start = time.perf_counter()
    job.step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def measure(work: Workload, device: torch.device, steps: int, warmup: int) -> list[dict[str, Any]]:
    """Return the rows of all variants of one workload."""
    if device.type == "cpu":  # a shared machine changes its speed: variants take turns
        jobs = {v: _attempt(lambda v=v: Job(work, v, device)) for v in work.variants}
        facts_by_variant = {v: _prepare(job, warmup) for v, job in jobs.items()}
        times: dict[str, list[float]] = {v: [] for v in jobs}
        for _ in range(steps):
            for v, job in jobs.items():
                if isinstance(job, Job) and "error" not in facts_by_variant[v]:
                    times[v].append(timed(job))
        rows = [_row(work, v, times[v], facts_by_variant[v]) for v in jobs]
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
    """Return the result, or the error in one line."""
    try:
        return make()
    except (ImportError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"


def _prepare(job: Any, warmup: int) -> dict[str, Any]:
    """Warm a job up; return its facts so far."""
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
    """Return one row of the table."""
    row = {k: v for k, v in asdict(work).items() if k != "variants"}
    row |= {"variant": variant, **facts}
    if times:
        middle = statistics.median(times)
        row |= {"ms_per_step": round(middle, 3), "ms_least": round(min(times), 3)}
        row["tuples_per_second"] = round(1e3 * work.batch / middle, 1)
    return row


def _with_ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add ratios to the non-private variant, and the difference between reldp's and Opacus' sum."""
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
    """Return command, date, device and versions."""
    packages = {}
    for name in ("torch", "transformers", "peft", "opacus", "numpy"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = getattr(sys.modules.get(name), "__version__", None)
    gpu = torch.cuda.get_device_name() if device.type == "cuda" else None
    return {
        "command": shlex.join(["python", "-m", "benchmarks.step_time", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "clock": "wall" if gpu else "processor time of the process",
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "versions": packages,
    }


def show(row: dict[str, Any]) -> str:
    """Return a row as one readable line."""
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
    """Return the parsed command line."""
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
    """Return the workloads to measure."""
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
        if args.output:  # after each workload, so that an interrupted run leaves its results
            args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
