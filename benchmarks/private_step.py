"""A whole private step against stock PEFT training: same model, texts, batch and precision.

*private* is what `reldp.Trainer` runs in a step: draw a batch, gather tokens, forward and backward pass, clip, sum, add
secure noise, and the optimizer's step. *stock* is an ordinary training loop with the same PEFT model, loss and
optimizer, without sampling and noise: its tokens are on the device before the clock starts. It is timed with the
padding that the private step has (*stock*), and padded to the longest row of the batch as tokenizers do (*stock,
dynamic padding*). Weights are random, texts are those of a bundled graph.

    python -m benchmarks.private_step --suite h200 --tokenizer FOLDER -o private_step_h200.json
    python -m benchmarks.private_step --suite cpu --tokenizer FOLDER -o private_step_cpu.json
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.step_time import environment
from reldp import EntityGraph, PrivacyPlan, PrivateStep
from reldp.encoders.adaptation import Adaptation
from reldp.encoders.attention import use_short_attention
from reldp.encoders.loading import Pretrained
from reldp.encoders.saving import base_model
from reldp.encoders.text import TextEncoder
from reldp.noise import Streams, new_key
from reldp.training.config import PerformanceSettings

NEGATIVES = 4
BATCHES = 16  # of the stock loop, repeated


@dataclass(frozen=True, kw_only=True)
class Case:
    """Sizes and precision of one comparison.

    Attributes:
        shape: Model shape: minilm, bert-base, mpnet or llama-7b.
        batch: Expected batch size.
        precision: bf16 (weights and activations), autocast (bf16 products), tf32 or fp32.
        train: lora or full.
        rule: Clip units: tuple or pair.
        targets: Layers with adapters.
        length: Maximum number of tokens of a text.
    """

    shape: str = "minilm"
    batch: int = 64
    precision: str = "fp32"
    train: str = "lora"
    rule: str = "tuple"
    targets: str = "query-value"
    length: int = 32


SUITES = {
    "h200": [
        Case(shape="minilm", batch=64, precision="bf16"),
        Case(shape="minilm", batch=256, precision="bf16"),
        Case(shape="bert-base", batch=256, precision="bf16"),
        Case(shape="minilm", batch=64, precision="autocast"),
        Case(shape="minilm", batch=256, precision="autocast"),
        Case(shape="bert-base", batch=256, precision="autocast"),
        Case(shape="bert-base", batch=256, precision="tf32"),
        Case(shape="mpnet", batch=64, precision="bf16"),
        Case(shape="minilm", batch=64, precision="bf16", rule="pair"),
        Case(shape="bert-base", batch=256, precision="bf16", rule="pair"),
        Case(shape="bert-base", batch=256, precision="autocast", train="full"),
        Case(shape="bert-base", batch=256, precision="tf32", train="full"),
        Case(shape="minilm", batch=256, precision="bf16", targets="all-linear"),
        Case(shape="minilm", batch=64, precision="bf16", length=64),
        Case(shape="minilm", batch=256, precision="bf16", length=128),
        Case(shape="llama-7b", batch=32, precision="bf16"),
    ],
    "cpu": [
        Case(batch=16),
        Case(batch=16, targets="all-linear"),
        Case(batch=16, rule="pair"),
        Case(batch=4, train="full"),
    ],
}


def make_model(case: Case) -> nn.Module:
    """Return a model of the shape with random weights."""
    import transformers

    torch.manual_seed(0)
    sizes = {"minilm": (384, 6, 1536), "bert-base": (768, 12, 3072), "mpnet": (768, 12, 3072)}
    if case.shape.startswith("llama"):
        config: Any = transformers.LlamaConfig(
            num_hidden_layers=2 if case.shape == "llama-tiny" else 32, use_cache=False
        )
        kind: Any = transformers.LlamaModel
    else:
        family = "MPNet" if case.shape == "mpnet" else "Bert"
        width, layers, inner = sizes[case.shape]
        config = getattr(transformers, f"{family}Config")(
            vocab_size=30_527,
            hidden_size=width,
            num_hidden_layers=layers,
            intermediate_size=inner,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        kind = lambda c: getattr(transformers, f"{family}Model")(c, add_pooling_layer=False)  # noqa: E731
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16 if case.precision == "bf16" else torch.float32)
    try:
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            return kind(config).eval()
    finally:
        torch.set_default_dtype(before)


def make_encoder(case: Case, tokenizer: Any, device: str, *, short: bool) -> TextEncoder:
    """Return the encoder; the stock loop trains its PEFT model too."""
    encoder = TextEncoder(
        Pretrained(name=case.shape, model=make_model(case), tokenizer=tokenizer),
        Adaptation(train=case.train, lora_targets=case.targets if case.train == "lora" else None),
        max_length=case.length,
        pooling="mean",
        normalize=True,
    )
    encoder.to(device)
    if short:
        dtype = "bfloat16" if case.precision == "bf16" else "float32"
        model = base_model(encoder._text.backbone)
        use_short_attention(model, encoder.public_embeddings, max_length=case.length, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    for name, p in encoder.module.named_parameters():
        if "lora_B" in name:  # zeros would hide errors
            p.data.copy_(0.02 * torch.randn(p.shape, generator=generator))
    return encoder


class Private:
    """The private step."""

    def __init__(self, case: Case, graph: Any, tokenizer: Any, device: str) -> None:
        fits = device != "cpu" and case.precision in ("bf16", "autocast") and case.length <= 64
        fits = fits and case.shape != "mpnet"  # which has attention of its own
        self.encoder = make_encoder(case, tokenizer, device, short=fits)
        plan = PrivacyPlan.for_graph(
            graph,
            sizes="public",
            num_negatives=NEGATIVES,
            expected_batch_size=case.batch,
            num_steps=100_000,
            noise_multiplier=1.0,
            clipping=case.rule,
        )
        self.step = PrivateStep(
            self.encoder,
            graph,
            plan,
            loss="logistic" if case.rule == "pair" else None,
            performance=PerformanceSettings(
                device=device,
                precision="bfloat16" if case.precision == "autocast" else "float32",
                cuda_graphs=device != "cpu",
            ),
        )
        self.optimizer = torch.optim.AdamW(self.step.parameters.values(), lr=1e-4)
        start = time.perf_counter()
        self.step.open(Streams(new_key()))
        self.preparation = time.perf_counter() - start
        self.number = self.counted = self.computed = self.real = 0

    def run(self) -> None:
        """Take one step."""
        batch = self.step.draw(self.number)
        self.step.run(batch, self.number)
        self.optimizer.step()
        self.number += 1

    def count(self) -> None:
        """Count tokens that a step computes and tokens that its texts have."""
        self.counted += 1
        units = self.step.clip_units(self.step.draw(60_000 + self.counted))
        shapes = self.step._shapes
        rows = self.step._rows
        for _, shape in shapes.split(rows.longest(units.entities)):
            self.computed += shape.units * shapes.rows_per_unit * shape.length
        self.real += int(rows.tokens.lengths[units.entities].sum())


class Stock:
    """An ordinary loop over the same kind of batches."""

    def __init__(
        self, case: Case, private: Private, tokenizer: Any, device: str, dynamic: bool
    ) -> None:
        self.case, self.device = case, torch.device(device)
        self.encoder = make_encoder(case, tokenizer, device, short=False)
        self.encoder.module.train()
        self.parameters = [p for p in self.encoder.module.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4)
        self.batches = []
        self.computed = self.real = 0
        rows = private.step._rows
        for number in range(BATCHES):
            units = private.step.draw(50_000 + number)
            entities = np.concatenate([units.positives, units.negatives], 1)
            inputs = private.encoder.rows(private.step._rows.table, entities.reshape(-1))
            if not dynamic:
                # The longest text of a batch is nearly always cut, so this is the private step's length.
                missing = case.length - inputs["attention_mask"].shape[1]
                inputs = {k: nn.functional.pad(v, (0, missing)) for k, v in inputs.items()}
            self.computed += inputs["attention_mask"].numel()
            self.real += int(rows.tokens.lengths[entities].sum())
            mask = torch.ones(units.negatives.shape, dtype=torch.bool, device=self.device)
            self.batches.append((inputs, mask))
        self.number = 0

    def run(self) -> None:
        """Take one step."""
        inputs, mask = self.batches[self.number % len(self.batches)]
        self.number += 1
        self.optimizer.zero_grad(set_to_none=True)
        mixed = self.case.precision == "autocast"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            embeddings = self.encoder.embed(inputs)
        vectors = embeddings.float().view(len(mask), -1, embeddings.shape[-1])
        scores = vectors @ vectors.mT / 0.05  # (tuples, rows, rows)
        losses = _infonce(scores)
        (losses.sum() / self.case.batch).backward()
        self.optimizer.step()


def _infonce(scores: Tensor) -> Tensor:
    """Return InfoNCE of each tuple over its own pairs."""
    rows = scores.shape[-1]
    pairs = torch.triu_indices(rows, rows, 1, device=scores.device)
    return scores[:, pairs[0], pairs[1]].logsumexp(-1) - scores[:, 0, 1]


def timed(run: Callable[[], None], device: str, steps: int, warmup: int) -> list[float]:
    """Return milliseconds of each step."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    done = []
    for number in range(steps + warmup):
        if device != "cpu":
            torch.cuda.synchronize()
        start = clock()
        run()
        if device != "cpu":
            torch.cuda.synchronize()
        if number >= warmup:
            done.append(1e3 * (clock() - start))
    return done


def measure(case: Case, tokenizer: Any, device: str, steps: int, profile: bool) -> dict[str, Any]:
    """Return the row of one case."""
    torch.set_float32_matmul_precision("high" if case.precision == "tf32" else "highest")
    graph = EntityGraph.read("wordnet-verbs").cap_degrees(5, seed=0)
    row: dict[str, Any] = dict(asdict(case))
    private = Private(case, graph, tokenizer, device)
    row["layouts"] = {str(k): v for k, v in private.step._shapes.layouts.items()}
    row["preparation_s"] = round(private.preparation, 1)
    before = 0
    for name in ("private", "stock", "stock, dynamic padding"):
        if name != "private":
            job: Any = Stock(case, private, tokenizer, device, dynamic=name != "stock")
        else:
            job = private
            for _ in range(32):
                private.count()
        timed(job.run, device, BATCHES if device != "cpu" else 1, 0)  # kernels are chosen per shape
        if (
            device != "cpu"
        ):  # with what CUDA graphs keep for themselves, which counts as reserved only
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        times = timed(job.run, device, steps, 2)
        row[name] = {"ms": round(statistics.median(times), 3), "ms_least": round(min(times), 3)}
        row[name]["tokens_computed_per_real"] = round(job.computed / job.real, 3)
        if device != "cpu":
            row[name]["peak_mib"] = round((torch.cuda.max_memory_reserved() - before) / 2**20)
        if profile and name != "stock, dynamic padding":
            show_profile(job.run, f"{case.shape} {case.precision} {case.train} {name}")
        if name != "private":
            del job
        gc.collect()
        if (
            device != "cpu"
        ):  # the private step stays, to draw batches; its memory is not the stock loop's
            torch.cuda.empty_cache()
            before = torch.cuda.memory_reserved()
    for name in ("stock", "stock, dynamic padding"):
        row[f"time_ratio, {name}"] = round(row["private"]["ms"] / row[name]["ms"], 3)
    if device != "cpu":
        row["memory_ratio"] = round(row["private"]["peak_mib"] / row["stock"]["peak_mib"], 3)
    return row


def show_profile(run: Callable[[], None], title: str) -> None:
    """Print the kernels that take most of the time."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _ in range(3):
            run()
        torch.cuda.synchronize()
    print("PROFILE", title, "(3 steps)")
    print(
        seen.key_averages().table(
            sort_by="self_cuda_time_total", row_limit=22, max_name_column_width=70
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suite", choices=SUITES, default="cpu")
    parser.add_argument("--only", type=int, nargs="*", help="cases of the suite, from 0")
    parser.add_argument("--tokenizer", required=True, help="folder with a BERT tokenizer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    cases = SUITES[args.suite]
    rows = []
    for index in args.only or range(len(cases)):
        case = replace(cases[index])
        try:
            row = measure(case, tokenizer, args.device, args.steps, args.profile)
        except Exception as error:  # a case that fails is a row that says so
            import traceback

            traceback.print_exc()
            row = asdict(case) | {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(row), flush=True)
        rows.append(row)
        gc.collect()
        if args.output:
            facts = environment(torch.device(args.device)) | {"steps": args.steps}
            facts["command"] = facts["command"].replace("step_time", "private_step")
            args.output.write_text(json.dumps(facts | {"results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
