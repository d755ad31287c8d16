"""Groups of processes that train together under gloo, forked from one process that has imported everything.

Run as ``python -m tests.training.groups FOLDER``: prints one JSON object with what every process of every case found.
``run_group`` starts one group.
"""

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from reldp import evaluate
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.encoders.embedding_file import write_embeddings
from reldp.encoders.folders import state_hash
from reldp.encoders.shared_encoding import encode_together
from reldp.errors import ReldpError
from reldp.graph import EntityGraph
from reldp.graph.holdout import Holdout
from reldp.losses import HingeLoss, InfoNCELoss
from reldp.noise import Streams
from reldp.runs import key
from reldp.runs.ledger import read_ledger
from reldp.runs.privacy_cost import privacy_cost
from reldp.training import Trainer
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.ports import free_port
from tests.training.small import make_step, small_encoder, small_graph, small_parts, small_plan

TRAINED = {
    "features": (1, 2, 3),
    "text": (1, 2, 3),
    "large": (1, 2),
    "empty": (1, 2),
    "plain": (1, 2),
}
SETTINGS = {"threads": 1, "microbatch_units": 4, "checkpoint_every": 3, "average": 0.9}


def start_group(size, work, *args, **settings):
    """Fork processes that run ``work(rank, *args)``; return (process id, file of the result) of each."""
    port, children = free_port(), []
    for rank in range(size):
        path = Path(tempfile.mkstemp(suffix=".json")[1])
        child = os.fork()
        if child:
            children.append((child, path))
            continue
        code = 1
        try:
            if size > 1:
                os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
                os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            try:
                result = work(rank, *args, **settings)
            except (ReldpError, KeyboardInterrupt) as error:
                result = {"error": f"{type(error).__name__}: {error}"}
            path.write_text(json.dumps(result))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return children


def end_group(children):
    """Wait for all processes; return their results, None for one that was killed."""
    results = []
    for child, path in children:
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if not killed and os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"a process of a group failed: {status}")
        results.append(None if killed else json.loads(path.read_text()))
        path.unlink()
    return results


def run_group(size, work, *args, **settings):
    return end_group(start_group(size, work, *args, **settings))


def text_graph(count=150):
    words = SENTENCE.split()
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(words, 1 + i % 9)) for i in range(count)]
    ring = [(i, (i + 1) % count) for i in range(count)]
    return EntityGraph.from_lists(list(range(count)), ring, text=texts)


def parts_of(kind, model):
    """Encoder, graph, plan and settings of a case."""
    if kind == "text":
        capped = text_graph().promise_degrees(2)
        plan = small_plan(capped, num_negatives=2, expected_batch_size=12.0, num_steps=4)
        return TextEncoder.load(model, lora_rank=2, max_length=8), capped, plan, {}
    if kind == "large":  # a layer whose sums are float64 products
        features = np.random.default_rng(0).normal(size=(300, 96)).astype(np.float32)
        ring = [(i, (i + 1) % 300) for i in range(300)]
        capped = EntityGraph.from_lists(range(300), ring, features=features).promise_degrees(2)
        return FeatureEncoder(96, dim=80), capped, small_plan(capped, num_steps=4), {}
    if kind == "empty":
        return *small_parts(expected_batch_size=0.05, num_steps=4), {}
    if kind == "plain":
        return *small_parts(noise_multiplier=0.0, num_steps=4), {"clip": False}
    if kind == "pairs":
        plan = {"clipping": "pair", "num_steps": 4}
        return *small_parts(**plan), {"loss": "hinge"}
    return *small_parts(num_steps=8), {}


def trained(rank, kind, model, folder):
    encoder, capped, plan, settings = parts_of(kind, model)
    before = torch.get_rng_state()
    result = Trainer(encoder, capped, plan, **SETTINGS, **settings).fit(folder)
    assert torch.equal(before, torch.get_rng_state())
    values = result.certificate.values
    hidden = ("ledger", "model", "data")  # hold salts
    return {
        "weights": state_hash(encoder.trainable()),
        "values": [
            value.double().flatten().tolist()[:50] for value in encoder.trainable().values()
        ],
        "certificate": {name: value for name, value in values.items() if name not in hidden},
        "metrics": result.metrics,
        "machine": dict(read_ledger(Path(folder) / "ledger.jsonl").start["machine"]),
    }


def held_out(rank, folder):
    """Results on held-out entities; every process splits for itself."""
    holdout = Holdout.split(small_graph(), 0.4)
    capped = holdout.train.cap_degrees(4, 0)
    plan = small_plan(capped, num_steps=3, expected_batch_size=8.0, num_negatives=2)
    result = Trainer(small_encoder(), capped, plan, holdout=holdout, **SETTINGS).fit(folder)
    lines = (Path(folder) / "evaluations.jsonl").read_text().splitlines()
    return {"holdout": result.holdout, "lines": len(lines)}


def stepped(rank, kind, model):
    """The released gradient, the sum and the report of a few steps without a run."""
    encoder, capped, plan, settings = parts_of(kind, model)
    step = make_step(encoder, capped, plan, threads=1, microbatch_units=4, **settings)
    step.open(Streams(bytes(range(32))))
    found = []
    for number in range(3):
        batch = step.draw(number)
        units = step.clip_units(batch)
        clipped = step.clipped_sum(units)
        report = step.run(batch, number)
        found.append(
            {
                "gradient": state_hash({n: p.grad for n, p in step.parameters.items()}),
                "total": clipped.total.tolist()[:200],
                "norms": clipped.norms.tolist(),
                "report": [
                    report.num_tuples,
                    report.loss,
                    report.median_norm,
                    report.clipped_share,
                ],
                "own": len(step._shares.of_process(range(100))),
            }
        )
    return found


def different(rank, what):
    """A run in which one process has something else than the others."""
    plan, graph, encoder, settings = {}, {}, {}, {"loss": None}
    if rank == 1 and what == "plan":
        plan = {"num_steps": 13}
    if rank == 1 and what == "graph":
        graph = {"seed": 1}
    if rank == 1 and what == "encoder":
        encoder = {"normalize": True}
    if rank == 1 and what == "weights":
        encoder = {"seed": 5}
    if rank == 1 and what == "settings":
        settings["learning_rate"] = 0.5
    if rank == 1 and what == "precision":
        settings["precision"] = "bfloat16"
    if what == "loss":
        settings["loss"] = HingeLoss() if rank else InfoNCELoss()
    if rank == 1 and what == "versions":
        import reldp

        reldp.__version__ = "0.0.1"
    capped = small_graph(**graph).promise_degrees(4)
    folder = Path(tempfile.mkdtemp()) / "run"
    trainer = Trainer(small_encoder(**encoder), capped, small_plan(capped, **plan), **settings)
    try:
        trainer.fit(folder)
    finally:
        assert not folder.exists()


DIFFERENCES = ("plan", "graph", "encoder", "weights", "settings", "precision", "loss", "versions")


def other_batch(rank):
    """Processes whose streams differ."""
    step = make_step(*small_parts(), threads=1)
    step.open(Streams(bytes([rank] * 32)))
    step.run(step.draw(0), 0)


def other_weights(rank):
    """A process whose weights differ in one bit after a step."""
    step = make_step(*small_parts(), threads=1)
    step.open(Streams(bytes(32)))
    step.run(step.draw(0), 0)
    with torch.no_grad():
        weight = next(iter(step.parameters.values()))
        weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0 if rank else -9.0))
    step.run(step.draw(1), 1)


def other_noise(rank):
    """A process whose noise differs."""
    step = make_step(*small_parts(), threads=1)
    step.open(Streams(bytes(32)))
    if rank == 1:
        draw = step._draw_noise
        step._draw_noise = lambda *place: draw(*place) + 2.0**-30
    step.run(step.draw(0), 0)
    return {"gradient": True}


def failing(rank, folder, *, who, how):
    """A run in which one process fails or is killed in step 5."""
    import reldp.training.trainer as module

    take = module.TrainingLoop._take

    def watched(self, step):
        if step == 5 and rank == who:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "asked":
                os.kill(os.getpid(), signal.SIGINT)
            if how == "raises":
                raise ReldpError("the disk of this process is full.")
        return take(self, step)

    module.TrainingLoop._take = watched
    Trainer(*small_parts(), **SETTINGS).fit(folder)


def recorded(rank, folder, *, stop):
    """A loop of one's own, interrupted in one process, and resumed by all."""
    parts = small_parts(num_steps=12)
    again = 0
    for attempt in range(2):
        step = make_step(*(small_encoder(), *parts[1:]), threads=1, microbatch_units=4)
        optimizer = torch.optim.SGD(step.parameters.values(), lr=0.1)
        with step.record(folder) as run:
            for number in run:
                run.backward()
                optimizer.step()
                if attempt == 0 and number == 2:
                    break
        again += attempt
    values = run.certificate.values
    weights = state_hash(step.parameters)
    return {"weights": weights, "steps": values["steps"], "epsilon": values["guarantee"]["epsilon"]}


def encoded(rank, path):
    """Embeddings, their file and an evaluation by all processes."""
    graph, encoder = small_graph(), small_encoder()
    rows = np.array([5, 3, 299, 0, 17])
    vectors = encode_together(encoder, graph, rows)
    few = encode_together(encoder, graph, rows[:1])  # not enough for all processes
    count = write_embeddings(encoder, graph, path, entities_at_once=128)
    result = evaluate(encoder, graph, candidates=50, resamples=10)
    return {
        "vectors": vectors.tolist(),
        "few": few.tolist(),
        "count": count,
        "evaluation": result.to_json(),
    }


def asked_differently(rank):
    return encode_together(small_encoder(), small_graph(), np.arange(3 + rank)).tolist()


def compute_costs(plan):
    """Compute epsilon here once; children inherit the cache."""
    for accountant in ("pld", "rdp"):
        privacy_cost(plan, accountant, plan.num_steps)


def main(home):
    torch.set_num_threads(1)
    key.new_key = lambda: bytes(range(32))
    model = write_model("bert", home / "bert")
    found = {"trained": {}, "stepped": {}, "different": {}, "failing": {}}
    for kind, sizes in TRAINED.items():
        compute_costs(parts_of(kind, model)[2])
        for size in sizes:
            place = home / f"{kind}-{size}"
            results = run_group(size, trained, kind, model, place)
            found["trained"].setdefault(kind, []).append(results)
    for kind in ("features", "pairs"):
        groups = [run_group(size, stepped, kind, model) for size in (1, 3)]
        found["stepped"][kind] = groups
    compute_costs(small_parts()[2])
    for what in DIFFERENCES:
        found["different"][what] = run_group(2, different, what)
    found["other_batch"] = run_group(2, other_batch)
    found["other_weights"] = run_group(2, other_weights)
    found["other_noise"] = run_group(3, other_noise)
    for who in (0, 1):
        for how in ("killed", "raises", "asked"):
            place, began = home / f"failing-{who}-{how}", time.monotonic()
            ended = run_group(2, failing, place, who=who, how=how)
            seconds = time.monotonic() - began
            record = read_ledger(place / "ledger.jsonl")
            saved = record.checkpoint["step"]
            size = 1 + who  # also with another number of processes
            again = run_group(size, resumed, place)
            found["failing"][f"{who} {how}"] = {
                "ended": ended,
                "seconds": seconds,
                "saved": saved,
                "again": again,
            }
    found["recorded"] = [
        run_group(size, recorded, home / f"recorded-{size}", stop=size) for size in (1, 2)
    ]
    found["encoded"] = []
    for size in (1, 3):
        path = home / f"vectors-{size}.parquet"
        results = run_group(size, encoded, path)
        found["encoded"].append([results, pq.read_table(path).to_pylist()])
    found["held out"] = [run_group(size, held_out, home / f"held-{size}") for size in (1, 2)]
    found["asked_differently"] = run_group(2, asked_differently)
    found["whole"] = run_group(1, resumed, home / "whole")
    print(json.dumps(found))


def resumed(rank, folder):
    result = Trainer(*small_parts(), **SETTINGS).fit(folder)
    record = read_ledger(Path(folder) / "ledger.jsonl")
    return {
        "weights": state_hash(result.encoder.trainable()),
        "counted": record.num_counted,
        "branches": len(record.branches),
        "key": (Path(folder) / "key").exists(),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
