"""Whether bits depend on a unit's place, on this machine: shapes that do, layouts that are found, their cost.

Three parts. *Shapes*: a linear layer's rows, one unit at all places, forward and input gradient, by one
product over all rows and by a product per unit. *Steps*: the layouts that a step finds for encoders of
several kinds and precisions, how long finding them takes, and by how much the other units move when one
leaves a batch (sums are exact, so nothing but 0 is right). *Cost*: seconds of a step in each layout.

    python -m benchmarks.locality --device cuda -o benchmarks/results/locality/h200.json
"""

import argparse
import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

import reldp
from reldp import EntityGraph, PrivacyPlan, PrivateStep
from reldp.clipping import ClipUnits
from reldp.encoders import Encoder, FeatureEncoder, TextEncoder
from reldp.gradients.microbatches import LAYOUTS
from reldp.gradients.products import linear, matmul
from reldp.noise import Streams
from reldp.training.config import PerformanceSettings

COUNT = 400
# A tokenizer that knows no common word is refused.
COMMON = ("a", "the", "and", "or", "in", "over", "under", "red", "blue", "big", "small", "house")
COMMON += ("tree", "dog", "cat", "water", "day", "man", "woman", "time", "year", "city")
WIDTHS = [*range(1, 41), 64, 65, 128, 384]
OUTPUTS = [*range(1, 12), 16, 33, 64, 384]


def shape_counts(device: str, dtype: torch.dtype) -> dict[str, Any]:
    """How many shapes of linear layers have rows whose bits depend on their place."""
    generator = torch.Generator().manual_seed(0)
    counts: dict[str, Any] = {"shapes": 0, "rows": 0, "apart": 0}
    for units, rows in ((3, 3), (5, 6), (17, 3), (81, 6)):
        for width in WIDTHS:
            for out in OUTPUTS:
                weight = torch.randn((out, width), generator=generator).to(device, dtype)
                unit = torch.randn((rows, width), generator=generator).to(device, dtype)
                grad = torch.randn((rows, out), generator=generator).to(device, dtype)
                x, g = unit.repeat(units, 1), grad.repeat(units, 1)
                counts["shapes"] += 1
                for name in ("rows", "apart"):
                    apart = name == "apart"
                    results = (
                        linear(x, weight, None, units, apart),
                        matmul(g, weight, units, apart),
                    )
                    by_unit = [value.reshape(units, -1) for value in results]
                    counts[name] += any(not torch.equal(v, v[:1].expand_as(v)) for v in by_unit)
    return counts


def text_encoder(folder: Path, **settings: Any) -> Encoder:
    """Return a BERT of MiniLM's sizes with random weights, and a small vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    if not folder.exists():
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        words = [*special, *COMMON, *(f"w{i}" for i in range(3000))]
        tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, "[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        wrapped = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=128
        )
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=384,
            num_hidden_layers=6,
            num_attention_heads=12,
            intermediate_size=1536,
            max_position_embeddings=128,
        )
        BertModel(config).save_pretrained(folder)
        wrapped.save_pretrained(folder)
    return TextEncoder.load(folder, max_length=64, **settings)


def graph(text: bool, width: int) -> Any:
    """Return a ring of entities."""
    generator = np.random.default_rng(0)
    ring = [(i, (i + 1) % COUNT) for i in range(COUNT)]
    if not text:
        features = generator.normal(size=(COUNT, width)).astype(np.float32)
        return EntityGraph.from_lists(list(range(COUNT)), ring, features=features)
    texts = [
        " ".join(f"w{i}" for i in generator.integers(0, 3000, generator.integers(2, 60)))
        for _ in range(COUNT)
    ]
    return EntityGraph.from_lists(list(range(COUNT)), ring, text=texts)


def opened(encoder: Encoder, data: Any, device: str, **settings: Any) -> tuple[PrivateStep, float]:
    """Return a step, and the seconds that its check took."""
    capped = data.promise_degrees(2)
    plan = PrivacyPlan.for_graph(
        capped,
        num_negatives=4,
        expected_batch_size=32.0,
        num_steps=10,
        noise_multiplier=1.0,
        delta=1e-4,
        sizes="public",
    )
    encoder.to(device)
    performance = PerformanceSettings(device=device, **settings)
    step = PrivateStep(encoder, capped, plan, performance=performance)
    started = time.perf_counter()
    step.open(Streams(bytes(range(32))))
    return step, time.perf_counter() - started


def others_move(step: PrivateStep, units: ClipUnits, leave: int = 6) -> float:
    """Return the largest move of all other units' share, in grid steps, as one unit leaves."""

    def total(places: Any) -> torch.Tensor:
        names = ("entities", "endpoints", "mask", "thresholds", "tuple_index")
        some = ClipUnits(**{name: getattr(units, name)[places] for name in names})
        return step.clipped_sum(some).total

    places = np.arange(units.num_units)
    whole, worst = total(places), 0.0
    for place in places[:: max(1, len(places) // leave)]:
        rest, alone = total(np.delete(places, place)), total(places[place : place + 1])
        worst = max(worst, float((whole - rest - alone).abs().max()))
    return worst


def seconds(step: PrivateStep, repeats: int = 5) -> float:
    """Return the median seconds of a step."""
    times = []
    for number in range(repeats + 1):
        batch = step.draw(number, 0)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        started = time.perf_counter()
        step.run(batch, number, 0)
        next(iter(step.parameters.values())).grad.sum().item()
        times.append(time.perf_counter() - started)
    return float(np.median(times[1:]))


@contextmanager
def products(precision: str) -> Iterator[None]:
    """TF32 products, where asked for."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    yield
    torch.set_float32_matmul_precision(before)


def cases(device: str, folder: Path) -> Iterator[tuple[str, Encoder, Any, str, dict[str, Any]]]:
    """Name, encoder, graph, precision and settings."""
    for widths in ((7, 5), (33, 8), (9, 1), (384, 384)):
        encoder = FeatureEncoder(widths[0], dim=widths[1], bias=False)
        yield (
            f"features {widths[0]} to {widths[1]}",
            encoder,
            graph(False, widths[0]),
            "float32",
            {},
        )
    kinds = ["float32", "bfloat16"] + (["tf32"] if device != "cpu" else [])
    for train in ("lora", "full", "head"):
        for precision in kinds if train == "lora" else kinds[:1]:
            settings = {} if precision == "tf32" else {"precision": precision}
            encoder = text_encoder(folder, train=train)
            yield f"BERT of MiniLM's sizes, {train}", encoder, graph(True, 0), precision, settings
    if device != "cpu":
        encoder = text_encoder(folder, train="lora")
        yield "BERT, lora, CUDA graphs", encoder, graph(True, 0), "float32", {"cuda_graphs": True}


def measured(device: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the result of every case."""
    for name, encoder, data, precision, settings in cases(device, folder):
        with products(precision):
            step, check = opened(encoder, data, device, **settings)
            row: dict[str, Any] = {
                "case": name,
                "precision": precision,
                "layouts": {str(k): v for k, v in step._shapes.layouts.items()},
                "check_seconds": round(check, 3),
                "others_move_in_grid_steps": others_move(step, step.clip_units(step.draw(1))),
                "margin": step._margin,
                "step_seconds": {},
            }
            chosen = step._shapes
            for layout in LAYOUTS:
                if layout != "rows" and ("full" in name or settings.get("cuda_graphs")):
                    continue
                for length in chosen.lengths():
                    step._shapes = step._shapes.with_layout(length, layout)
                step.open(Streams(bytes(range(32))))  # streams serve every step once
                row["step_seconds"][layout] = round(seconds(step), 5)
            step.close()
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", type=Path, default=Path("/tmp/reldp-locality-model"))
    parser.add_argument("-o", "--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    device = arguments.device
    kinds = [torch.float32, torch.bfloat16]
    result = {
        "command": f"python -m benchmarks.locality --device {device}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"reldp": reldp.__version__, "torch": torch.__version__},
        "machine": torch.cuda.get_device_name() if device != "cpu" else platform.machine(),
        "threads": torch.get_num_threads(),
        "shapes": {str(d).removeprefix("torch."): shape_counts(device, d) for d in kinds},
        "steps": [],
    }
    for row in measured(device, arguments.model):
        result["steps"].append(row)
        print(json.dumps(row), flush=True)
    text = json.dumps(result, indent=2)
    print(json.dumps(result["shapes"]))
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
