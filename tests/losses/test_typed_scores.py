"""Typed losses against their formulas, in every objective; and where they start."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp._validate import OBJECTIVES, TYPED_LOSSES
from reldp.errors import ConfigError
from reldp.losses import ComplExLoss, DistMultLoss, InfoNCELoss, LossBatch, TransELoss, make_loss
from tests.losses.typed_oracle import NAMES, random_typed, score, typed_oracle

KINDS = pytest.mark.parametrize(
    ("name", "distance"),
    [("distmult", None), ("complex", None), ("transe", "l2"), ("transe", "l1")],
)


def made(name, relations, distance=None, **kind):
    """A typed loss in double precision with these vectors."""
    chosen = {"distance": distance} if distance else {}
    loss = make_loss(name, type_names=NAMES, dim=relations.shape[1], **chosen, **kind).double()
    with torch.no_grad():
        loss.relations.weight.copy_(torch.tensor(relations))
    return loss


def values(loss, rows, endpoints, mask, types):
    found = loss(torch.as_tensor(rows), LossBatch.of(endpoints, mask, types)).detach()
    return (found if found.ndim == 1 else found.sum(1)).numpy()


@KINDS
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("pairing", ["one", "both"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 4), temperature=st.sampled_from([0.5, 2.0]))
def test_every_typed_loss_equals_the_formula_computed_by_hand(
    name, distance, objective, pairing, similarity, seed, k, temperature
):
    *batch, relations = random_typed(seed, k=k)
    kind = {"objective": objective, "temperature": temperature, "margin": 0.7, "pairing": pairing}
    loss = made(name, relations, distance, score=similarity, **kind)
    expected = typed_oracle(
        *(part.tolist() for part in (*batch, relations)),
        name,
        normalize=similarity == "cosine",
        distance=distance,
        **kind,
    )
    np.testing.assert_allclose(values(loss, *batch), expected, rtol=1e-9, atol=1e-9)


@KINDS
def test_another_direction_or_type_is_another_loss(name, distance):
    """The control of the oracle: a loss with source and target exchanged, or another type, is told apart."""
    rows, endpoints, mask, types, relations = random_typed(3)
    loss = made(name, relations, distance)
    mask[:] = False
    right = values(loss, rows, endpoints, mask, types)
    turned = values(loss, rows[:, [1, 0, 2, 3, 4, 5]], 1 - endpoints, mask, types)
    # DistMult is the same in both directions; the others are not.
    assert np.allclose(right, turned) == (name == "distmult")
    assert not np.isclose(right, values(loss, rows, endpoints, mask, (types + 1) % 3)).any()


@pytest.mark.parametrize("name", TYPED_LOSSES)
@pytest.mark.parametrize("endpoint", [0, 1])
def test_queries_and_candidates_have_the_score_of_the_formula(name, endpoint):
    *_, relations = random_typed(5)
    generator = np.random.default_rng(0)
    given_side, others = generator.normal(size=(2, 4, 6))
    types = np.array([0, 1, 2, 1])
    loss = made(name, relations).float()
    asked = loss.query_vectors(given_side, types, endpoint)
    for at in range(4):
        for other in others:
            pair = (given_side[at], other) if endpoint == 0 else (other, given_side[at])
            expected = score(
                name, pair[0].tolist(), relations[types[at]].tolist(), pair[1].tolist()
            )
            found = asked[at] @ other if name != "transe" else -np.linalg.norm(asked[at] - other)
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("kind", [DistMultLoss, ComplExLoss])
def test_before_training_every_type_means_the_cosine(kind):
    rows, endpoints, mask, types, _ = random_typed(1)
    loss = kind(NAMES, 6, temperature=0.5).double()
    plain = InfoNCELoss(temperature=0.5, pairing="both")
    expected = plain(torch.tensor(rows), LossBatch.of(endpoints, mask)).numpy()
    np.testing.assert_allclose(values(loss, rows, endpoints, mask, types), expected)


def test_before_training_a_translation_is_a_distance():
    rows, endpoints, mask, types, _ = random_typed(1)
    loss = TransELoss(NAMES, 6, objective="hinge", temperature=1.0, pairing="one", normalize=False)
    plain = make_loss("triplet", pairing="one")(torch.tensor(rows), LossBatch.of(endpoints, mask))
    found = values(loss.double(), rows, endpoints, mask, types)
    np.testing.assert_allclose(found, plain.sum(1).numpy())
    assert not loss.relations.weight.detach().any()


def test_an_odd_length_has_no_halves():
    with pytest.raises(ConfigError, match=r"^`dim` must be even for the complex loss.*got 5\."):
        ComplExLoss(NAMES, 5)
    with pytest.raises(ConfigError, match="`distance` must be one of l2, l1"):
        TransELoss(NAMES, 4, distance="l3")


def test_distances_are_described():
    assert TransELoss(NAMES, 4, distance="l1").describe()["distance"] == "l1"
    assert "distance" not in DistMultLoss(NAMES, 4).describe()
