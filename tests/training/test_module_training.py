"""Modules of users in real steps and runs: gradient oracles, neighbors, resuming, certificates."""

import numpy as np
import pytest
import torch
from torch import nn

import reldp
from reldp.clipping import ClipUnits
from reldp.encoders import Column, ModuleEncoder
from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError, InputError, ResumeError, UnsupportedParameter
from reldp.noise import Streams
from reldp.training.step import PrivateStep
from tests.encoders.modules import (
    Mixed,
    Transformer,
    mixed_graph,
    mixed_inputs,
    small_cnn,
    tabular,
    words_input,
)
from tests.training.interrupted import resumed, stopped
from tests.training.small import small_plan
from tests.training.test_loss_gradients import unit_gradient
from tests.training.test_neighbors import moves

torch.set_num_threads(1)
COUNT = 60


def images(count, seed=0):
    """A ring of images of 4 x 4."""
    features = np.random.default_rng(seed).normal(size=(count, 16)).astype(np.float32)
    ring = [(i, (i + 1) % count) for i in range(count)]
    return reldp.EntityGraph.from_lists(range(count), ring, features=features)


CASES = {
    "cnn": (small_cnn, lambda: Column("features", shape=(1, 4, 4)), images),
    "tabular": (tabular, lambda: Column("features", shape=6), mixed_graph),
    "transformer": (Transformer, words_input, mixed_graph),
    "mixed": (Mixed, mixed_inputs, mixed_graph),
}


def made(name, count=COUNT, seed=0, **plan):
    """Encoder, capped graph and plan."""
    module, inputs, graph = CASES[name]
    capped = graph(count).promise_degrees(2)
    settings = {"num_negatives": 3, "expected_batch_size": 8.0, "noise_multiplier": 1.0, **plan}
    return ModuleEncoder(module(seed), inputs()), capped, small_plan(capped, **settings)


def opened(name, **plan):
    step = PrivateStep(*made(name, **plan))
    step.open(Streams(bytes(range(32))))
    return step


@pytest.mark.parametrize("rule", ["tuple", "pair"])
@pytest.mark.parametrize("name", CASES)
def test_the_clipped_sum_of_a_step_is_that_of_a_loop_of_autograd_calls(name, rule):
    loss = {"tuple": "infonce", "pair": "logistic"}[rule]
    step = PrivateStep(*made(name, clipping=rule, clip_norm=0.3), loss=loss)
    step.open(Streams(bytes(range(32))))
    units = step.clip_units(step.draw(0))
    expected, num_clipped = 0.0, 0
    for unit in range(units.num_units):
        given = units.entities[unit], units.endpoints[unit], units.mask[unit]
        gradient, bound = unit_gradient(step, *given, None), float(units.thresholds[unit])
        num_clipped += float(gradient.norm()) > bound
        expected = expected + gradient * min(1.0, bound / float(gradient.norm()))
    total = step.clipped_sum(units).total * step._plan.grid
    assert num_clipped > 0
    assert float((total - expected).norm()) < 1e-5 * float(expected.norm())
    step.close()


def hostile_units(generator, count=10, negatives=3):
    """Tuples that share entities."""
    entities = np.stack([generator.permutation(16)[: 2 + negatives] for _ in range(count)])
    return ClipUnits(
        entities=entities,
        endpoints=generator.integers(0, 2, (count, negatives)).astype(np.int8),
        mask=np.zeros((count, negatives), dtype=bool),
        thresholds=np.ones(count),
        tuple_index=np.arange(count),
    )


@pytest.mark.parametrize("name", CASES)
def test_no_tuple_moves_another_and_none_moves_the_sum_by_more_than_the_clip_norm(name):
    step = opened(name)
    for seed in range(2):
        found = moves(step, hostile_units(np.random.default_rng(seed)))
        assert 0.1 < found[:, 0].max() <= 1.0, step._shapes.layouts
        assert found[:, 1].max() == 0.0, step._shapes.layouts
    step.close()


class Centering(nn.Module):
    """Subtracts a detached mean over all rows, which autograd does not see."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        out = self.layer(x)
        return out - out.detach().mean(0)


def test_the_neighbors_refute_a_module_that_mixes_rows_where_nothing_checks_it(monkeypatch):
    """The control; checked as usual, the module is refused three times."""
    capped = mixed_graph(COUNT).promise_degrees(2)
    plan = small_plan(capped, expected_batch_size=8.0, noise_multiplier=1.0)
    given = Column("features", shape=6)
    with pytest.raises(InputError, match="embed every row by itself, got Centering"):
        ModuleEncoder(Centering(), given)
    monkeypatch.setattr("reldp.encoders.module.check_outputs", lambda *parts: 3)
    with pytest.raises(UnsupportedParameter, match=r"`layer\.weight` must have the same gradient"):
        ModuleEncoder(Centering(), given)
    monkeypatch.setattr("reldp.encoders.module.check_gradients", lambda *parts: None)
    step = PrivateStep(ModuleEncoder(Centering(), given), capped, plan)
    with pytest.raises(InputError, match="must keep units apart"):
        step.prepare()
    monkeypatch.setattr(PrivateStep, "prepare", lambda self: None)
    step.open(Streams(bytes(32)))
    found = moves(step, hostile_units(np.random.default_rng(0)))
    assert found[:, 1].max() > 0
    assert found[:, 0].max() > 1.0
    step.close()


def test_a_run_resumes_bit_for_bit_whatever_the_module_s_new_start(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(range(32)))
    plan = {"num_steps": 12, "noise_multiplier": 3.0, "count": 300, "expected_batch_size": 20.0}
    parts = made("cnn", **plan)
    whole = reldp.Trainer(*parts, checkpoint_every=4).fit(tmp_path / "whole")
    torn = stopped(monkeypatch, tmp_path / "torn", *made("cnn", **plan))
    encoder, *rest = made(
        "cnn", seed=7, **plan
    )  # other random weights: those of the run are loaded
    result = resumed(torn, encoder, *rest)
    assert result.certificate.values["steps"]["resumes"] == 1
    assert state_hash(encoder.trainable()) == state_hash(whole.encoder.trainable())
    assert reldp.verify(torn).certificate == result.certificate
    graph = images(100, seed=3)
    assert 0 < reldp.evaluate(encoder, graph, candidates=32)["mrr"] <= 1
    given = Column("features", shape=(1, 4, 4))
    loaded = ModuleEncoder.load(torn / "model", small_cnn(seed=4), given)
    assert np.array_equal(loaded.encode_graph(graph), encoder.encode_graph(graph))


def test_a_run_is_not_resumed_with_another_module_or_other_data(tmp_path, monkeypatch):
    plan = {"num_steps": 12, "noise_multiplier": 3.0, "count": 300, "expected_batch_size": 20.0}
    torn = stopped(monkeypatch, tmp_path / "torn", *made("cnn", **plan))
    _, capped, the_plan = made("cnn", **plan)
    given = Column("features", shape=(1, 4, 4))
    module = small_cnn()
    module[2] = nn.Tanh()
    with pytest.raises(ResumeError, match="the encoder computes something else"):
        resumed(torn, ModuleEncoder(module, given), capped, the_plan)
    frozen = small_cnn()
    frozen[0].requires_grad_(False)
    with pytest.raises(ResumeError, match=r"encoder\.adaptation was .*all parameters"):
        resumed(torn, ModuleEncoder(frozen, given), capped, the_plan)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    with pytest.raises(ResumeError, match=r"encoder\.num_trainable"):
        resumed(torn, ModuleEncoder(flat, given), capped, the_plan)


def test_the_certificate_names_the_code_that_is_not_part_of_reldp(tmp_path):
    encoder, capped, plan = made("mixed", count=300, expected_batch_size=20.0, num_steps=2)
    result = reldp.Trainer(encoder, capped, plan).fit(tmp_path / "run")
    sentences = [s for s in result.certificate.values["assumptions"] if "encoder's code" in s]
    assert len(sentences) == 1
    assert "tests.encoders.modules.Mixed, is not part of reldp" in sentences[0]
    assert result.certificate.values["encoder"]["inputs"]["numbers"]["columns"] == ["price", "year"]
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "ModuleEncoder.load" in card
    assert "the module `tests.encoders.modules.Mixed`" in card
    assert reldp.verify(tmp_path / "run").certificate == result.certificate


def test_a_frozen_module_has_nothing_to_train(tmp_path):
    encoder, capped, plan = made("tabular")
    encoder.module.requires_grad_(False)
    with pytest.raises(ConfigError, match="`encoder` must have trainable parameters, got none"):
        PrivateStep(encoder, capped, plan)


def test_negatives_from_a_public_pool(tmp_path):
    encoder, capped, plan = made("mixed", negatives="public", pool_size=40, num_steps=2)
    step = PrivateStep(encoder, capped, plan, pool=mixed_graph(40, seed=5))
    step.open(Streams(bytes(32)))
    batch = step.draw(0)
    assert batch.negatives.min() >= COUNT
    step.run(batch, 0)
    assert all(torch.isfinite(p.grad).all() for p in step.parameters.values())
    step.close()
