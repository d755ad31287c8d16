"""Secure Gaussian noise: draws per second on one core, and what prefetching it costs a step.

First the draws alone: uniform words, whole draws on the caller's thread, share of draws that needed
refining, and numpy's own (not cryptographic) generator for comparison. Then, on a GPU, the time of
a training step for 4.2 million parameters (LoRA of rank 8 on the queries and values of a
Llama-2-7B) without noise, with prefetched secure noise and with the device's own generator, taking
turns. The step is a forward and backward pass of that shape: random weights, bfloat16, 32 tuples of
6 rows of 32 tokens. One run:

    python benchmarks/noise.py -o benchmarks/results/noise.json
    python benchmarks/noise.py --device cuda -o benchmarks/results/noise-h200.json
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reldp.noise import GaussianNoise, Streams, add_noise, new_key, rounded

PARAMETERS = 4_194_304
LAYERS, WIDTH, HIDDEN, HEADS, RANK = 32, 4096, 11008, 32, 8
TUPLES, ROWS, TOKENS = 32, 6, 32
LIMIT_SLOWDOWN = 0.03


def best_seconds(call: Callable[[], Any], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def draws_alone() -> dict[str, float]:
    streams = Streams(new_key())
    noise = GaussianNoise(streams, prefetch=0)
    words = streams.stream("benchmark", 0, 0)
    generator = np.random.Generator(np.random.Philox(1))
    asked = []
    pairs = streams.stream("benchmark", 0, 1).uint64(PARAMETERS)
    rounded.rounded_normals(pairs, lambda pair: (asked.append(pair), [0] * 6)[1])
    seconds = best_seconds(lambda: noise.draw(0, 0, PARAMETERS))
    return {
        "million_words_per_second": PARAMETERS
        / best_seconds(lambda: words.uint64(PARAMETERS))
        / 1e6,
        "million_draws_per_second": PARAMETERS / seconds / 1e6,
        "milliseconds_for_4.2_million": seconds * 1e3,
        "refined_per_million": len(asked) / PARAMETERS * 1e6,
        "numpy_philox_million_per_second": PARAMETERS
        / best_seconds(lambda: generator.standard_normal(PARAMETERS))
        / 1e6,
        "largest_error_over_margin": rounded.check_arithmetic(),
    }


class Layer(torch.nn.Module):
    """A Llama layer without norms: frozen weights, LoRA on queries and values."""

    def __init__(self) -> None:
        super().__init__()

        def frozen(rows: int, columns: int) -> torch.nn.Parameter:
            weight = torch.randn(rows, columns, dtype=torch.bfloat16) / columns**0.5
            return torch.nn.Parameter(weight, requires_grad=False)

        self.attention = torch.nn.ParameterList([frozen(WIDTH, WIDTH) for _ in range(4)])
        self.up, self.gate = frozen(HIDDEN, WIDTH), frozen(HIDDEN, WIDTH)
        self.down = frozen(WIDTH, HIDDEN)
        self.lora = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.randn(*shape) * 0.01) for shape in 2 * LORA_SHAPES]
        )

    def adapted(self, x: torch.Tensor, which: int) -> torch.Tensor:
        """Return queries (0) or values (1)."""
        down, up = (p.to(x.dtype) for p in self.lora[2 * which : 2 * which + 2])
        return x @ self.attention[2 * which].T + x @ down.T @ up.T

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, tokens, width) to the same."""
        rows, tokens, _ = x.shape
        parts = [self.adapted(x, 0), x @ self.attention[1].T, self.adapted(x, 1)]
        heads = [part.view(rows, tokens, HEADS, -1).transpose(1, 2) for part in parts]
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads)
        x = x + mixed.transpose(1, 2).reshape(rows, tokens, WIDTH) @ self.attention[3].T
        return x + (torch.nn.functional.silu(x @ self.gate.T) * (x @ self.up.T)) @ self.down.T


LORA_SHAPES = ((RANK, WIDTH), (WIDTH, RANK))


def gpu_step(device: str) -> Callable[[], torch.Tensor]:
    """One forward and backward pass; returns the gradient as one float64 vector."""
    with torch.device(device):
        model = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
        rows = torch.randn(TUPLES * ROWS, TOKENS, WIDTH, dtype=torch.bfloat16)
    adapters = [p for p in model.parameters() if p.requires_grad]
    assert sum(p.numel() for p in adapters) == PARAMETERS

    def step() -> torch.Tensor:
        loss = model(rows).float().square().mean()
        gradients = torch.autograd.grad(loss, adapters)
        return torch.cat([g.reshape(-1) for g in gradients]).double()

    return step


def page_locked(size: int) -> np.ndarray:
    return torch.empty(size, dtype=torch.float64, pin_memory=True).numpy()


def prefetched_steps(device: str, rounds: int, steps: int) -> dict[str, Any]:
    """Median milliseconds per step of each variant, the variants taking turns."""
    step = gpu_step(device)
    streams = Streams(new_key())
    noise = GaussianNoise(streams, allocate=page_locked)
    quick = GaussianNoise(streams, "fast", allocate=page_locked)

    def noisy(source: GaussianNoise, number: int) -> torch.Tensor:
        total = step()
        drawn = torch.from_numpy(source.draw(number, 0, PARAMETERS)).to(device, non_blocking=True)
        return add_noise(total, drawn, standard_deviation=1.0)

    variants = {
        "none": lambda number: step(),
        "secure": lambda number: noisy(noise, number),
        "fast": lambda number: noisy(quick, number),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(rounds + 1):
        for name, call in variants.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for number in range(turn * steps, (turn + 1) * steps):
                weights = call(number)
            weights[0].item()  # waits for the device
            times[name].append((time.perf_counter() - start) / steps * 1e3)
    noise.close()
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    slowdown = medians["secure"] / medians["none"] - 1
    return {
        "milliseconds_per_step": {name: round(value, 2) for name, value in medians.items()},
        "slowdown_of_secure": round(slowdown, 4),
        "limit": LIMIT_SLOWDOWN,
        "within_limit": slowdown < LIMIT_SLOWDOWN,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="steps per turn")
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    name = platform.machine()
    if arguments.device != "cpu":
        name = torch.cuda.get_device_name()
    result = {
        "command": f"python benchmarks/noise.py --device {arguments.device}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "machine": name,
        "parameters": PARAMETERS,
        "draws": {key: round(value, 3) for key, value in draws_alone().items()},
    }
    if arguments.device != "cpu":
        result["steps"] = prefetched_steps(arguments.device, arguments.rounds, arguments.steps)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
