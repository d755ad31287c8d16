"""Every included loss against its formula, masks, pairs and odd values; and the names."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp._validate import LOSSES, PAIRINGS
from reldp.errors import ConfigError
from reldp.losses import HingeLoss, InfoNCELoss, LossBatch, MatryoshkaLoss, make_loss
from tests.losses.oracle import oracle, random_tuples, tuple_losses

SUMS = [name for name in LOSSES if name != "infonce"]
KINDS = pytest.mark.parametrize("name", LOSSES)
EVERY_PAIRING = pytest.mark.parametrize("pairing", PAIRINGS)


@KINDS
@pytest.mark.parametrize("score", ["dot", "cosine"])
@EVERY_PAIRING
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000), k=st.integers(1, 5), temperature=st.sampled_from([0.2, 1.0, 3.0])
)
def test_every_loss_equals_the_formula_computed_by_hand(name, score, pairing, seed, k, temperature):
    rows, endpoints, mask = random_tuples(seed, k=k)
    kind = {"score": score, "temperature": temperature, "margin": 0.7, "pairing": pairing}
    got = tuple_losses(make_loss(name, **kind), rows, endpoints, mask)
    expected = oracle(rows.tolist(), endpoints.tolist(), mask.tolist(), name, **kind)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("pairing", ["one", "both"])
def test_pair_units_sum_to_the_tuple(name, pairing):
    rows, endpoints, mask = random_tuples(3, tuples=6, k=4)
    embeddings, loss = torch.tensor(rows), make_loss(name, pairing=pairing)
    whole = tuple_losses(loss, rows, endpoints, mask)
    pairs = torch.stack([embeddings[:, [0, 1, 2 + j]] for j in range(4)], dim=1).flatten(0, 1)
    terms = loss(pairs, LossBatch.of(endpoints.reshape(-1, 1), mask.reshape(-1, 1)))
    assert terms.shape == (24, 1)
    torch.testing.assert_close(terms.view(6, 4).sum(1), whole)


@KINDS
@EVERY_PAIRING
def test_a_tuple_without_negatives_has_loss_and_gradient_exactly_zero(name, pairing):
    rows, endpoints, _ = random_tuples(5, tuples=2, k=3)
    # The masked negative is an endpoint of its tuple's positive, as in a real batch.
    rows[0, 2:] = rows[0, 0]
    embeddings = torch.tensor(rows, dtype=torch.float32, requires_grad=True)
    mask = np.array([[True] * 3, [False] * 3])
    losses = tuple_losses(make_loss(name, pairing=pairing), embeddings, endpoints, mask)
    assert losses[0].item() == 0.0
    losses.sum().backward()
    assert torch.equal(embeddings.grad[0], torch.zeros_like(embeddings.grad[0]))
    assert torch.isfinite(embeddings.grad).all()
    assert embeddings.grad[1].abs().max() > 0


@pytest.mark.parametrize("name", SUMS)
def test_a_masked_pair_is_exactly_zero(name):
    rows, endpoints, _ = random_tuples(6, tuples=3, k=1)
    embeddings = torch.tensor(rows, requires_grad=True)
    losses = make_loss(name)(embeddings, LossBatch.of(endpoints, np.ones((3, 1), bool)))
    losses.sum().backward()
    assert torch.equal(losses, torch.zeros(3, 1, dtype=torch.float64))
    assert not embeddings.grad.any()


@KINDS
@EVERY_PAIRING
def test_masking_one_negative_leaves_the_terms_of_the_others_unchanged(name, pairing):
    """Dividing by the number of unmasked negatives would change them (theory.md 2)."""
    rows, endpoints, _ = random_tuples(7, tuples=1, k=3)
    loss = make_loss(name, pairing=pairing)
    masked = tuple_losses(loss, rows, endpoints, [[False, True, False]])
    without = tuple_losses(loss, rows[:, [0, 1, 2, 4]], endpoints[:, [0, 2]], [[False, False]])
    torch.testing.assert_close(masked, without)


@KINDS
@EVERY_PAIRING
def test_a_tuple_does_not_depend_on_the_other_tuples(name, pairing):
    rows, endpoints, mask = random_tuples(8, tuples=4, k=2)
    mask[:] = False
    loss = make_loss(name, pairing=pairing, temperature=1.0, margin=0.99)
    whole = tuple_losses(loss, rows, endpoints, mask)
    changed = rows.copy()
    changed[1:, 0] *= -3.0
    alone = tuple_losses(loss, changed, endpoints, mask)
    assert torch.equal(whole[0], alone[0])
    assert not torch.isclose(whole[1:], alone[1:]).any()


@KINDS
def test_large_and_equal_embeddings_have_finite_losses_and_gradients(name):
    rows = torch.tensor([[[300.0], [300.0], [-300.0], [300.0]], [[0.0]] * 4], requires_grad=True)
    loss = make_loss(name, score="dot", temperature=0.01)
    value = tuple_losses(loss, rows, [[0, 1]] * 2, [[False, False]] * 2)
    (gradient,) = torch.autograd.grad(value.sum(), rows)
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()


@KINDS
def test_half_precision_embeddings_are_compared_in_single_precision(name):
    rows, endpoints, mask = random_tuples(9)
    got = tuple_losses(make_loss(name), torch.tensor(rows, dtype=torch.bfloat16), endpoints, mask)
    assert got.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("euclid", {}, "loss"),
        ("infonce", {"score": "euclid"}, "score"),
        ("hinge", {"score": "euclid"}, "score"),
        ("infonce", {"temperature": 0.0}, "temperature"),
        ("logistic", {"temperature": math.nan}, "temperature"),
        ("hinge", {"margin": -1.0}, "margin"),
        ("triplet", {"margin": "1"}, "margin"),
        ("cosine", {"margin": 1.0}, "margin"),
        ("infonce", {"pairing": "some"}, "pairing"),
        ("triplet", {"pairing": "some"}, "pairing"),
        ("hinge", {"temprature": 1.0}, "temprature"),
        ("hinge", {"matryoshka_dims": []}, "dims"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(name, change, named):
    with pytest.raises(ConfigError, match=f"`{named}`"):
        make_loss(name, **change)


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("distmult", {"dim": 4}, "type_names"),
        ("distmult", {"type_names": ("a",)}, "dim"),
        ("complex", {"type_names": ("a",), "dim": 3}, "dim"),
        ("transe", {"type_names": ("a",), "dim": 3, "distance": "l0"}, "distance"),
        ("transe", {"type_names": ("a",), "dim": 3, "pairing": "all"}, "pairing"),
    ],
)
def test_typed_losses_need_types_and_a_length(name, given, named):
    with pytest.raises(ConfigError, match=f"`{named}`"):
        make_loss(name, **given)


def test_typed_losses_take_their_own_settings_and_ignore_those_of_others():
    kind = {"type_names": ("a", "b"), "dim": 4, "temperature": None, "distance": "l1"}
    loss = make_loss("distmult", score="dot", objective="hinge", margin=2.0, **kind)
    assert (loss.normalize, loss.objective, loss.margin) == (False, "hinge", 2.0)
    assert (loss.temperature, loss.comparison) == (0.05, "dot")
    assert make_loss("transe", matryoshka_dims=[4, 2], **kind).loss.comparison == "l1"
    assert make_loss("infonce", objective=None, type_names=("a",), dim=4) == InfoNCELoss()


def test_a_setting_of_none_takes_the_default_and_settings_of_other_losses_are_ignored():
    assert make_loss("hinge", margin=None, score="dot") == HingeLoss(score="dot")
    assert make_loss("infonce", margin=3.0) == InfoNCELoss()
    wrapped = make_loss("infonce", matryoshka_dims=[4, 2])
    assert isinstance(wrapped, MatryoshkaLoss)
    assert wrapped.dims == (4, 2)
