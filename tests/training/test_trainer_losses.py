"""Trainer with the included losses, and with losses and loss modules from outside."""

import pytest
import torch

import reldp
from reldp._validate import LOSSES, TYPED_LOSSES
from reldp.errors import ConfigError, InputError, ResumeError
from reldp.losses import HingeLoss
from reldp.training import Trainer
from reldp.training.objective import LOSS_WEIGHTS
from tests.training.interrupted import resumed, stopped
from tests.training.small import TYPES, small_parts, small_types
from tests.training.test_loss_check import in_batch_negatives
from tests.training.test_objective import Bilinear
from tests.training.test_recording import margin_loss

torch.set_num_threads(1)


@pytest.mark.parametrize("name", LOSSES)
def test_every_name_trains_and_is_on_the_certificate(tmp_path, name):
    result = Trainer(*small_parts(), loss=name, matryoshka_dims=[4, 2]).fit(tmp_path / "run")
    values = result.certificate.values
    assert values["training"]["loss"] == name
    assert values["training"]["matryoshka_dims"] == [4, 2]
    assert values["training"]["margin"] == (0.2 if name == "cosine" else 1.0)
    assert values["loss"]["included"]
    assert values["loss"]["settings"]["dims"] == [4, 2]
    assert reldp.verify(tmp_path / "run")


@pytest.mark.parametrize("rule", ["tuple", "pair"])
def test_a_loss_of_ones_own_is_on_the_certificate_and_verifies(tmp_path, rule):
    result = Trainer(*small_parts(clipping=rule), loss=margin_loss).fit(tmp_path / "run")
    values = result.certificate.values
    assert values["loss"]["name"] == "tests.training.test_recording.margin_loss"
    assert "loss" not in values["training"]
    assert "temperature" not in values["training"]
    assert values["guarantee"]["status"] == "proven"
    page = result.certificate.to_markdown()
    assert values["loss"]["sha256"] in page
    assert "margin_loss, is not part of reldp" in page
    assert reldp.verify(tmp_path / "run")


@pytest.mark.parametrize("name", TYPED_LOSSES)
@pytest.mark.parametrize("rule", ["tuple", "pair"])
def test_every_typed_name_trains_is_certified_saved_and_loaded(tmp_path, name, rule):
    parts = small_parts(types=small_types(), clipping=rule)
    objective = "infonce" if rule == "tuple" else "logistic"
    result = Trainer(*parts, loss=name, objective=objective).fit(tmp_path / "run")
    values = result.certificate.values
    assert values["training"]["loss"] == name
    assert values["training"]["objective"] == objective
    assert values["training"].get("distance") == ("l2" if name == "transe" else None)
    settings = values["loss"]["settings"]
    assert (settings["score"], settings["num_types"], settings["dim"]) == (name, 3, 4)
    assert values["loss"]["num_trainable"] == 12
    assert {LOSS_WEIGHTS, "loss.json"} <= set(values["model"]["files"])
    assert "objective" in result.certificate.to_markdown()
    assert reldp.verify(tmp_path / "run")
    loaded = reldp.losses.load(tmp_path / "run")
    start = type(loaded)(TYPES, 4).relations.weight
    assert torch.equal(loaded.relations.weight, result.loss.relations.weight.cpu())
    assert (loaded.relations.weight != start).all()  # noise reaches every vector
    assert loaded.type_names == TYPES


def test_a_typed_run_continues_where_it_was_and_not_with_other_types(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.runs.session.bound_key", lambda *given: bytes(32))

    def parts(turn=0):
        types = small_types()
        return small_parts(types=types[turn:] + types[:turn])

    whole = Trainer(*parts(), loss="complex", checkpoint_every=4).fit(tmp_path / "whole")
    folder = stopped(monkeypatch, tmp_path / "run", *parts(), at=6, loss="complex")
    with pytest.raises(ResumeError):
        resumed(folder, *parts(turn=1), loss="complex")
    with pytest.raises(ResumeError, match="objective"):
        resumed(folder, *parts(), loss="complex", objective="logistic")
    result = resumed(folder, *parts(), loss="complex")
    assert torch.equal(result.loss.relations.weight, whole.loss.relations.weight)


def test_types_change_what_a_typed_loss_learns_and_nothing_for_an_untyped_one(
    tmp_path, noise_by_address, monkeypatch
):
    monkeypatch.setattr("reldp.runs.session.bound_key", lambda *given: bytes(32))
    found = {}
    for loss in ("distmult", "infonce"):
        for turn, types in enumerate((small_types(), small_types()[::-1])):
            run = Trainer(*small_parts(types=types), loss=loss).fit(tmp_path / f"{loss}{turn}")
            found[loss, turn] = run.encoder.trainable()
    for name, value in found["infonce", 0].items():
        assert torch.equal(value, found["infonce", 1][name])
    assert any(
        not torch.equal(value, found["distmult", 1][name])
        for name, value in found["distmult", 0].items()
    )


def test_a_loss_object_and_its_name_train_the_same(tmp_path, noise_by_address, monkeypatch):
    monkeypatch.setattr("reldp.runs.session.bound_key", lambda *given: bytes(32))
    named = Trainer(*small_parts(), loss="hinge", margin=2.0).fit(tmp_path / "named")
    given = Trainer(*small_parts(), loss=HingeLoss(margin=2.0)).fit(tmp_path / "given")
    for name, value in named.encoder.trainable().items():
        assert torch.equal(value, given.encoder.trainable()[name])


def test_a_loss_module_is_trained_checkpointed_and_saved(tmp_path, monkeypatch):
    whole, loss = Bilinear(), Bilinear()
    monkeypatch.setattr("reldp.runs.session.bound_key", lambda *given: bytes(32))
    settings = {"checkpoint_every": 4, "average": 0.9}
    Trainer(*small_parts(), loss=whole, **settings).fit(tmp_path / "whole")
    assert not torch.equal(whole.diagonal, loss.diagonal)
    stopped(monkeypatch, tmp_path / "run", *small_parts(), at=6, loss=loss, average=0.9)
    fresh = Bilinear()
    result = resumed(tmp_path / "run", *small_parts(), loss=fresh, average=0.9)
    for name, value in whole.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], value), name
    assert LOSS_WEIGHTS in result.certificate.values["model"]["files"]
    assert reldp.verify(tmp_path / "run")
    with pytest.raises(ConfigError, match="`loss` must be as it was loaded"):
        Trainer(*small_parts(), loss=fresh).fit(tmp_path / "other")


def test_another_loss_does_not_continue_a_run(tmp_path, monkeypatch):
    def loss(embeddings, batch):
        return 1.0 * margin_loss(embeddings, batch)

    def made(factor):
        def loss(embeddings, batch):
            return factor * margin_loss(embeddings, batch)

        return loss

    folder = stopped(monkeypatch, tmp_path / "run", *small_parts(), loss=made(1.0))
    with pytest.raises(ResumeError, match="the loss computes something else"):
        resumed(folder, loss=made(2.0))
    with pytest.raises(ResumeError, match=r"loss\.name was"):
        resumed(folder, loss=loss)
    with pytest.raises(ResumeError, match=r"training\.loss was None, is 'infonce'"):
        resumed(folder)
    resumed(folder, loss=made(1.0))


@pytest.mark.parametrize("setting", ["temperature", "margin", "pairing", "matryoshka_dims"])
def test_settings_of_the_included_losses_are_refused_beside_a_loss_object(setting):
    value = {"pairing": "one", "matryoshka_dims": [2]}.get(setting, 0.5)
    with pytest.raises(ConfigError, match=f"`{setting}` must be a setting of the loss itself"):
        Trainer(*small_parts(), loss=HingeLoss(), **{setting: value})


def test_bad_losses_are_refused_before_anything_is_computed(tmp_path):
    with pytest.raises(
        InputError, match=r"got tests\.training\.test_loss_check\.in_batch_negatives"
    ):
        Trainer(*small_parts(), loss=in_batch_negatives)
    with pytest.raises(ConfigError, match="a sum over negatives"):
        Trainer(*small_parts(clipping="pair"), loss="infonce")
    with pytest.raises(ConfigError, match="`loss` must be one of infonce"):
        Trainer(*small_parts(), loss="info")
    with pytest.raises(ConfigError, match="at most the embeddings' 4, got 8"):
        Trainer(*small_parts(), matryoshka_dims=[8])
