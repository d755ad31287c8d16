"""The loss of a run, and everything that training changes."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from reldp.errors import ConfigError, RunError
from reldp.losses import HingeLoss, InfoNCELoss, LossBatch, make_loss
from reldp.training.config import LearningSettings
from reldp.training.objective import LOSS_WEIGHTS, Objective, relation_loss, resolve_loss
from tests.training.small import small_graph, small_parts, small_plan

torch.set_num_threads(1)


class Bilinear(nn.Module):
    """A loss with parameters of several kinds: a layer, a vector and a number."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)
        self.diagonal = nn.Parameter(torch.tensor([1.0, 0.5, 2.0, 1.0]))
        self.log_temperature = nn.Parameter(torch.tensor(-0.5))
        nn.init.eye_(self.layer.weight)

    def forward(self, embeddings, batch):
        head, tail, negatives = embeddings[:, :1], embeddings[:, 1:2], embeddings[:, 2:]
        mapped = self.layer(head) * self.diagonal
        gap = (mapped * negatives).sum(-1) - (mapped * tail).sum(-1)
        scaled = torch.nn.functional.softplus(gap / self.log_temperature.exp())
        return scaled.masked_fill(batch.mask, 0.0)


def objective(loss, **plan):
    encoder, _, plan = small_parts(**plan)
    return Objective(encoder, resolve_loss(loss, plan), plan)


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
    plan = small_parts()[2]
    assert resolve_loss(None, plan) == resolve_loss("infonce", plan) == InfoNCELoss(pairing="all")
    given = HingeLoss(margin=3.0)
    assert resolve_loss(given, plan) is given
    public = small_plan(small_graph().promise_degrees(4), negatives="public", pool_size=250)
    assert resolve_loss(None, public) == InfoNCELoss(pairing="one")


@pytest.mark.parametrize("loss", [3, HingeLoss])
def test_something_else_is_refused(loss):
    with pytest.raises(ConfigError, match=r"`loss` must be a name or a callable .* got"):
        resolve_loss(loss, small_parts()[2])


@pytest.mark.parametrize("clipping", ["tuple", "pair"])
def test_a_value_per_negative_is_summed_and_a_value_per_tuple_only_without_pairs(clipping):
    made = objective("hinge", clipping=clipping)
    k = made.num_negatives
    assert k == (1 if clipping == "pair" else 3)
    assert made.checked(torch.ones(2, k), 2).tolist() == [k, k]
    if clipping == "pair":
        with pytest.raises(ConfigError, match=r"a sum over negatives.*HingeLoss"):
            made.checked(torch.ones(2), 2)
    else:
        assert made.checked(torch.ones(2), 2).tolist() == [1, 1]
    for bad in (torch.ones(()), torch.ones(2, k + 1), torch.ones(3), 1.0):
        with pytest.raises(ConfigError, match=r"`loss` must (return one value|be a sum)"):
            made.checked(bad, 2)


def test_a_trained_loss_computes_the_same_unit_by_unit():
    loss, made = Bilinear(), None
    made = objective(loss)
    assert list(made.loss_parameters) == [
        "loss.diagonal",
        "loss.log_temperature",
        "loss.layer.weight",
    ]
    assert list(made.parameters) == [*made.encoder.trainable(), *made.loss_parameters]
    rows = torch.randn(5, 5, 4)
    batch = LossBatch.of(torch.randint(2, (5, 3)), torch.rand(5, 3) < 0.3)
    whole = made.values(rows, batch.endpoints, batch.mask)
    torch.testing.assert_close(whole, loss(rows, batch).sum(1))


def test_weights_of_encoder_and_loss_are_loaded_and_saved_together(tmp_path):
    made, other = objective(Bilinear()), objective(Bilinear())
    with torch.no_grad():
        for parameter in made.parameters.values():
            parameter += 1.0
    other.load(made.parameters)
    for name, value in made.parameters.items():
        assert torch.equal(value, other.parameters[name])
    made.save(tmp_path / "model")
    saved = load_file(tmp_path / "model" / LOSS_WEIGHTS)
    assert torch.equal(saved["diagonal"], made.loss.diagonal)
    with pytest.raises(ConfigError, match="all parameters of the loss"):
        other.load(made.encoder.trainable())


def test_a_loss_that_shares_parameters_with_the_encoder_is_refused():
    encoder, _, plan = small_parts()

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = next(encoder.module.parameters())

    with pytest.raises(ConfigError, match="shares some with the encoder"):
        Objective(encoder, Shared(), plan)


def test_compiled_modules_are_refused():
    encoder, _, plan = small_parts()
    with pytest.raises(ConfigError, match=r"`loss` must not be wrapped by torch\.compile"):
        Objective(encoder, torch.compile(Bilinear(), backend="eager"), plan)


def test_weights_of_a_run_start_no_other_run():
    trained, with_loss = objective("hinge"), objective(Bilinear())
    for made in (trained, with_loss):
        made.check_untrained()
        made.mark_trained()
        with pytest.raises(ConfigError, match="`encoder` must be as it was loaded"):
            made.check_untrained()
    with pytest.raises(ConfigError, match="`loss` must be as it was loaded"):
        objective(with_loss.loss).check_untrained()
    objective(trained.loss).check_untrained()


def test_layers_that_are_exchanged_are_noticed():
    made = objective(Bilinear())
    parts = made.parts()
    made.check_parts(parts)
    made.loss.layer = nn.Linear(4, 4, bias=False)
    with pytest.raises(RunError, match="must keep its layers"):
        made.check_parts(parts)


def test_the_engine_has_a_name_for_every_parameter():
    for made in (objective("hinge"), objective(Bilinear())):
        named = dict(made.module.named_parameters())
        assert [id(named[name]) for name in made.engine_names] == [
            id(p) for p in made.parameters.values()
        ]
