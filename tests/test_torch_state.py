"""Settings of torch that a notebook or a loop switched on change nothing that reldp computes."""

import contextlib
import warnings

import numpy as np
import pytest
import torch

import reldp
import reldp.encoders
from reldp._torch_state import float32_by_default, plain_torch
from reldp.training.advice import PoorPlanWarning
from reldp.training.step import PrivateStep
from tests.encoders.tiny import TEXTS, write_model
from tests.training.small import small_graph, small_parts

torch.set_num_threads(1)


@contextlib.contextmanager
def float64_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


STATES = {
    "float64": float64_by_default,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "another device": lambda: torch.device("meta"),
}
every_state = pytest.mark.parametrize("state", STATES.values(), ids=STATES)


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(6, 4)


@every_state
def test_encoders_are_made_trained_and_evaluated_as_without_it(tmp_path, state):
    def train(folder):
        encoder = reldp.FeatureEncoder(6, dim=4, seed=3)
        _, capped, plan = small_parts()
        result = reldp.Trainer(encoder, capped, plan).fit(folder)
        start = reldp.FeatureEncoder(6, dim=4, seed=3).encode_graph(capped)
        found = reldp.evaluate(result.encoder, small_graph(seed=3), 64)
        return start, result.encoder.encode_graph(capped), found["mrr"], result.certificate

    with state():
        start, trained, _, same = train(tmp_path / "run")
    before, _, _, certificate = train(tmp_path / "plain")
    np.testing.assert_array_equal(start, before)
    assert trained.dtype == np.float32
    assert np.isfinite(trained).all()
    assert same.epsilon == certificate.epsilon
    with state():
        assert reldp.verify(tmp_path / "run").certificate.epsilon == certificate.epsilon
    loaded = reldp.FeatureEncoder.load(tmp_path / "run" / "model")
    np.testing.assert_array_equal(loaded.encode_graph(small_parts()[1]), trained)


@every_state
@pytest.mark.parametrize("train", ["lora", "head", "pooling"])
def test_text_encoders_have_the_same_embeddings(tmp_path, state, train):
    model = write_model("bert", tmp_path / "model")
    expected = reldp.TextEncoder.load(model, train=train, max_length=16).encode(TEXTS)
    with state():
        encoder = reldp.TextEncoder.load(model, train=train, max_length=16)
        inside = encoder.encode(TEXTS)
    np.testing.assert_array_equal(inside, expected)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
    ring = [(i, (i + 1) % 8) for i in range(8)]
    capped = reldp.EntityGraph.from_lists(list(range(8)), ring, text=TEXTS).promise_degrees(2)
    sizes = {"num_entities": 8, "num_relations": 8, "max_degree": 2, "num_negatives": 1}
    plan = reldp.PrivacyPlan(**sizes, sample_rate=0.2, num_steps=2, noise_multiplier=2.0, delta=0.1)
    with state(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = reldp.Trainer(encoder, capped, plan).fit(tmp_path / "run")
        inside = result.encoder.encode(TEXTS)
    np.testing.assert_array_equal(result.encoder.encode(TEXTS), inside)


@every_state
def test_a_loop_of_one_s_own_takes_the_same_steps(tmp_path, state):
    encoder, capped, plan = small_parts()
    step = PrivateStep(encoder, capped, plan)
    optimizer = torch.optim.SGD(encoder.trainable().values(), lr=0.1)
    with state():
        with step.record(tmp_path / "run") as run:
            for _ in run:
                run.backward()
                with torch.no_grad():
                    optimizer.step()
        assert run.certificate.epsilon == plan.epsilon()
    assert reldp.verify(tmp_path / "run")
    assert {p.grad.dtype for p in encoder.trainable().values()} == {torch.float32}


def test_a_module_made_in_inference_mode_cannot_be_trained():
    with torch.inference_mode():
        module = linear()
    with pytest.raises(
        reldp.errors.EncoderError, match=r"'weight', which was made in torch.inference_mode\(\)"
    ):
        reldp.ModuleEncoder(module, "features")


def test_warnings_name_the_caller_s_line(tmp_path):
    with pytest.warns(PoorPlanWarning) as noted:
        reldp.Trainer(*small_parts(noise_multiplier=300.0)).fit(tmp_path / "run")
    step = PrivateStep(*small_parts(noise_multiplier=300.0))
    with pytest.warns(PoorPlanWarning) as also, step.record(tmp_path / "loop"):
        pass
    assert {warning.filename for warning in (*noted, *also)} == {__file__}


def test_the_caller_s_settings_are_as_before():
    with float64_by_default(), torch.autocast("cpu"), torch.no_grad():
        with contextlib.suppress(ZeroDivisionError), float32_by_default():
            assert torch.get_default_dtype() == torch.float32
            assert torch.is_grad_enabled()
            raise ZeroDivisionError
        assert torch.get_default_dtype() == torch.float64
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_grad_enabled()
        with plain_torch():
            assert torch.get_default_dtype() == torch.float64
