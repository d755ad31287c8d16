"""Processes that hold a part of the frozen weights each; run as ``python -m tests.training.sharded_groups FOLDER``."""

import json
import sys
import tempfile
from pathlib import Path

import torch

from reldp import evaluate
from reldp.encoders import TextEncoder
from reldp.encoders.folders import state_hash
from reldp.errors import InputError
from reldp.processes import join_processes
from reldp.runs import key
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback
from tests.encoders.tiny import write_model
from tests.training.groups import compute_costs, run_group, text_graph
from tests.training.hostile_groups import averaging
from tests.training.small import small_plan

SHARDED = (
    (1, {}),
    (2, {"shard_weights": True}),
    (3, {"shard_weights": True, "checkpoint_activations": True}),
    (1, {"checkpoint_activations": True}),
)


def parts(model, **settings):
    capped = text_graph().promise_degrees(2)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=12.0, num_steps=4)
    return TextEncoder.load(model, max_length=8, **settings), capped, plan


def sharded(rank, model, folder, settings):
    """Train a tiny Llama; return the released weights, and how much of the model the process held meanwhile."""
    encoder, capped, plan = parts(model, lora_rank=2)
    held, refusals = [], []

    class Watch(TrainingCallback):
        """Look at the weights during training, and try to use the encoder."""

        def on_step_end(self, progress, requests):
            local = (getattr(p, "_local_tensor", p) for p in encoder.module.parameters())
            held.append(sum(part.numel() for part in local))
            try:
                evaluate(encoder, capped, candidates=20, resamples=10)
            except InputError as error:
                refusals.append(str(error))

    settings = {"threads": 1, "microbatch_units": 4, **settings}
    result = Trainer(encoder, capped, plan, callbacks=[Watch()], **settings).fit(folder)
    named = dict(encoder.module.named_parameters())
    return {
        "weights": [value.tolist() for value in encoder.trainable().values()],
        "share": held[0] / sum(p.numel() for p in named.values()),
        "frozen": state_hash({name: p for name, p in named.items() if not p.requires_grad}),
        "files": result.certificate.values["model"]["files"],
        "encoded": result.encoder.encode(["the red cat"]).tolist(),
        "refusals": refusals,
    }


def refused(rank, model, kind, **settings):
    join_processes()
    folder = Path(tempfile.mkdtemp()) / "run"
    try:
        Trainer(*parts(model, train=kind), shard_weights=True, **settings).fit(folder)
    finally:
        assert not folder.exists()


def main(home):
    torch.set_num_threads(1)
    key.new_key = lambda: bytes(range(32))
    llama = write_model("llama", home / "llama")
    compute_costs(parts(llama)[2])
    found = {
        "sharded": [
            run_group(size, sharded, llama, home / f"sharded-{index}", settings)
            for index, (size, settings) in enumerate(SHARDED)
        ],
        "refused": {kind: run_group(2, refused, llama, kind) for kind in ("full", "head")},
    }
    found["refused"]["loss"] = run_group(2, refused, llama, "lora", loss=averaging)
    found["refused"]["alone"] = run_group(1, refused, llama, "lora")
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
