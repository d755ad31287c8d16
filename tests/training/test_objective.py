"""The loss of a run, from its settings, its name, or as it is given."""

import pytest

from reldp.errors import ConfigError
from reldp.losses import RelationLoss
from reldp.training.config import LearningSettings
from reldp.training.objective import checked_loss, relation_loss
from tests.training.small import small_graph, small_parts, small_plan


def test_settings_become_the_loss():
    settings = {"loss": "hinge", "score": "dot", "temperature": 0.5, "margin": 2.0}
    learning = LearningSettings(**settings, pairing="both")
    assert relation_loss(learning, negatives="entities") == RelationLoss(**settings, pairing="both")


@pytest.mark.parametrize(
    ("loss", "negatives", "pairing"),
    [
        ("infonce", "entities", "all"),
        ("infonce", "unprotected", "all"),
        ("infonce", "public", "one"),
        ("hinge", "entities", "one"),
        ("logistic", "entities", "one"),
    ],
)
def test_infonce_compares_all_pairs_but_with_public_negatives(loss, negatives, pairing):
    learning = LearningSettings(loss=loss)
    assert relation_loss(learning, negatives=negatives).pairing == pairing


def test_a_loss_is_taken_by_name_or_as_it_is():
    plan = small_parts()[2]
    assert checked_loss(None, plan) == checked_loss("infonce", plan) == RelationLoss(pairing="all")
    given = RelationLoss(loss="hinge", margin=3.0)
    assert checked_loss(given, plan) is given
    public = small_plan(small_graph().promise_degrees(4), negatives="public", pool_size=250)
    assert checked_loss(None, public) == RelationLoss(pairing="one")


def test_a_loss_that_the_rule_cannot_split_is_refused():
    plan = small_parts(clipping="pair")[2]
    with pytest.raises(ConfigError, match="one softmax"):
        checked_loss(None, plan)
    assert checked_loss("logistic", plan).loss == "logistic"


@pytest.mark.parametrize("loss", [3, lambda embeddings, endpoints, mask: embeddings.sum()])
def test_something_else_is_refused(loss):
    with pytest.raises(ConfigError, match=r"`loss` must be a name or follow reldp\.losses\.Loss"):
        checked_loss(loss, small_parts()[2])
