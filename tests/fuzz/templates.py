"""Folders that cases copy and damage: graphs, a store, a complete run, its bundle, and a run that was stopped."""

import json
import os
import shutil
import signal
from pathlib import Path

import torch

from reldp.auditing import step_audit, suite
from reldp.auditing.cases import step_cases
from reldp.auditing.step_audit import audit_step
from tests.encoders.tiny import write_gguf, write_model
from tests.fuzz.soak_child import make_budget, prepare, start
from tests.training.small import small_graph

PLACE = Path("nowhere")
"""Where they are; set by `make`."""


def make(place: Path) -> None:
    """Write all of them; each by a process of its own, because threads of libraries do not survive a fork."""
    global PLACE
    PLACE = place
    os.environ["RELDP_STATE_DIR"] = str(place / "state")
    _shorten_audits()
    process = os.fork()
    if not process:
        code = 1
        try:
            _write(place)
            code = 0
        finally:
            os._exit(code)
    _expect(process, 0)
    prepare(place)
    for name, disturbance, code in (
        ("run", None, 0),
        ("half", ("training", 40, signal.SIGTERM), 143),
    ):
        make_budget(place, name)
        process, pipe = start(place, name, disturbance=disturbance)
        _expect(process, code)
        os.close(pipe)


def copy_run(name: str, run: Path) -> None:
    """Copy a run or its bundle; a run that was stopped comes with its budget, which its end is noted in."""
    shutil.copytree(PLACE / name, run)
    if name == "half":
        shutil.copytree(PLACE / "half budget", run.parent / "half budget")
        token = run / "budget.json"
        token.write_text(token.read_text().replace(str(PLACE), str(run.parent)))


def _shorten_audits() -> None:
    """Leave the cases and trials out of an audit that take seconds; its numbers are read and checked as ever."""

    def short(plan, **settings):
        return audit_step(plan, cases=("plan",), addresses=20, **settings)

    step_audit.step_cases = lambda *settings: step_cases(*settings)[:1]
    suite.audit_step, suite._MECHANISM_TRIALS, suite._EVALUATIONS = short, 1, 20


def _write(place: Path) -> None:
    from reldp.graph.store import build_store

    graph = small_graph()
    for kind in ("parquet", "arrow"):
        graph.write(place / kind, format=kind)
    build_store(place / "parquet", place / "store")
    _write_models(place)


def _write_models(place: Path) -> None:
    """Tiny models: one of each architecture, a folder of sentence-transformers with all modules, and a GGUF file."""
    from safetensors.torch import save_file
    from transformers.utils import logging

    logging.disable_progress_bar()
    for kind in ("bert", "mpnet", "llama"):
        write_model(kind, place / kind)
    folder = write_model("bert", place / "sentence")
    kinds = {
        "": "Transformer",
        "1_Pooling": "Pooling",
        "2_Dense": "Dense",
        "3_Normalize": "Normalize",
    }
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    dense = {
        "in_features": 32,
        "out_features": 6,
        "bias": False,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    for name, value in (
        ("modules.json", listed),
        ("sentence_bert_config.json", {"max_seq_length": 20}),
        (
            "1_Pooling/config.json",
            {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True},
        ),
        ("2_Dense/config.json", dense),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    save_file({"linear.weight": torch.ones(6, 32)}, folder / "2_Dense" / "model.safetensors")
    write_gguf(place / "model.gguf", packed=False)


def _expect(process: int, code: int) -> None:
    _, status = os.waitpid(process, 0)
    if os.waitstatus_to_exitcode(status) != code:
        raise SystemExit(f"a template could not be made: {os.waitstatus_to_exitcode(status)}")
