"""One process of several that share one GPU, under gloo; run as ``python -m tests.training.gpu_groups MODEL FOLDER``.

NCCL refuses two processes on one GPU, so this tries everything but NCCL: sums of tensors on a GPU, the comparison of
weights there, and a run. ``RANK`` and ``WORLD_SIZE`` say which process this is. Prints one JSON object.
"""

import json
import os
import sys

import torch
import torch.distributed as dist

from reldp.encoders import TextEncoder
from reldp.encoders.folders import state_hash
from reldp.errors import ReldpError
from reldp.runs import key
from reldp.training import Trainer
from reldp.training.callbacks import TrainingCallback
from tests.training.groups import text_graph
from tests.training.small import small_plan


class Rounds(TrainingCallback):
    """Rounds a frozen weight on the GPU, as merging and unmerging adapters does."""

    _runs_code_from_outside = False  # the trainer does not look at the weights: the processes must

    def __init__(self, weight):
        self._weight = weight

    def on_step_end(self, progress, requests):
        self._weight.data[0, 0] += 2.0**-12


def train(model, folder, *, changes):
    encoder = TextEncoder.load(model, lora_rank=2, max_length=8, dtype="bfloat16")
    capped = text_graph().promise_degrees(2)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=12.0, num_steps=6)
    frozen = next(p for p in encoder.module.parameters() if not p.requires_grad and p.dim() == 2)
    callbacks = [Rounds(frozen)] if changes else []
    device = os.environ.get("DEVICE", "cuda")
    settings = {"device": device, "microbatch_units": 4, "checkpoint_activations": True}
    result = Trainer(encoder, capped, plan, callbacks=callbacks, **settings).fit(folder)
    return result, encoder


def main(model, folder):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    key.new_key = lambda: bytes(range(32))
    if size > 1:
        dist.init_process_group("gloo")
    result, encoder = train(model, f"{folder}/run", changes=False)
    found = {
        "steps": result.certificate.values["steps"],
        "hash": state_hash(encoder.trainable()),
        "weights": [value.flatten().tolist() for value in encoder.trainable().values()],
    }
    try:
        train(model, f"{folder}/changed", changes=rank == 1)
        found["refusal"] = ""
    except ReldpError as error:
        found["refusal"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
