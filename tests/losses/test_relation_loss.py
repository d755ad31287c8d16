import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp._validate import PAIRINGS
from reldp.errors import ConfigError
from reldp.losses import RelationLoss


def unit_losses(embeddings, endpoints, mask, **kind):
    return RelationLoss(**kind)(embeddings, endpoints, mask)


def oracle(rows, endpoints, mask, loss, score, temperature, margin, pairing="one"):
    """One unit at a time in plain Python floats, straight from the paper's formulas."""

    def similarity(a, b):
        dot = sum(x * y for x, y in zip(a, b, strict=True))
        if score == "cosine":
            dot /= math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
        return dot / temperature

    values = []
    for unit, unit_endpoints, unit_mask in zip(rows, endpoints, mask, strict=True):
        positive = similarity(unit[0], unit[1])
        known = [j for j, left_out in enumerate(unit_mask) if not left_out]
        kept = [
            similarity(unit[2 + j], unit[end])
            for j in known
            for end in ([unit_endpoints[j]] if pairing == "one" else [0, 1])
        ]
        if pairing == "all":
            kept += [similarity(unit[2 + i], unit[2 + j]) for i, j in combinations(known, 2)]
        if loss == "infonce":
            values.append(-positive + math.log(math.exp(positive) + sum(math.exp(s) for s in kept)))
        elif loss == "hinge":
            values.append(sum(max(0.0, margin - positive + s) for s in kept))
        else:
            values.append(sum(math.log1p(math.exp(s - positive)) for s in kept))
    return values


def random_units(seed, units=5, k=4, dim=6):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(units, k + 2, dim))
    endpoints = generator.integers(0, 2, size=(units, k)).astype(np.int8)
    mask = generator.random((units, k)) < 0.3
    return rows, endpoints, mask


@pytest.mark.parametrize("loss", ["infonce", "hinge", "logistic"])
@pytest.mark.parametrize("score", ["dot", "cosine"])
@pytest.mark.parametrize("pairing", PAIRINGS)
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000), k=st.integers(1, 5), temperature=st.sampled_from([0.2, 1.0, 3.0])
)
def test_every_loss_equals_the_formula_computed_by_hand(loss, score, pairing, seed, k, temperature):
    rows, endpoints, mask = random_units(seed, k=k)
    values = (loss, score, temperature, 0.7, pairing)
    names = ("loss", "score", "temperature", "margin", "pairing")
    got = unit_losses(torch.tensor(rows), endpoints, mask, **dict(zip(names, values, strict=True)))
    expected = oracle(rows.tolist(), endpoints.tolist(), mask.tolist(), *values)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("pairing", ["one", "both"])
def test_pair_units_sum_to_the_tuple_unit(loss, pairing):
    rows, endpoints, mask = random_units(3, units=6, k=4)
    embeddings, kind = torch.tensor(rows), {"loss": loss, "pairing": pairing}
    whole = unit_losses(embeddings, endpoints, mask, **kind)
    pairs = torch.stack([embeddings[:, [0, 1, 2 + j]] for j in range(4)], dim=1).flatten(0, 1)
    terms = unit_losses(pairs, endpoints.reshape(-1, 1), mask.reshape(-1, 1), **kind)
    torch.testing.assert_close(terms.view(6, 4).sum(1), whole)


@pytest.mark.parametrize("loss", ["infonce", "hinge", "logistic"])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_fully_masked_unit_has_loss_and_gradient_exactly_zero(loss, pairing):
    rows, endpoints, _ = random_units(5, units=2, k=3)
    # The masked negative is an endpoint of its tuple's positive, as in a real batch.
    rows[0, 2:] = rows[0, 0]
    embeddings = torch.tensor(rows, dtype=torch.float32, requires_grad=True)
    mask = np.array([[True] * 3, [False] * 3])
    losses = unit_losses(embeddings, endpoints, mask, loss=loss, pairing=pairing, temperature=0.05)
    assert losses[0].item() == 0.0
    losses.sum().backward()
    assert torch.equal(embeddings.grad[0], torch.zeros_like(embeddings.grad[0]))
    assert torch.isfinite(embeddings.grad).all()
    assert embeddings.grad[1].abs().max() > 0


def test_a_masked_pair_unit_is_exactly_zero():
    rows, endpoints, _ = random_units(6, units=3, k=1)
    embeddings = torch.tensor(rows, requires_grad=True)
    losses = unit_losses(embeddings, endpoints, np.ones((3, 1), bool), loss="logistic")
    losses.sum().backward()
    assert torch.equal(losses, torch.zeros(3, dtype=torch.float64))
    assert not embeddings.grad.any()


@pytest.mark.parametrize("loss", ["infonce", "hinge", "logistic"])
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_masking_one_negative_leaves_the_terms_of_the_others_unchanged(loss, pairing):
    """Dividing by the number of unmasked negatives would change them (theory.md 2)."""
    rows, endpoints, _ = random_units(7, units=1, k=3)
    embeddings, kind = torch.tensor(rows), {"loss": loss, "pairing": pairing}
    masked = unit_losses(embeddings, endpoints, [[False, True, False]], **kind)
    without = unit_losses(
        embeddings[:, [0, 1, 2, 4]], endpoints[:, [0, 2]], [[False, False]], **kind
    )
    torch.testing.assert_close(masked, without)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_unit_does_not_depend_on_the_other_units(pairing):
    rows, endpoints, mask = random_units(8, units=4, k=2)
    whole = unit_losses(torch.tensor(rows), endpoints, mask, pairing=pairing)
    changed = rows.copy()
    changed[1:, 0] *= -3.0
    alone = unit_losses(torch.tensor(changed), endpoints, mask, pairing=pairing)
    assert torch.equal(whole[0], alone[0])
    assert not torch.isclose(whole[1:], alone[1:]).any()


def test_each_negative_is_scored_against_the_endpoint_that_was_drawn_for_it():
    rows = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    kind = {"loss": "hinge", "score": "dot", "temperature": 1.0, "margin": 1.0}
    assert unit_losses(rows, [[0]], [[False]], **kind).item() == 2.0
    assert unit_losses(rows, [[1]], [[False]], **kind).item() == 1.0


def test_all_pairs_with_pair_clipping_are_refused_with_the_reason():
    with pytest.raises(ConfigError, match="belong to no pair unit"):
        RelationLoss(loss="logistic", pairing="all").check_pairwise()
    RelationLoss(loss="logistic", pairing="both").check_pairwise()
    with pytest.raises(ConfigError, match="`pairing` must be one of one, both, all"):
        RelationLoss(pairing="some")


def test_large_scores_stay_finite():
    rows = torch.tensor([[[300.0], [300.0], [-300.0], [300.0]]], requires_grad=True)
    for loss in ("infonce", "hinge", "logistic"):
        value = unit_losses(
            rows, [[0, 1]], [[False, False]], loss=loss, score="dot", temperature=0.01
        )
        (gradient,) = torch.autograd.grad(value.sum(), rows)
        assert torch.isfinite(value).all()
        assert torch.isfinite(gradient).all()


def test_half_precision_embeddings_are_scored_in_single_precision():
    rows, endpoints, mask = random_units(9)
    got = unit_losses(torch.tensor(rows, dtype=torch.bfloat16), endpoints, mask)
    assert got.dtype == torch.float32


def test_infonce_with_pair_clipping_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match="one softmax"):
        RelationLoss(loss="infonce").check_pairwise()
    RelationLoss(loss="logistic").check_pairwise()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"loss": "triplet"}, "loss"),
        ({"score": "euclid"}, "score"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"margin": -1.0}, "margin"),
        ({"margin": "1"}, "margin"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(change, named):
    with pytest.raises(ConfigError, match=f"`{named}`"):
        RelationLoss(**change)


def test_shapes_that_do_not_belong_together_are_refused():
    rows, endpoints, mask = random_units(2, units=3, k=2)
    embeddings = torch.tensor(rows)
    with pytest.raises(ConfigError, match="`endpoints`"):
        unit_losses(embeddings, endpoints[:, :1], mask)
    with pytest.raises(ConfigError, match="`mask`"):
        unit_losses(embeddings, endpoints, mask[:2])
    with pytest.raises(ConfigError, match="k >= 1"):
        unit_losses(embeddings[:, :2], endpoints[:, :0], mask[:, :0])


def test_settings_survive_json_and_unknown_names_are_refused():
    settings_ = RelationLoss(loss="hinge", score="dot", temperature=0.5, margin=2.0)
    assert RelationLoss.from_json(settings_.to_json()) == settings_
    with pytest.raises(ConfigError, match="temprature"):
        RelationLoss.from_json({"temprature": 1.0})
