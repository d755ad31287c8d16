"""The loss of a run: by name, from settings, or as it is given; and typed losses that must fit."""

import re

import pytest
import torch

from reldp._validate import TYPED_LOSSES
from reldp.errors import ConfigError
from reldp.losses import (
    DistMultLoss,
    HingeLoss,
    InfoNCELoss,
    MatryoshkaLoss,
    TransELoss,
    make_loss,
)
from reldp.training.chosen_loss import relation_loss, resolve_loss, with_defaults
from reldp.training.config import LearningSettings
from tests.training.small import TYPES, small_parts, small_plan, small_types

torch.set_num_threads(1)


def test_settings_become_the_loss():
    settings = {"score": "dot", "temperature": 0.5, "margin": 2.0, "pairing": "both"}
    learning = LearningSettings(loss="hinge", **settings)
    assert relation_loss(learning, negatives="entities") == HingeLoss(**settings)
    learning = LearningSettings(loss="cosine", matryoshka_dims=[4, 2])
    assert relation_loss(learning, negatives="entities").loss == make_loss("cosine")


@pytest.mark.parametrize(
    ("loss", "negatives", "pairing"),
    [
        ("infonce", "entities", "all"),
        ("infonce", "unprotected", "all"),
        ("infonce", "public", "one"),
        ("hinge", "entities", "one"),
        ("logistic", "entities", "one"),
        ("triplet", "entities", "one"),
    ],
)
def test_infonce_compares_all_pairs_but_with_public_negatives(loss, negatives, pairing):
    learning = LearningSettings(loss=loss)
    assert relation_loss(learning, negatives=negatives).pairing == pairing


def test_a_loss_is_taken_by_name_or_as_it_is():
    encoder, capped, plan = small_parts()
    for name in (None, "infonce"):
        assert resolve_loss(name, plan, capped, encoder) == InfoNCELoss(pairing="all")
    given = HingeLoss(margin=3.0)
    assert resolve_loss(given, plan, capped, encoder) is given
    public = small_plan(capped, negatives="public", pool_size=250)
    assert resolve_loss(None, public, capped, encoder) == InfoNCELoss(pairing="one")


@pytest.mark.parametrize("name", TYPED_LOSSES)
def test_a_typed_loss_by_name_has_the_types_of_the_graph_and_the_dim_of_the_encoder(name):
    encoder, capped, plan = small_parts(types=small_types())
    loss = resolve_loss(name, plan, capped, encoder)
    assert (loss.name, loss.type_names, loss.dim) == (name, TYPES, encoder.dim)
    assert loss.pairing == "both"
    learning = LearningSettings(loss=name, objective="hinge", score="dot", margin=2.0)
    made = relation_loss(learning, negatives="entities", type_names=TYPES, dim=4)
    assert (made.objective, made.normalize, made.margin) == ("hinge", False, 2.0)


@pytest.mark.parametrize("loss", ["distmult", DistMultLoss(TYPES, 4)])
def test_a_typed_loss_is_refused_for_relations_without_a_type(loss):
    encoder, capped, plan = small_parts()
    with pytest.raises(
        ConfigError, match=r"^`loss` must be untyped .* got (distmult|DistMultLoss)"
    ):
        resolve_loss(loss, plan, capped, encoder)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (DistMultLoss(TYPES[:2], 4), "`loss` must have the graph's 3 types of relations, got 2."),
        (DistMultLoss(("a", "b", "c"), 4), "the graph's 3 types of relations, got others."),
        (TransELoss(TYPES, 6), "`dim` of the loss must be the encoder's 4, got 6."),
        (MatryoshkaLoss(TransELoss(TYPES, 6), [4]), "must be the encoder's 4, got 6."),
    ],
)
def test_a_typed_loss_must_fit_the_graph_and_the_encoder(loss, said):
    encoder, capped, plan = small_parts(types=small_types())
    with pytest.raises(ConfigError, match=re.escape(said)):
        resolve_loss(loss, plan, capped, encoder)


@pytest.mark.parametrize("loss", [3, HingeLoss])
def test_something_else_is_refused(loss):
    encoder, capped, plan = small_parts()
    with pytest.raises(ConfigError, match=r"`loss` must be a name or a callable .* got"):
        resolve_loss(loss, plan, capped, encoder)


def test_settings_that_are_used_are_filled_in():
    used = with_defaults(LearningSettings(loss="transe"), "entities")
    assert (used.pairing, used.margin, used.objective, used.distance) == (
        "both",
        1.0,
        "infonce",
        "l2",
    )
    used = with_defaults(LearningSettings(loss="complex", objective="hinge", margin=3.0), "public")
    assert (used.objective, used.margin, used.distance) == ("hinge", 3.0, None)
    used = with_defaults(LearningSettings(loss="cosine", matryoshka_dims=[4]), "entities")
    assert (used.pairing, used.margin, used.matryoshka_dims) == ("one", 0.2, [4])
    assert used.objective is used.distance is None
