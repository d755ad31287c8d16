"""Step time against the number of processes, the share of it that is communication, and a model for more GPUs.

Measure on this machine, or on one with a GPU; each command writes one JSON object:

    OMP_NUM_THREADS=1 python -m benchmarks.distributed -o distributed-cpu-1.json
    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 -m benchmarks.distributed -o distributed-cpu-2.json
    python -m benchmarks.distributed --device cuda --batch 256 -o distributed-h200-1.json
    python -m benchmarks.distributed --device cuda --batch 256 --group -o distributed-h200-nccl.json
    python -m benchmarks.distributed --parts --device cuda -o distributed-h200-parts.json
    python -m benchmarks.distributed --predict step_time_h200.json --measured distributed-h200-parts.json -o model.json

``--group`` sends all messages of a step through a process group of one process: what the comparison of the
processes and the calls of NCCL cost. ``--parts`` measures the comparison of the weights of a 7B shape.

The model has no measurement of several GPUs in it: compute, noise and the comparison of weights were measured on one
H200, and bandwidth and latency are the arguments ``--bandwidth`` and ``--latency``.
"""

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import reldp.processes
from reldp import EntityGraph, PrivacyPlan, PrivateStep, TextEncoder
from reldp.noise import Streams
from reldp.processes import Processes, bit_witness, join_processes

WORDS = (
    "red",
    "blue",
    "cat",
    "dog",
    "house",
    "tree",
    "river",
    "stone",
    "bird",
    "cloud",
    "rain",
    "road",
)
_STATISTICS = 4  # floats per unit, beside the sum
_MESSAGES = 10  # small messages of a step: flags, comparisons, and what each message is about
# Weights of the models that were measured, and the rate at which a GPU compares them unless it was measured: bytes per
# second.
WEIGHTS = {"bert-base": 109_482_240, "llama-7b": 6_607_343_616}
ASSUMED_RATE = 4e11


class Watched:
    """Time and bytes of all messages between processes."""

    def __init__(self) -> None:
        self.seconds = self.bytes = 0.0
        for name in ("sum", "all_equal", "any"):
            self._watch(name)

    def _watch(self, name: str) -> None:
        run = getattr(Processes, name)

        def watched(processes: Processes, *values: Any, **words: Any) -> Any:
            began = time.perf_counter()
            result = run(processes, *values, **words)
            self.seconds += time.perf_counter() - began
            if not processes.is_alone:
                self.bytes += values[0].nbytes if name == "sum" else 16
            return result

        setattr(Processes, name, watched)


class GroupOfOne(Processes):
    """One process that sends all messages to itself."""

    @property
    def is_alone(self) -> bool:
        """Whether messages may be left out: never, here."""
        return False


def force_group(device: str) -> None:
    """Let this process use a process group of its own, as several would."""
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    store = dist.HashStore()
    dist.init_process_group(backend, store=store, rank=0, world_size=1)
    reldp.processes._joined = GroupOfOne(0, 1, dist.new_group(backend="gloo"), store)


def measure_parts(device: str) -> dict[str, Any]:
    """Return the time in which all weights are compared: of a 7B shape in bfloat16 on a GPU, of MiniLM on a CPU."""
    on_gpu = device == "cuda"
    hidden, inner, layers, words = (4096, 11008, 32, 32000) if on_gpu else (384, 1536, 6, 30522)
    kind = torch.bfloat16 if on_gpu else torch.float32
    shapes = [(words, hidden)]
    for _ in range(layers):
        shapes += [(hidden, hidden)] * 4 + [(inner, hidden)] * (3 if on_gpu else 2)
    weights = [torch.full(shape, 0.5, dtype=kind, device=device) for shape in shapes]
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        torch.stack([bit_witness(weight) for weight in weights]).tolist()
        seconds.append(time.perf_counter() - began)
    size = sum(weight.nbytes for weight in weights)
    force_group(device)
    message = torch.zeros(4_194_304, dtype=torch.int64, device=device)
    return {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "weights_bytes": size,
        "comparison_seconds": statistics.median(seconds[1:]),
        "comparison_bytes_per_second": size / statistics.median(seconds[1:]),
        "own_sum_of_4m_parameters_seconds": _median_time(lambda: join_processes().sum(message)),
        "own_small_message_seconds": _median_time(lambda: join_processes().any(False)),
        "peak_extra_bytes": torch.cuda.max_memory_allocated() - size if on_gpu else None,
        "load_average": os.getloadavg()[0],
    }


def _median_time(work: Any) -> float:
    times = []
    for _ in range(30):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times[5:])


def write_model(folder: Path) -> None:
    """Write a model of MiniLM's shape with random weights, and a tokenizer of letters."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokens = [*special, *letters, *("##" + letter for letter in letters), *WORDS]
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
    BertModel(BertConfig(**sizes, vocab_size=len(tokens))).save_pretrained(folder)
    known = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def make_step(folder: Path, batch: float, device: str, steps: int) -> PrivateStep:
    """Return the step of a plan on a ring of short texts."""
    generator = np.random.default_rng(0)
    count = 4000
    texts = [" ".join(generator.choice(WORDS, 4 + i % 12)) for i in range(count)]
    ring = [(i, (i + 1) % count) for i in range(count)]
    capped = EntityGraph.from_lists(range(count), ring, text=texts).promise_degrees(2)
    plan = PrivacyPlan.for_graph(
        capped,
        sizes="public",
        num_negatives=4,
        expected_batch_size=batch,
        num_steps=steps,
        noise_multiplier=1.0,
    )
    encoder = TextEncoder.load(folder, lora_rank=8, max_length=16, device=device)
    return PrivateStep(encoder, capped, plan)


def measure(batch: float, steps: int, device: str) -> dict[str, Any]:
    """Return medians over some steps, the first two left out."""
    processes = join_processes()
    small_message = _median_time(lambda: processes.any(False))
    watched = Watched()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(processes.from_first(home.encode).decode())
        if processes.is_first:
            write_model(folder)
        processes.wait()
        step = make_step(folder, batch, device, steps + 2)
        processes.wait()
    step.open(Streams(bytes(32)))
    optimizer = torch.optim.Adam(step.parameters.values())
    wall, busy, waited, sent = [], [], [], []
    for number in range(steps + 2):
        watched.seconds = watched.bytes = 0.0
        began, used = time.perf_counter(), time.process_time()
        step.run(step.draw(number), number)
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        wall.append(time.perf_counter() - began)
        busy.append(time.process_time() - used)
        waited.append(watched.seconds)
        sent.append(watched.bytes)
    step.close()
    chosen = slice(2, None)
    return {
        "processes": processes.size,
        "device": device,
        "batch": batch,
        "parameters": sum(p.numel() for p in step.parameters.values()),
        "seconds_per_step": statistics.median(wall[chosen]),
        "processor_seconds_per_step": statistics.median(busy[chosen]),
        "share_of_communication": sum(waited[chosen]) / sum(wall[chosen]),
        "message_bytes_per_step": int(statistics.median(sent[chosen])),
        "small_message_seconds": small_message,
        "load_average": os.getloadavg()[0],
    }


def predict(
    row: dict[str, Any],
    noise: float,
    gpus: int,
    batch: int,
    bandwidth: float,
    latency: float,
    rate: float,
) -> dict[str, float]:
    """Return step time of one workload on some GPUs, for a total batch.

    compute: the measured time per tuple, for one microbatch per GPU with room for all but one in forty batches;
    noise: drawn in the background on the CPU, so it costs time only beyond compute;
    comparison: of all weights in every step, with several processes;
    communication: a ring sends 2 (N - 1) / N of the bytes and 2 (N - 1) messages, for each of two sums; small
    messages between CPUs take 5 latencies per doubling of N.
    """
    message = 8 * row["parameters"] + 8 * _STATISTICS * 8 * (batch + 100)
    units = math.ceil((batch + 2 * math.sqrt(batch)) / gpus) + 1  # one is padding
    compute = row["ms_per_step"] / 1e3 / row["batch"] * units
    rounds = 2 * (gpus - 1)
    sending = rounds / gpus * message / bandwidth + 2 * rounds * latency
    sending += _MESSAGES * 5 * latency * math.ceil(math.log2(gpus))
    size = WEIGHTS[row["shape"]] * (2 if row["shape"] == "llama-7b" else 4)
    comparing = size / rate if gpus > 1 else 0.0
    return {
        "gpus": gpus,
        "units_per_gpu": units,
        "compute_seconds": compute,
        "comparison_seconds": comparing,
        "communication_seconds": sending,
        "message_bytes": message,
        "seconds_per_step": max(compute, noise) + comparing + sending,
    }


def predictions(path: Path, bandwidth: float, latency: float, rate: float) -> list[dict[str, Any]]:
    """Return the model's numbers for all LoRA workloads that were measured with tuple clipping."""
    results = json.loads(path.read_text())["results"]
    draws = json.loads(path.with_name("noise-h200.json").read_text())["draws"]
    rows = []
    for row in results:
        if row["variant"] != "tuple" or row["train"] != "lora" or row["compile"]:
            continue
        noise = row["parameters"] / (draws["million_draws_per_second"] * 1e6)
        for batch in (256, 2048):
            times = [predict(row, noise, n, batch, bandwidth, latency, rate) for n in (1, 2, 8, 64)]
            for time_on_gpus in times:
                speedup = times[0]["seconds_per_step"] / time_on_gpus["seconds_per_step"]
                time_on_gpus["efficiency"] = speedup / time_on_gpus["gpus"]
            names = ("shape", "precision", "parameters")
            rows.append(
                {**{name: row[name] for name in names}, "batch": batch, "noise_seconds": noise}
                | {"predictions": times}
            )
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=float, default=64.0, help="Expected batch size.")
    parser.add_argument("--steps", type=int, default=10, help="Steps that are measured.")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--predict", type=Path, help="Results of benchmarks.step_time on one GPU.")
    parser.add_argument("--bandwidth", type=float, default=40e9, help="Bytes per second and GPU.")
    parser.add_argument(
        "--latency", type=float, default=1e-5, help="Seconds per message of a ring."
    )
    parser.add_argument("--group", action="store_true", help="Use a process group of one process.")
    parser.add_argument("--parts", action="store_true", help="Measure the comparison of weights.")
    parser.add_argument("--measured", type=Path, help="Results of --parts, for --predict.")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args(arguments)
    command = "python -m benchmarks.distributed " + " ".join(arguments or sys.argv[1:])
    facts: dict[str, Any] = {
        "command": command,
        "date": datetime.now(UTC).isoformat("T", "seconds"),
    }
    facts["versions"] = {"python": platform.python_version(), "torch": torch.__version__}
    if args.predict:
        rate = ASSUMED_RATE
        if args.measured:
            rate = json.loads(args.measured.read_text())["comparison_bytes_per_second"]
        facts |= {"bandwidth": args.bandwidth, "latency": args.latency}
        facts |= {"comparison_bytes_per_second": rate, "comparison_measured": bool(args.measured)}
        facts["workloads"] = predictions(args.predict, args.bandwidth, args.latency, rate)
    elif args.parts:
        facts |= measure_parts(args.device)
    else:
        if args.group:
            force_group(args.device)
            facts["group"] = "one process that sends all messages to itself"
        facts |= measure(args.batch, args.steps, args.device)
        if not join_processes().is_first:
            return
    text = json.dumps(facts, indent=1) + "\n"
    print(text, end="")
    if args.output:
        args.output.write_text(text)


if __name__ == "__main__":
    main()
