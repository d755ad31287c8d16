"""Careless and hostile losses on public random tuples."""

import functools
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from reldp._validate import LOSSES, OBJECTIVES, PAIRINGS, TYPED_LOSSES
from reldp.errors import ConfigError, InputError
from reldp.losses import HingeLoss, make_loss
from reldp.training.loss_check import check_loss
from reldp.training.objective import Objective
from tests.training.small import TYPES, small_parts, small_types
from tests.training.test_objective import Bilinear

torch.set_num_threads(1)
HINGE = HingeLoss(temperature=1.0)


def checked(loss, **plan):
    encoder, _, plan = small_parts(**plan)
    check_loss(Objective(encoder, loss, plan))


@pytest.mark.parametrize("name", TYPED_LOSSES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_included_typed_losses_pass(name, objective):
    def loss(**settings):
        return make_loss(name, type_names=TYPES, dim=4, objective=objective, **settings)

    checked(loss(), types=small_types())
    if name != "complex":
        checked(loss(matryoshka_dims=[4, 2]), types=small_types())
    if objective == "infonce":
        with pytest.raises(ConfigError, match="with `clipping` pair"):
            checked(loss(), types=small_types(), clipping="pair")
    else:
        checked(loss(pairing="one"), types=small_types(), clipping="pair")
        checked(loss(pairing="both"), types=small_types(), clipping="pair")


def rare_types_count_more(embeddings, batch):
    same = batch.types[:, None] == batch.types
    return HINGE(embeddings, batch).sum(1) / same.sum(1)


def type_of_the_next(embeddings, batch):
    return HINGE(embeddings, batch).sum(1) * (1 + batch.types.roll(1))


@pytest.mark.parametrize("loss", [rare_types_count_more, type_of_the_next])
def test_a_loss_that_looks_at_the_types_of_other_tuples_is_refused(loss):
    with pytest.raises(InputError, match=rf"a function of one tuple, got .*{loss.__name__}"):
        checked(loss, types=small_types())


def test_a_loss_that_changes_types_is_refused_and_one_that_uses_them_is_not():
    def changing(embeddings, batch):
        batch.types.zero_()
        return HINGE(embeddings, batch)

    with pytest.raises(ConfigError, match="leave its inputs as they are"):
        checked(changing, types=small_types())
    checked(lambda e, b: HINGE(e, b).sum(1) * (1 + b.types), types=small_types())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_included_losses_pass(name, pairing):
    checked(make_loss(name, pairing=pairing))
    checked(make_loss(name, pairing=pairing, matryoshka_dims=[4, 2]))
    if name != "infonce" and pairing != "all":
        checked(make_loss(name, pairing=pairing), clipping="pair")
    else:
        with pytest.raises(ConfigError, match=r"with `clipping` pair, .* got \(6,\) for 6 tuples"):
            checked(make_loss(name, pairing=pairing), clipping="pair")


def test_a_function_and_a_module_pass():
    checked(lambda embeddings, batch: embeddings.square().sum((1, 2)))
    checked(Bilinear())
    checked(Bilinear(), clipping="pair")


def in_batch_negatives(embeddings, batch):
    scores = embeddings[:, 0] @ embeddings[:, 1].T
    return functional.cross_entropy(scores, torch.arange(len(scores)), reduction="none")


def mean_over_tuples(embeddings, batch):
    return HINGE(embeddings, batch).sum(1) / batch.num_tuples


def detached_statistic(embeddings, batch):
    return HINGE(embeddings, batch).sum(1) / (1 + embeddings.detach().abs().mean())


def hard_negatives_of_the_batch(embeddings, batch):
    values = HINGE(embeddings, batch).sum(1)
    return torch.where(values >= values.median(), values, 0.0)


def position(embeddings, batch):
    return HINGE(embeddings, batch).sum(1) * (1 + torch.arange(len(embeddings)))


def only_through_the_gradient(embeddings, batch):
    """Values are those of each tuple, gradients reach the next one."""
    other = embeddings.roll(1, 0)
    hidden = embeddings.detach() * (other - other.detach())
    return HINGE(embeddings, batch).sum(1) + hidden.sum((1, 2))


@pytest.mark.parametrize(
    "loss",
    [
        in_batch_negatives,
        mean_over_tuples,
        detached_statistic,
        hard_negatives_of_the_batch,
        position,
        only_through_the_gradient,
    ],
)
def test_a_loss_over_the_batch_is_refused_by_name(loss):
    with pytest.raises(
        InputError, match=rf"`loss` must be a function of one tuple, got .*{loss.__name__}"
    ):
        checked(loss)


def random_numbers(embeddings, batch):
    return HINGE(embeddings, batch).sum(1) * float(np.random.default_rng().random())


def dropped_out(embeddings, batch):
    return HINGE(functional.dropout(embeddings, 0.5), batch)


class Counting:
    """A state outside of torch, which does not show in the first values."""

    def __init__(self):
        self.calls = 0

    def __call__(self, embeddings, batch):
        self.calls += 1
        return HINGE(embeddings, batch)


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(()))

    def forward(self, embeddings, batch):
        values = HINGE(embeddings, batch).sum(1)
        self.mean = 0.9 * self.mean + 0.1 * values.detach().mean()
        return values / self.mean


COUNTER = itertools.count(1)


def counted_elsewhere(embeddings, batch):
    return HINGE(embeddings, batch).sum(1) * next(COUNTER)


@pytest.mark.parametrize(
    "loss", [random_numbers, dropped_out, Counting(), RunningMean(), counted_elsewhere]
)
def test_random_numbers_and_state_between_calls_are_refused(loss):
    with pytest.raises((ConfigError, InputError), match="`loss` must"):
        checked(loss)


@pytest.mark.parametrize("loss", [random_numbers, dropped_out, RunningMean(), counted_elsewhere])
def test_what_changes_from_call_to_call_is_not_blamed_on_other_tuples(loss):
    with pytest.raises(
        ConfigError,
        match=r"`loss` must give the same .*, which does not\. Draw no random numbers, and keep no state",
    ):
        checked(loss)


def test_a_state_in_attributes_is_named():
    with pytest.raises(ConfigError, match=r"keep no state between calls, got .*Counting"):
        checked(Counting())


class Cached:
    """What is computed once, from public values, is no state."""

    @functools.cached_property
    def scale(self):
        return torch.tensor(2.0)

    def __call__(self, embeddings, batch):
        return self.scale * HINGE(embeddings, batch)


def test_values_that_are_computed_once_are_no_state():
    checked(Cached())


def in_place(embeddings, batch):
    embeddings[:, 0] *= 2
    return HINGE(embeddings, batch)


def mask_in_place(embeddings, batch):
    batch.mask.fill_(False)
    return HINGE(embeddings, batch)


@pytest.mark.parametrize("loss", [in_place, mask_in_place])
def test_a_loss_that_changes_its_inputs_is_refused(loss):
    with pytest.raises(ConfigError, match="leave its inputs as they are"):
        checked(loss)


OUTSIDE = nn.Linear(4, 4)


class HidesAModule:
    def __init__(self):
        self.parts = [nn.Linear(4, 4)]

    def __call__(self, embeddings, batch):
        return HINGE(self.parts[0](embeddings), batch)


@pytest.mark.parametrize("loss", [lambda e, b: HINGE(OUTSIDE(e), b), HidesAModule()])
def test_parameters_outside_of_the_losss_module_are_refused(loss):
    with pytest.raises(ConfigError, match="train no parameters except those of its own module"):
        checked(loss)


@pytest.mark.parametrize(
    ("loss", "rule"),
    [
        (lambda e, b: torch.ones(len(e)), "have a gradient"),
        (lambda e, b: HINGE(e.detach(), b), "have a gradient"),
        (lambda e, b: HINGE(e, b) * torch.nan, "finite"),
        (lambda e, b: e.norm(dim=-1).sum(1).log(), "finite"),
        (lambda e, b: e[:, 0].norm(dim=-1).sqrt(), "finite gradients"),
        (lambda e, b: HINGE(e, b).sum(), "one value per tuple"),
        (lambda e, b: e, "one value per tuple"),
        (lambda e, b: None, "one value per tuple"),
        (lambda e, endpoints, mask: e.sum((1, 2)), "take two arguments"),
    ],
)
def test_values_that_cannot_be_trained_on_are_refused(loss, rule):
    with pytest.raises(ConfigError, match=f"`loss` must .*{rule}"):
        checked(loss)


def share_of_unmasked(embeddings, batch):
    """Correct where nothing is masked: rare in training, and it must not be in the check."""
    valid = ~batch.mask
    return HINGE(embeddings, batch) * valid.numel() / valid.sum().clamp_min(1)


def zero_unless_all_is_finite(embeddings, batch):
    values = HINGE(embeddings, batch)
    return torch.where(torch.isfinite(values).all(), values, 0.0 * values)


def read_by_numpy(embeddings, batch):
    return HINGE(embeddings, batch) * (1.0 - 0.5 * batch.mask.numpy().any())


@pytest.mark.parametrize("plan", [{}, {"num_negatives": 1}, {"clipping": "pair"}])
@pytest.mark.parametrize("loss", [share_of_unmasked, zero_unless_all_is_finite, read_by_numpy])
def test_what_happens_to_rare_tuples_changes_no_other(loss, plan):
    with pytest.raises(InputError, match="must be a function of one tuple"):
        checked(loss, **plan)


def test_a_tuple_without_negatives_may_have_no_finite_loss_and_others_may_be_refused():
    """It contributes nothing then, as ever."""

    def log_of_negatives(embeddings, batch):
        scores = (embeddings[:, :1] * embeddings[:, 2:]).sum(-1)
        return torch.logsumexp(scores.masked_fill(batch.mask, -torch.inf), dim=1)

    def with_an_assertion(embeddings, batch):
        assert torch.isfinite(embeddings).all()
        return HINGE(embeddings, batch)

    checked(log_of_negatives)
    checked(with_an_assertion)


MEMORY = []


def in_a_global(embeddings, batch):
    MEMORY.append(float(embeddings.detach().norm()))
    return HINGE(embeddings, batch) * (1.0 if len(MEMORY) < 10_000 else MEMORY[-2])


def in_its_attributes(embeddings, batch):
    in_its_attributes.calls = getattr(in_its_attributes, "calls", 0) + 1
    return HINGE(embeddings, batch) * (1.0 if in_its_attributes.calls < 10_000 else 0.5)


class OnItsClass:
    memory = []  # noqa: RUF012 # the mistake

    def __call__(self, embeddings, batch):
        self.memory.append(len(embeddings))
        return HINGE(embeddings, batch) * (1.0 if len(self.memory) < 10_000 else 0.5)


class InSlots:
    __slots__ = ("calls",)

    def __init__(self):
        self.calls = 0

    def __call__(self, embeddings, batch):
        self.calls += 1
        return HINGE(embeddings, batch) * (1.0 if self.calls < 10_000 else 0.5)


@pytest.mark.parametrize("loss", [in_a_global, in_its_attributes, OnItsClass(), InSlots()])
def test_a_state_that_shows_later_is_found_wherever_it_is_kept(loss):
    with pytest.raises(ConfigError, match="must keep no state between calls"):
        checked(loss)
