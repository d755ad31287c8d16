"""Misuse of the public step that would make the plan's epsilon false: each is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import reldp
from reldp.encoders import FeatureEncoder
from reldp.errors import ConfigError, InputError, RunError
from reldp.losses import LogisticLoss
from reldp.noise import Streams
from reldp.sampling import TupleBatch
from reldp.training.step import PrivateStep
from reldp.training.trainer import Trainer
from tests.training.small import make_step, small_encoder, small_parts

torch.set_num_threads(1)
KEY = bytes(range(32))


def opened(parts=None, **settings):
    step = PrivateStep(*(parts or small_parts()), **settings)
    step.open(Streams(KEY))
    return step


def run(step, number, branch=0):
    return step.run(step.draw(number, branch), number, branch)


def test_a_step_runs_once():
    """The same draws, and on a GPU the same noise, with other weights would be a second release."""
    step = opened()
    run(step, 0)
    with torch.no_grad():
        next(iter(step.parameters.values())).add_(1.0)
    with pytest.raises(RunError, match="must run once, got step 0 of branch 0"):
        run(step, 0)
    run(step, 0, branch=1)


def test_streams_serve_one_step_once_whoever_asks():
    streams = Streams(KEY)
    first, second = (PrivateStep(*small_parts()) for _ in range(2))
    first.open(streams)
    second.open(streams)
    run(first, 3)
    with pytest.raises(RunError, match="must run once"):
        run(second, 3)


def test_opening_again_does_not_forget_what_ran():
    streams = Streams(KEY)
    step = PrivateStep(*small_parts())
    step.open(streams)
    run(step, 0)
    step.open(streams)
    with pytest.raises(RunError, match="must run once"):
        run(step, 0)


def test_a_step_that_failed_before_its_noise_may_run_again():
    step = opened()
    batch = step.draw(0)
    kept = step._rows.table
    step._rows.table = None
    with pytest.raises(AttributeError):
        step.run(batch, 0)
    step._rows.table = kept
    step.run(batch, 0)


def test_no_step_beyond_those_of_the_plan():
    """The plan's epsilon is that of its steps."""
    encoder, capped, plan = small_parts()
    step = opened((encoder, capped, plan))
    with pytest.raises(RunError, match="at most the plan's 12"):
        run(step, plan.num_steps)


def test_branches_do_not_add_steps_to_the_plan():
    encoder, capped, plan = small_parts()
    step = opened((encoder, capped, replace(plan, num_steps=2)))
    run(step, 0)
    run(step, 0, branch=1)
    with pytest.raises(RunError, match="at most the plan's 2"):
        run(step, 1, branch=1)


def changed(batch, **values):
    names = ("positives", "negatives", "endpoints", "relation_ids")
    return TupleBatch(**{**{name: getattr(batch, name) for name in names}, **values})


def test_a_batch_must_be_the_one_drawn_for_the_step():
    step = opened()
    batch = step.draw(0)
    doubled = TupleBatch(
        **{
            name: np.concatenate([getattr(batch, name)] * 2)
            for name in ("positives", "negatives", "endpoints", "relation_ids")
        }
    )
    for other, number, branch in (
        (doubled, 0, 0),
        (changed(batch), 0, 0),
        (batch, 1, 0),
        (batch, 0, 1),
        (opened().draw(0), 0, 0),
    ):
        with pytest.raises(RunError, match="`batch` must be what `draw` returned"):
            step.run(other, number, branch)
    step.run(batch, 0)


def test_batches_may_be_drawn_ahead_and_cannot_be_changed():
    step = opened()
    batches = [step.draw(number) for number in range(3)]
    for name in ("positives", "negatives", "endpoints", "relation_ids", "mask"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(batches[0], name)[...] = 0
    for number, batch in enumerate(batches):
        step.run(batch, number)


def test_a_step_must_be_opened_first():
    step = PrivateStep(*small_parts())
    with pytest.raises(RunError, match="must be counted before it runs"):
        step.draw(0)


class LooseTemperedLoss:
    """A loss with a weight that somebody might train, hidden in a plain object."""

    def __init__(self):
        self.parts = {"scale": torch.ones((), requires_grad=True)}

    def __call__(self, embeddings, batch):
        return LogisticLoss()(embeddings, batch) * self.parts["scale"]


def test_weights_of_a_loss_that_is_no_module_would_get_a_gradient_without_noise():
    with pytest.raises(ConfigError, match="no parameters except those of its own module"):
        opened(loss=LooseTemperedLoss())


def test_weights_that_a_loss_uses_are_not_unfrozen_between_steps():
    head = nn.Linear(4, 4).requires_grad_(False)
    step = opened(loss=lambda embeddings, batch: LogisticLoss()(head(embeddings), batch))
    run(step, 0)
    head.requires_grad_(True)
    with pytest.raises(RunError, match="which changed after it was checked"):
        run(step, 1)
    assert head.weight.grad is None


class OutsideWeight(FeatureEncoder):
    """An encoder with a weight that is not in its module."""

    outside = torch.ones((), requires_grad=True)

    def embed(self, inputs):
        return super().embed(inputs) * self.outside


def test_weights_of_an_encoder_outside_of_its_module_would_too():
    _, capped, plan = small_parts()
    with pytest.raises(InputError, match="must be frozen or in `module`"):
        opened((OutsideWeight(6, dim=4), capped, plan))


class ThawedWeight(OutsideWeight):
    outside = torch.ones(())


def test_nor_are_weights_of_an_encoder_outside_of_its_module():
    _, capped, plan = small_parts()
    step = opened((ThawedWeight(6, dim=4), capped, plan))
    run(step, 0)
    ThawedWeight.outside.requires_grad_(True)
    with pytest.raises(InputError, match="must be frozen or in `module`"):
        run(step, 1)
    assert ThawedWeight.outside.grad is None


def swapped_module(encoder):
    encoder.module = small_encoder().module


def added_layer(encoder):
    encoder.module.register_module("more", nn.Linear(4, 4))


def swapped_parameter(encoder):
    layer = next(child for child in encoder.module.modules() if isinstance(child, nn.Linear))
    layer.weight = nn.Parameter(layer.weight.detach().clone())


def added_hook(encoder):
    encoder.module.register_forward_hook(lambda module, inputs, output: output - output.mean(0))


def swapped_layer(encoder):
    encoder.module.activation = nn.Tanh()


def added_backward_hook(encoder):
    layer = next(child for child in encoder.module.modules() if isinstance(child, nn.Linear))
    layer.register_full_backward_pre_hook(lambda module, given: tuple(g / g.norm() for g in given))


def replaced_forward(encoder):
    forward = encoder.module.forward
    encoder.module.forward = lambda *args, **kwargs: forward(*args, **kwargs).cumsum(0)


def replaced_embed(encoder):
    embed = encoder.embed
    encoder.embed = lambda rows: embed(rows).cumsum(0)


@pytest.mark.parametrize(
    "change",
    [
        *(swapped_module, added_layer, swapped_parameter, added_hook, swapped_layer),
        *(added_backward_hook, replaced_forward, replaced_embed),
    ],
)
def test_a_module_changed_between_steps_is_refused(change):
    """Its new parameters would get gradients without noise, and nobody checked that rows are apart."""
    encoder, capped, plan = small_parts()
    step = opened((encoder, capped, plan))
    run(step, 0)
    change(encoder)
    with pytest.raises(RunError, match="must keep its layers, parameters and hooks"):
        run(step, 1)


def test_moving_or_casting_a_module_is_no_change():
    encoder, capped, plan = small_parts()
    step = opened((encoder, capped, plan))
    run(step, 0)
    encoder.to("cpu")
    encoder.module.float()
    run(step, 1)


class BackwardsEncoder(FeatureEncoder):
    """Names its parameters in another order than its module."""

    def trainable(self):
        return dict(reversed(super().trainable().items()))


def test_every_parameter_gets_the_gradient_of_its_name():
    """Also in another order than the module's."""
    _, capped, plan = small_parts(noise_multiplier=0.0)
    gradients = []
    for kind in (FeatureEncoder, BackwardsEncoder):
        # Square layers: shapes do not tell their parameters apart.
        step = make_step(kind(6, hidden=(6,), dim=6), capped, plan)
        step.open(Streams(KEY))
        run(step, 0)
        gradients.append({name: p.grad for name, p in step.parameters.items()})
    for name, value in gradients[0].items():
        assert torch.equal(value, gradients[1][name]), name


def test_a_run_does_not_start_from_what_a_step_has_learned(tmp_path):
    """The certificate would not cover it."""
    encoder, capped, plan = small_parts()
    run(opened((encoder, capped, plan)), 0)
    with pytest.raises(ConfigError, match="must be as it was loaded"):
        Trainer(encoder, capped, plan).fit(tmp_path / "run")


def test_noise_that_vanishes_in_floating_point_is_refused():
    """A noise multiplier above zero has a finite epsilon, so noise must be added."""
    encoder, capped, plan = small_parts()
    small = replace(plan, clip_norm=5e-324, noise_multiplier=0.4)
    assert np.isfinite(small.epsilon())
    with pytest.raises(ConfigError, match="`clip_norm`"):
        reldp.PrivateStep(encoder, capped, small)


def test_parts_of_a_trainer_cannot_be_exchanged_after_they_were_checked():
    """Its step is made once, so that the ledger could name another plan than the one that runs."""
    encoder, capped, plan = small_parts()
    trainer = Trainer(encoder, capped, plan)
    for name, value in (("plan", plan), ("encoder", encoder), ("config", trainer.config)):
        with pytest.raises(AttributeError, match="Make a new Trainer"):
            setattr(trainer, name, value)
