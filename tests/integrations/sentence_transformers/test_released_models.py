"""What a trainer releases is what its run computed, and nothing that was changed meanwhile or afterwards."""

import copy

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from torch import nn
from transformers import TrainerCallback

from reldp.errors import RunError
from tests.integrations.sentence_transformers.small import (
    DIM,
    TEXTS,
    trainer,
)

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")


def retrained(model):
    """As further training without noise does."""
    next(p for n, p in model.named_parameters() if "bias" in n).data.add_(1e-3)


CHANGES = {
    "weights": retrained,
    "precision": lambda model: model.half(),
    "a module more": lambda model: model.append(Normalize()),
    "another module": lambda model: model.__setitem__(1, Pooling(DIM, "cls")),
    "another layer": lambda model: setattr(
        model[0].auto_model.encoder.layer[0].output, "dropout", nn.Identity()
    ),
    "words": lambda model: model.tokenizer.add_tokens(["alice"]),
}


@pytest.mark.parametrize("keep", [False, True], ids=["merged", "kept"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_that_was_changed_after_its_run_gets_no_card(tmp_path, keep, change):
    made = trainer(tmp_path, keep_adapters=keep)
    made.train()
    made.model.encode(TEXTS)
    made.save_model(tmp_path / "first")
    change(made.model)
    with pytest.raises(RunError, match="`model` must be the one that the run released") as caught:
        made.save_model(tmp_path / "out")
    assert "\n" not in str(caught.value)
    with pytest.raises(RunError, match="`model` must be the one that the run released"):
        made.push_to_hub("someone/model")
    assert not (tmp_path / "out").exists()


def test_another_model_or_result_cannot_take_the_place_of_the_run_s(tmp_path):
    made = trainer(tmp_path)
    made.train()
    expected = made.model.encode(TEXTS)
    other = copy.deepcopy(made.model)
    with torch.no_grad():
        next(other.parameters()).fill_(7.0)
    for name, value in (
        ("model", other),
        ("result", made.result),
        ("args", made.args),
        ("plan", made.plan),
    ):
        with pytest.raises(AttributeError):
            setattr(made, name, value)
    vars(made)["model"] = other  # by force: what was checked is what is written
    made.save_model(tmp_path / "out")
    released = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(released, expected, rtol=0, atol=1e-6)
    assert np.abs(other.encode(TEXTS) - expected).max() > 0.1, "a check that can fail"


@pytest.mark.parametrize("train", ["full", "last:1"])
def test_a_model_without_adapters_that_was_changed_gets_no_card(tmp_path, train):
    made = trainer(tmp_path, train=train)
    made.train()
    made.save_model(tmp_path / "first")
    retrained(made.model)
    with pytest.raises(RunError, match="`model` must be the one that the run released"):
        made.save_model(tmp_path / "out")


def test_adapters_that_are_merged_after_the_run_are_another_model(tmp_path):
    made = trainer(tmp_path, keep_adapters=True)
    made.train()
    for layer in made.model.modules():
        if hasattr(layer, "merge") and hasattr(layer, "lora_A"):
            layer.merge()
    with pytest.raises(RunError, match="`model` must be the one that the run released"):
        made.save_model(tmp_path / "out")


class Adding(TrainerCallback):
    """Adds a module to the model at an event."""

    def __init__(self, event):
        setattr(self, event, lambda *given, model, **more: model.append(Normalize()))


@pytest.mark.parametrize("event", ["on_step_end", "on_train_end"])
def test_a_module_that_a_callback_adds_is_not_released(tmp_path, event):
    made = trainer(tmp_path, callbacks=[Adding(event)])
    made.train()
    with pytest.raises(RunError, match="`model` must be the one that the run released"):
        made.save_model(tmp_path / "out")


class Retraining(TrainerCallback):
    """Changes weights at an event."""

    def __init__(self, event):
        setattr(self, event, lambda *given, model, **more: retrained(model))


@pytest.mark.parametrize("event", ["on_train_begin", "on_step_begin", "on_step_end", "on_log"])
def test_callbacks_of_transformers_leave_the_weights(tmp_path, event):
    made = trainer(tmp_path, callbacks=[Retraining(event)], logging_steps=1)
    with pytest.raises(RunError, match="`callbacks` must leave the weights as they are"):
        made.train()
    assert not (tmp_path / "run" / "certificate.json").exists()


def test_an_evaluator_leaves_the_weights(tmp_path):
    made = trainer(tmp_path, evaluator=lambda model, **given: retrained(model) or 1.0, eval_steps=3)
    with pytest.raises(RunError, match="`callbacks` must leave the weights as they are"):
        made.train()


class Meddler(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **given):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.5)


def test_a_callback_that_changes_weights_ends_the_run(tmp_path):
    with pytest.raises(RunError, match="`callbacks` must leave the weights as they are"):
        trainer(tmp_path, callbacks=[Meddler]).train()
