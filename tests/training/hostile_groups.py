"""Groups of which one process does something else; run as ``python -m tests.training.hostile_groups FOLDER``.

Each case has a control that passes, or shows that the attack is real once the check that refuses it is taken away.
"""

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from peft.tuners.tuners_utils import BaseTunerLayer

from reldp import evaluate
from reldp.errors import ReldpError
from reldp.noise import Streams
from reldp.runs import key
from reldp.runs.ledger import read_ledger
from reldp.training import PrivateStep, Trainer, distributed, guard, step
from reldp.training.callbacks import TrainingCallback
from reldp.training.config import PerformanceSettings
from tests.encoders.tiny import write_model
from tests.training.groups import SETTINGS, compute_costs, parts_of, run_group
from tests.training.small import make_step, small_parts


def refusal(work):
    """The error of some work; empty if there is none."""
    try:
        work()
    except ReldpError as error:
        return f"{type(error).__name__}: {error}"
    return ""


class Changes:
    """Changes of one process, by name, each with the way back."""

    def __init__(self, encoder, step):
        self.encoder, self.step = encoder, step
        self.named = dict(encoder.module.named_modules())
        self.lora = [m for m in self.named.values() if isinstance(m, BaseTunerLayer)]
        self.norm = next(m for m in self.named.values() if isinstance(m, torch.nn.LayerNorm))
        self.config = encoder._text.backbone.get_base_model().config
        self.table = step._rows.table

    def nothing(self):
        return lambda: None

    def frozen_data(self):
        """A write that torch does not count."""
        before = self.norm.weight.data.clone()
        self.norm.weight.data[3] = torch.nextafter(before[3], torch.tensor(9.0))
        return lambda: self.norm.weight.data.copy_(before)

    def merge(self):
        """Merged and unmerged adapters: the frozen weights are rounded."""
        before = [m.base_layer.weight.data.clone() for m in self.lora]
        for layer in self.lora:
            layer.merge()
            layer.unmerge()

        def back():
            for layer, weight in zip(self.lora, before, strict=True):
                layer.base_layer.weight.data.copy_(weight)

        return back

    def layout(self):
        """The same values in another order of memory, for which a product may use another kernel."""
        weight = self.lora[0].base_layer.weight
        before = weight.data
        weight.data = before.t().contiguous().t()

        def back():
            weight.data = before

        return back

    def dtype(self):
        module = next(m for m in self.named.values() if "position_ids" in m._buffers)
        before = module._buffers["position_ids"]
        module._buffers["position_ids"] = before.int()
        return lambda: module._buffers.update(position_ids=before)

    def buffer(self):
        module = next(m for m in self.named.values() if m._buffers)
        name = next(iter(module._buffers))
        before = module._buffers[name].clone()
        module._buffers[name].data.add_(1)
        return lambda: module._buffers[name].data.copy_(before)

    def scaling(self):
        layer = self.lora[0]
        layer.scaling["default"] *= 2
        return lambda: layer.scaling.update(default=layer.scaling["default"] / 2)

    def attention(self):
        before = self.config._attn_implementation
        self.config._attn_implementation_internal = "eager"
        return lambda: setattr(self.config, "_attn_implementation_internal", before)

    def rows(self):
        """Other tokens of an entity that no hash is taken of again."""
        ids = self.table.ids
        ids.setflags(write=True)
        before = ids.copy()
        ids[:] = np.roll(ids, 1)
        return lambda: np.copyto(ids, before)

    def shapes(self):
        before = self.step._shapes
        self.step._shapes = before.with_layout(8, "single")
        return lambda: setattr(self.step, "_shapes", before)

    def precision(self):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        return lambda: torch.set_float32_matmul_precision(before)

    def denormals(self):
        torch.set_flush_denormal(True)
        return lambda: torch.set_flush_denormal(False)

    def new_precision(self):
        """The same by another name, after which torch refuses to say what it is by the old one."""
        matmul = torch.backends.mkldnn.matmul
        before = matmul.fp32_precision
        matmul.fp32_precision = "bf16"
        return lambda: setattr(matmul, "fp32_precision", before)

    def unseen(self):
        """Another loss by the code of a step, which no comparison of states sees."""
        losses = self.step._losses
        self.step._losses = lambda microbatch: losses(microbatch) * (1 + 1e-6)
        return lambda: setattr(self.step, "_losses", losses)


STATES = (
    *("nothing", "frozen_data", "merge", "layout", "dtype", "buffer", "scaling", "attention"),
    *("rows", "shapes"),
)
ARITHMETIC = ("precision", "new_precision", "denormals")


def changed(rank, model):
    """What is said about each change of the last process; the change is taken back before the next one."""
    encoder, capped, plan, _ = parts_of("text", model)
    private = make_step(encoder, capped, plan, threads=1, microbatch_units=4)
    private.open(Streams(bytes(32)))
    private.run(private.draw(0), 0)
    with torch.no_grad():  # as after some training: of adapters of zero there is nothing to merge
        generator = torch.Generator().manual_seed(0)
        for parameter in private.parameters.values():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    changes, found = Changes(encoder, private), {}
    batch = private.draw(1)

    def said(name, work):
        back = getattr(changes, name)() if rank == 1 else lambda: None
        found[name] = refusal(work)
        back()

    def whole():
        private._check_again(1, 0)
        private.clipped_sum(private.clip_units(batch))

    for name in STATES:
        said(name, lambda: private.clipped_sum(private.clip_units(batch)))
    for name in ARITHMETIC:
        said(name, whole)
        found[f"{name} later"] = refusal(whole)
    back = changes.precision()
    found["precision everywhere"] = refusal(whole)
    back()
    said("unseen", lambda: distributed.check_end(private))
    found["nothing unseen"] = refusal(lambda: distributed.check_end(private))
    batch = private.draw(1)
    found["in the end"] = refusal(lambda: private.run(batch, 1))
    return found


def averaging(embeddings, batch):
    """A loss as in data-parallel training, with a detached mean over processes."""
    positive = (embeddings[:, 0] * embeddings[:, 1]).sum(-1)
    negative = (embeddings[:, 2:] * embeddings[:, :1]).sum(-1).masked_fill(batch.mask, 0.0)
    values = torch.nn.functional.softplus(negative.mean(1) - positive)
    mean = values.detach().clone()
    dist.all_reduce(mean)
    return values * (mean / dist.get_world_size())


def talking(rank, units):
    """A loss that talks to other processes, with fewer and fewer checks in its way."""
    from reldp.processes import join_processes

    join_processes()
    settings = PerformanceSettings(threads=1, microbatch_units=units)
    private = PrivateStep(*small_parts(), loss=averaging, performance=settings)
    found = {"at the start": refusal(lambda: private.open(Streams(bytes(32))))}
    guard.refuse_messages = lambda *args, **settings: None
    found["on public rows"] = refusal(lambda: private.open(Streams(bytes(32))))
    distributed.BatchShares.check_contributions = lambda *args, **settings: None
    private._guard.forget()
    private.open(Streams(bytes(32)))
    number = next(n for n in range(12) if len(parts(private, n)) % 2 == 0)
    units = private.clip_units(private.draw(number))
    found["in a batch"] = refusal(lambda: private.clipped_sum(units))
    step.same_messages = nullcontext
    capacity = max(1, private._shapes.units - 1)
    order = np.arange(units.num_units).reshape(-1)
    second, fourth = (slice(n * capacity, (n + 1) * capacity) for n in (1, 3))
    order[second], order[fourth] = order[fourth].copy(), order[second].copy()  # both of rank 1
    one, other = (private.clipped_sum(taken) for taken in (units, units.take(order)))
    found["norms"] = [clipped.norms[:capacity].tolist() for clipped in (one, other)]
    return found


def parts(private, number):
    units = private.clip_units(private.draw(number))
    return private._shapes.split(private._rows.longest(units.entities))


class Evaluates(TrainingCallback):
    """Evaluates in the first process only."""

    def __init__(self, work):
        self._work = work

    def on_step_end(self, progress, requests):
        self._work()


def evaluating(rank, folder):
    encoder, capped, plan = small_parts()
    work = (lambda: evaluate(encoder, capped, candidates=20, resamples=10)) if rank == 0 else int
    Trainer(encoder, capped, plan, callbacks=[Evaluates(work)], **SETTINGS).fit(folder)


class Stops(TrainingCallback):
    def on_step_end(self, progress, requests):
        requests.stop = progress.step >= 2


def resized(rank, folder, kind, stops):
    """A run that is stopped after a step, or resumed."""
    encoder, capped, plan, settings = parts_of(kind, None)
    callbacks = [Stops()] if stops else []
    fitted = Trainer(encoder, capped, plan, callbacks=callbacks, **SETTINGS, **settings).fit(folder)
    record = read_ledger(Path(folder) / "ledger.jsonl")
    return {"branches": len(record.branches), "steps": fitted.certificate.values["steps"]}


def main(home):
    torch.set_num_threads(1)
    key.new_key = lambda: bytes(range(32))
    model = write_model("bert", home / "bert")
    for kind in ("large", "features"):
        compute_costs(parts_of(kind, None)[2])
    compute_costs(small_parts()[2])
    found = {"changed": run_group(2, changed, model)}
    found["talking"] = {str(units): run_group(2, talking, units) for units in (1, 4)}
    began = time.monotonic()
    found["evaluating"] = run_group(2, evaluating, home / "evaluating")
    found["seconds"] = time.monotonic() - began
    found["resized"] = {}
    for kind in ("large", "features"):
        run_group(1, resized, home / kind, kind, True)
        found["resized"][kind] = run_group(2, resized, home / kind, kind, False)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
