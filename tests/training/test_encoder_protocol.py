"""The six members of `Encoder`, and its defaults, are all that anything uses of an encoder."""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import reldp
from reldp.encoders import Encoder
from reldp.encoders.embedding_file import write_embeddings
from reldp.training import Trainer
from tests.training.interrupted import resumed, stopped
from tests.training.small import small_graph, small_plan

torch.set_num_threads(1)

REQUIRED = {"module", "dim", "table", "rows", "save", "describe"}
# Those with a default, as the table in docs/extending.md has them.
OPTIONAL = {
    *("embed", "token_rows", "synthetic_rows", "encode_graph", "public_embeddings", "check_finite"),
    *("table_is_exact", "source", "to", "eval", "device", "trainable", "load_trainable"),
}
# What Python itself, and the defaults of the base class, look at.
OF_PYTHON = {"__class__", "__dict__", "__weakref__", "_encode_rows"}


# By class: attributes that were asked for. An encoder itself must not keep anything.
ASKED = defaultdict(set)


class Watched:
    """An object of which is remembered which of its attributes were asked for, there or not."""

    def __getattribute__(self, name):
        ASKED[type(self)].add(name)
        return super().__getattribute__(name)


class Minimal(Watched, Encoder):
    """An encoder with the six members, and nothing else."""

    def __init__(self):
        torch.manual_seed(0)
        self.module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))

    @property
    def dim(self):
        return 4

    def table(self, graph, *, pool=None):
        graphs = [graph] if pool is None else [graph, pool]
        entities = [g.graph if isinstance(g, reldp.CappedGraph) else g for g in graphs]
        return Table(np.concatenate([e.features for e in entities]))

    def rows(self, table, indices):
        return {"input": torch.from_numpy(table.features[np.asarray(indices)])}

    def save(self, folder, *, overwrite=False):
        folder.mkdir(parents=True, exist_ok=overwrite)
        save_file(self.module.state_dict(), folder / "model.safetensors")

    def describe(self):
        return {"kind": "minimal"}


class Table(Watched):
    def __init__(self, features):
        self.features = features

    def __len__(self):
        return len(self.features)


class OfArrays(Minimal):
    """Its table is an array."""

    def table(self, graph, *, pool=None):
        return super().table(graph, pool=pool).features

    def rows(self, table, indices):
        return {"input": torch.from_numpy(table[np.asarray(indices)])}


@pytest.fixture(autouse=True)
def _forget():
    ASKED.clear()


def parts(kind, **plan):
    capped = small_graph().promise_degrees(4)
    return kind(), capped, small_plan(capped, **plan)


@pytest.mark.parametrize("kind", [Minimal, OfArrays])
def test_training_resuming_evaluating_and_verifying_use_the_documented_members(
    kind, tmp_path, monkeypatch
):
    folder = stopped(monkeypatch, tmp_path / "run", *parts(kind))
    result = resumed(folder, *parts(kind))
    assert result.certificate.values["steps"]["resumes"] == 1
    described = result.certificate.values["encoder"]
    assert described["kind"] == "minimal"
    assert described["class"] == f"tests.training.test_encoder_protocol.{kind.__name__}"
    assert any(described["class"] in s for s in result.certificate.values["assumptions"])
    assert reldp.verify(folder).certificate == result.certificate
    graph = small_graph(seed=1)
    assert 0 < reldp.evaluate(result.encoder, graph, candidates=32)["mrr"] <= 1
    assert write_embeddings(result.encoder, graph, tmp_path / "vectors.parquet") == 300
    assert ASKED[kind] - OF_PYTHON <= REQUIRED | OPTIONAL
    assert ASKED[kind] >= REQUIRED
    assert ASKED[Table] <= {"features", "__class__", "__dict__", "__slots__"}


def test_a_public_pool_and_a_loop_of_ones_own_use_them_too(tmp_path):
    encoder, capped, plan = parts(Minimal, negatives="public", pool_size=300, num_steps=3)
    pool = small_graph(seed=2)
    step = reldp.PrivateStep(encoder, capped, plan, pool=pool)
    optimizer = torch.optim.Adam(step.parameters.values())
    with step.record(tmp_path / "run") as run:
        for _ in run:
            run.backward()
            optimizer.step()
    assert run.certificate.values["steps"]["counted"] == 3
    assert ASKED[Minimal] - OF_PYTHON <= REQUIRED | OPTIONAL
    assert ASKED[Table] <= {"features", "__class__", "__dict__", "__slots__"}


def test_every_member_with_a_default_is_in_the_list():
    public = {name for name in vars(Encoder) if not name.startswith("_")}
    assert public == (REQUIRED | OPTIONAL) - {"module"}


def test_the_page_about_extensions_has_every_member():
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    table = page.partition("### An encoder class")[2].partition("```python")[0]
    named = set(re.findall(r"`(\w+)[(`]", "".join(re.findall(r"^\|([^|]+)\|", table, re.M))))
    assert named == REQUIRED | OPTIONAL


def test_a_duty_that_is_not_documented_would_be_noticed(tmp_path, monkeypatch):
    def dutiful(self, table):
        getattr(self, "max_length", None)
        getattr(table, "pad_id", 0)
        return super(Minimal, self).token_rows(table)

    monkeypatch.setattr(Minimal, "token_rows", dutiful, raising=False)
    Trainer(*parts(Minimal, num_steps=1)).fit(tmp_path / "run")
    assert "max_length" in ASKED[Minimal]
    assert "pad_id" in ASKED[Table]


def broken(**members):
    return type("Broken", (OfArrays,), {"__module__": __name__, **members})


BROKEN = {
    "embed gives nothing": {"embed": lambda self, inputs: None},
    "embed gives a tuple": {"embed": lambda self, inputs: (1, 2)},
    "embed gives numpy": {"embed": lambda self, inputs: np.zeros((4, 4))},
    "embed gives one dimension": {"embed": lambda self, inputs: Encoder.embed(self, inputs)[:, 0]},
    "embed gives another length": {"dim": property(lambda self: 7)},
    "rows of numpy": {"rows": lambda self, table, indices: {"input": table[indices]}},
    "rows of texts": {"rows": lambda self, table, indices: {"input": ["x"] * len(indices)}},
    "too few rows": {"rows": lambda self, t, i: {"input": torch.from_numpy(t[i][:-1])}},
    "no inputs": {"rows": lambda self, table, indices: {}},
    "no dictionary": {"rows": lambda self, t, i: torch.from_numpy(t[i])},
    "no table": {"table": lambda self, graph, *, pool=None: None},
    "describe gives nothing": {"describe": lambda self: None},
    "describe gives a tensor": {"describe": lambda self: {"kind": torch.ones(2)}},
    "describe gives NaN": {"describe": lambda self: {"kind": float("nan")}},
}


@pytest.mark.parametrize("members", BROKEN.values(), ids=BROKEN)
def test_what_an_encoder_class_breaks_is_named(tmp_path, members):
    words = r"`(embed|rows|table|describe)` must "
    with pytest.raises(reldp.errors.InputError, match=words):
        Trainer(*parts(broken(**members))).fit(tmp_path / "run")
    assert not (tmp_path / "run" / "ledger.jsonl").exists()
