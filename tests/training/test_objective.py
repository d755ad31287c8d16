"""The loss of a run, and everything that training changes."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from reldp.errors import ConfigError, RunError
from reldp.losses import InfoNCELoss, LossBatch
from reldp.training.chosen_loss import resolve_loss
from reldp.training.objective import LOSS_WEIGHTS, Objective
from tests.training.small import small_parts, small_types

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
    encoder, capped, plan = small_parts(**plan)
    return Objective(encoder, resolve_loss(loss, plan, capped, encoder), plan)


def test_an_untyped_loss_ignores_types_and_ones_own_loss_sees_them():
    seen = []

    def loss(embeddings, batch):
        seen.append(batch.types)
        return InfoNCELoss()(embeddings, batch)

    encoder, capped, plan = small_parts(types=small_types())
    made = Objective(encoder, resolve_loss(loss, plan, capped, encoder), plan)
    rows, batch = torch.randn(2, 5, 4), LossBatch.of([[0] * 3] * 2, [[False] * 3] * 2, [2, 1])
    values = made.values(rows, batch.endpoints, batch.mask, batch.types)
    assert torch.equal(seen[-1], torch.tensor([2, 1]))
    assert torch.equal(values, InfoNCELoss()(rows, LossBatch(batch.endpoints, batch.mask)))
    assert made.num_types == 3
    assert objective("infonce").num_types == 0


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
