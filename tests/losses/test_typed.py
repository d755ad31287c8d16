"""What all typed losses have in common: settings, masks, locality, sizes and gradients."""

import math

import numpy as np
import pytest
import torch

from reldp._validate import OBJECTIVES, TYPED_LOSSES
from reldp.errors import ConfigError
from reldp.losses import DistMultLoss, LossBatch, MatryoshkaLoss, make_loss
from tests.losses.typed_oracle import NAMES, random_typed

KINDS = pytest.mark.parametrize("name", TYPED_LOSSES)
EVERY_OBJECTIVE = pytest.mark.parametrize("objective", OBJECTIVES)
PAIRINGS = pytest.mark.parametrize("pairing", ["one", "both"])


def typed(name, dim=6, **settings):
    """A typed loss whose vectors are not those of the start."""
    loss = make_loss(name, type_names=NAMES, dim=dim, **settings).double()
    with torch.no_grad():
        loss.relations.weight.add_(torch.tensor(random_typed(9, dim=dim)[-1]))
    return loss


def summed(values):
    return values if values.ndim == 1 else values.sum(1)


@KINDS
@PAIRINGS
@pytest.mark.parametrize("objective", ["logistic", "hinge"])
def test_pair_units_sum_to_the_tuple(name, pairing, objective):
    rows, endpoints, mask, types, _ = random_typed(3, tuples=6, k=4)
    embeddings, loss = torch.tensor(rows), typed(name, pairing=pairing, objective=objective)
    whole = summed(loss(embeddings, LossBatch.of(endpoints, mask, types)))
    pairs = torch.stack([embeddings[:, [0, 1, 2 + j]] for j in range(4)], dim=1).flatten(0, 1)
    batch = LossBatch.of(endpoints.reshape(-1, 1), mask.reshape(-1, 1), np.repeat(types, 4))
    terms = loss(pairs, batch)
    assert terms.shape == (24, 1)
    torch.testing.assert_close(terms.view(6, 4).sum(1), whole)


@KINDS
@PAIRINGS
@EVERY_OBJECTIVE
def test_a_tuple_without_negatives_has_loss_and_gradients_exactly_zero(name, pairing, objective):
    rows, endpoints, _, types, _ = random_typed(5, tuples=2, k=3)
    types[:] = [0, 2]
    rows[0, 2:] = rows[0, 0]
    embeddings = torch.tensor(rows, requires_grad=True)
    mask = np.array([[True] * 3, [False] * 3])
    loss = typed(name, pairing=pairing, objective=objective)
    values = summed(loss(embeddings, LossBatch.of(endpoints, mask, types)))
    assert values[0].item() == 0.0
    values.sum().backward()
    assert not embeddings.grad[0].any()
    assert not loss.relations.weight.grad[:2].any()
    assert embeddings.grad[1].abs().max() > 0
    assert loss.relations.weight.grad[2].abs().max() > 0


@KINDS
@PAIRINGS
@EVERY_OBJECTIVE
def test_a_tuple_depends_on_itself_and_its_type_alone(name, pairing, objective):
    rows, endpoints, mask, types, _ = random_typed(8, tuples=4, k=2)
    mask[:] = False
    settings = {"pairing": pairing, "objective": objective, "temperature": 1.0, "margin": 9.0}
    loss = typed(name, **settings)
    whole = summed(loss(torch.tensor(rows), LossBatch.of(endpoints, mask, types)))
    changed, kinds = rows.copy(), (types + 1) % 3
    changed[1:, 0] *= -3.0
    kinds[0] = types[0]
    alone = summed(loss(torch.tensor(changed), LossBatch.of(endpoints, mask, kinds)))
    assert torch.equal(whole[0], alone[0])
    assert not torch.isclose(whole[1:], alone[1:]).any()


@KINDS
@EVERY_OBJECTIVE
def test_only_the_vector_of_a_tuples_own_type_has_a_gradient(name, objective):
    rows, endpoints, mask, types, _ = random_typed(2, tuples=1, k=3)
    mask[:], types[:] = False, 1
    loss = typed(name, objective=objective, margin=9.0)
    loss(torch.tensor(rows), LossBatch.of(endpoints, mask, types)).sum().backward()
    assert loss.relations.weight.grad[1].abs().max() > 0
    assert not loss.relations.weight.grad[[0, 2]].any()


@KINDS
@EVERY_OBJECTIVE
def test_large_and_equal_embeddings_have_finite_losses_and_gradients(name, objective):
    rows = torch.tensor([[[300.0, 1.0]] * 2 + [[-300.0, 1.0]] * 2, [[0.0, 0.0]] * 4])
    rows.requires_grad_()
    batch = LossBatch.of([[0, 1]] * 2, [[False, False]] * 2, [0, 1])
    loss = make_loss(name, type_names=NAMES, dim=2, objective=objective, score="dot")
    value = summed(loss(rows, batch))
    gradients = torch.autograd.grad(value.sum(), [rows, loss.relations.weight])
    assert torch.isfinite(value).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@KINDS
def test_half_precision_embeddings_are_compared_in_single_precision(name):
    rows, endpoints, mask, types, _ = random_typed(9)
    loss = make_loss(name, type_names=NAMES, dim=6)
    embeddings = torch.tensor(rows, dtype=torch.bfloat16)
    assert loss(embeddings, LossBatch.of(endpoints, mask, types)).dtype == torch.float32


@pytest.mark.parametrize("name", ["distmult", "transe"])
def test_a_matryoshka_loss_takes_the_first_numbers_of_a_types_vector(name):
    rows, endpoints, mask, types, _ = random_typed(4)
    loss, batch = typed(name), LossBatch.of(endpoints, mask, types)
    short = typed(name, dim=2)
    with torch.no_grad():
        short.relations.weight.copy_(loss.relations.weight[:, :2])
    whole = MatryoshkaLoss(loss, [6, 2])(torch.tensor(rows), batch)
    parts = loss(torch.tensor(rows), batch) + short(torch.tensor(rows[..., :2]), batch)
    torch.testing.assert_close(whole, parts)


@pytest.mark.parametrize(("name", "dim", "length"), [("complex", 6, 4), ("distmult", 6, 8)])
def test_embeddings_of_another_length_are_refused(name, dim, length):
    rows, endpoints, mask, types, _ = random_typed(4, dim=length)
    with pytest.raises(
        ConfigError, match=f"must be the length of the embeddings, {length}, got {dim}"
    ):
        typed(name, dim)(torch.tensor(rows), LossBatch.of(endpoints, mask, types))


def test_tuples_without_types_are_refused():
    rows, endpoints, mask, *_ = random_typed(4)
    with pytest.raises(ConfigError, match=r"^`loss` must be untyped .* got DistMultLoss\."):
        typed("distmult")(torch.tensor(rows), LossBatch.of(endpoints, mask))


@pytest.mark.parametrize(
    ("names", "change", "said"),
    [
        ((), {}, "`type_names` must hold at least one type, got none"),
        ("abc", {}, "`type_names` must be a list of names"),
        (3, {}, r"`type_names` must be a list of names, got 3\. Pass graph\.type_names"),
        ((1, 2), {}, "`type_names` must be a list of texts"),
        (("a", "a"), {}, "`type_names` must be different names"),
        (NAMES, {"dim": 0}, "`dim`"),
        (NAMES, {"dim": 2.5}, "`dim`"),
        (NAMES, {"objective": "softmax"}, "`objective` must be one of infonce, logistic, hinge"),
        (NAMES, {"pairing": "all"}, "`pairing` must be one of one, both, got 'all'"),
        (NAMES, {"temperature": math.inf}, "`temperature`"),
        (NAMES, {"margin": 0}, "`margin`"),
        (NAMES, {"normalize": 1}, "`normalize`"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(names, change, said):
    dim = change.pop("dim", 4)
    with pytest.raises(ConfigError, match=said):
        DistMultLoss(names, dim, **change)


def test_settings_are_plain_and_shown():
    loss = DistMultLoss(NAMES, 4, objective="hinge")
    assert loss.describe() == {
        "score": "distmult",
        "num_types": 3,
        "dim": 4,
        "objective": "hinge",
        "temperature": 0.05,
        "margin": 1.0,
        "pairing": "both",
        "normalize": True,
    }
    assert "num_types=3" in repr(loss)


@KINDS
def test_the_start_is_public_and_draws_no_random_numbers(name):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one = make_loss(name, type_names=NAMES, dim=6).relations.weight
    assert torch.equal(torch.get_rng_state(), before)
    assert one.requires_grad
    assert torch.equal(one, one[:1].expand(3, -1))  # all types start the same
