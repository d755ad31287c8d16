"""One step against slow versions of its parts, and against a neighbor of the graph."""

import numpy as np
import pytest
import torch
from torch import nn

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import ConfigError, RunError
from reldp.graph import EntityGraph
from reldp.losses import InfoNCELoss
from reldp.noise import Streams
from reldp.sampling import TupleBatch
from reldp.training.step import PrivateStep
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import (
    make_step,
    small_encoder,
    small_graph,
    small_parts,
    small_plan,
    some_units,
)

torch.set_num_threads(1)
KEY = bytes(range(32))


def prepared(parts, **settings):
    step = make_step(*parts, **settings)
    step.open(Streams(KEY))
    return step


def gradient(step, number=0, branch=0):
    """The noisy gradient of a step as one vector."""
    step.run(step.draw(number, branch), number, branch)
    return torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()])


def test_chunks_of_any_size_give_the_same_gradient(noise_by_address):
    whole = gradient(prepared(small_parts()))
    for size in (1, 3, 1000):
        assert torch.allclose(
            gradient(prepared(small_parts(), microbatch_units=size)), whole, atol=1e-6
        )


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
def test_the_sum_without_noise_is_bounded_by_the_rule(clipping):
    """Every tuple adds at most the clip norm, C/2 for the frequency rule."""
    parts = small_parts(clipping=clipping, noise_multiplier=0.0, clip_norm=0.01)
    step = prepared(parts, loss="logistic")
    batch = step.draw(0, 0)
    step.run(batch, 0, 0)
    total = torch.cat([p.grad.reshape(-1) for p in step.parameters.values()]).norm() * 20
    bound = 0.01 * batch.num_tuples * (0.5 if clipping == "frequency" else 1.0)
    assert 0.02 * bound < float(total) <= bound * (1 + 1e-6)


def test_noise_has_the_plan_s_deviation_and_the_public_divisor():
    """With hardly any tuple, the gradient is noise alone: sigma * C / b per coordinate.

    20 draws of 59 numbers: the sample deviation is within 8 % of the truth but once in 10,000 tries
    (chi-square with 1180 degrees of freedom); half the noise would miss by 50 %.
    """
    parts = small_parts(expected_batch_size=0.01, noise_multiplier=3.0, clip_norm=0.5, num_steps=20)
    step = prepared(parts)
    draws = [gradient(step, number) for number in range(20) if step.draw(number, 0).num_tuples == 0]
    found = torch.cat(draws)
    assert len(found) > 1000
    expected = 3.0 * 0.5 / 0.01
    assert float(found.std()) == pytest.approx(expected, rel=0.08)
    assert abs(float(found.mean())) < 5 * expected / len(found) ** 0.5


def test_branches_and_steps_have_their_own_noise_and_batches():
    step = prepared(small_parts())
    one, two, three = gradient(step, 0, 0), gradient(step, 1, 0), gradient(step, 0, 1)
    assert not torch.allclose(one, two)
    assert not torch.allclose(one, three)
    assert torch.equal(gradient(prepared(small_parts()), 0, 0), one)


def test_another_sum_has_other_noise_at_the_same_address():
    """Subtracting the results of two runs with one key must never leave their sums alone."""
    for noise in ("secure", "fast"):
        step = prepared(small_parts(), noise_generator=noise)
        one, two = (torch.zeros(1000, dtype=torch.float64) for _ in range(2))
        two[7] = 2.0**-30
        drawn, again, other = (step._draw_noise(3, 0, total) for total in (one, one.clone(), two))
        assert torch.equal(drawn, again)
        assert not (drawn == other).any()
        # Independent draws: |correlation| above 0.16 once in 2 million tries.
        assert abs(float(torch.corrcoef(torch.stack([drawn, other]))[0, 1])) < 0.16


def test_fast_noise_depends_on_nothing_that_was_drawn_before():
    fast = prepared(small_parts(), noise_generator="fast")
    again = prepared(small_parts(), noise_generator="fast")
    gradient(again, 5)
    drawn = gradient(fast, 2)
    assert torch.equal(drawn, gradient(again, 2))
    assert not torch.equal(drawn, gradient(prepared(small_parts()), 2))


def test_removing_one_relation_of_the_batch_moves_the_sum_by_at_most_the_clip_norm():
    """Neighbor test: the same random draws, one tuple less."""
    step = prepared(small_parts(noise_multiplier=0.0, clip_norm=0.05))
    batch = step.draw(0, 0)
    whole = step.clipped_sum(step.clip_units(batch)).total
    step.run(batch, 0, 0)
    released = torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()]) * 20
    assert torch.allclose(released, whole)
    for index in range(0, batch.num_tuples, 5):
        keep = [i for i in range(batch.num_tuples) if i != index]
        names = ("positives", "negatives", "endpoints", "relation_ids")
        less = TupleBatch(**{name: getattr(batch, name)[keep] for name in names})
        part = step.clipped_sum(step.clip_units(less)).total
        moved = float((whole - part).norm())
        assert 0.2 * 0.05 < moved <= 0.05 * (1 + 1e-5)


def test_texts_are_ordered_by_length_and_the_gradient_is_the_same(tmp_path):
    words = SENTENCE.split()
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(words, 1 + i % 9)) for i in range(150)]
    graph = EntityGraph.from_lists(
        list(range(150)), [(i, (i + 1) % 150) for i in range(150)], text=texts
    )
    capped = graph.promise_degrees(2)
    plan = small_plan(capped, num_negatives=2, expected_batch_size=8.0)
    model = write_model("bert", tmp_path / "model")

    def encoder():
        return TextEncoder.load(model, lora_rank=2)

    packed = prepared((encoder(), capped, plan))
    units = packed.clip_units(packed.draw(0, 0))
    longest = packed._rows.longest(units.entities)
    assert (np.diff(longest) <= 0).all()
    single = prepared((encoder(), capped, plan), microbatch_units=1)
    assert torch.allclose(gradient(packed), gradient(single), atol=1e-6)


def test_an_encoder_with_nothing_to_train_is_refused(tmp_path):
    model = write_model("bert", tmp_path / "model")
    frozen = TextEncoder.load(model, train="none")
    graph = EntityGraph.from_lists([1, 2, 3], [(1, 2), (2, 3)], text=["a", "b", "c"])
    capped = graph.promise_degrees(2)
    plan = small_plan(capped, num_negatives=1, expected_batch_size=0.001)
    with pytest.raises(ConfigError, match="trainable parameters"):
        make_step(frozen, capped, plan)


def test_a_pool_of_another_size_is_refused():
    capped = small_graph().promise_degrees(4)
    plan = small_plan(capped, negatives="public", pool_size=200)
    pool = np.zeros((190, 6), dtype=np.float32)
    with pytest.raises(ConfigError, match="200 public entities, got 190"):
        make_step(small_encoder(), capped, plan, pool=pool)


def test_thresholds_are_lowered_only_for_sums_that_are_not_exact():
    exact = prepared(small_parts())
    assert exact._margin == 0.0
    generator = np.random.default_rng(0)
    features = generator.normal(size=(300, 96)).astype(np.float32)
    graph = EntityGraph.from_lists(
        list(range(300)), [(i, (i + 1) % 300) for i in range(300)], features=features
    )
    capped = graph.promise_degrees(2)
    large = prepared((FeatureEncoder(96), capped, small_plan(capped)))
    assert 1e-9 < large._margin < 1e-6
    pairs = small_plan(capped, clipping="pair", num_negatives=4)
    assert prepared((FeatureEncoder(96), capped, pairs), loss="hinge")._margin > large._margin
    units = large.clip_units(large.draw(1, 0))
    alone = large.clipped_sum(some_units(units, slice(0, 1)))
    length = float(alone.total.norm()) * large._plan.grid
    assert length <= large._plan.clip_norm * (1 - large._margin)


def test_a_batch_beyond_what_the_margin_was_computed_for_is_refused(monkeypatch):
    step = prepared(small_parts())
    monkeypatch.setattr("reldp.training.step.max_batch_units", lambda plan: 2)
    with pytest.raises(RunError, match="far more than the plan"):
        step.run(step.draw(0, 0), 0, 0)


def test_a_module_in_training_mode_is_put_into_evaluation_mode():
    encoder, capped, plan = small_parts()
    encoder.module.activation = torch.nn.Dropout(0.5)
    step = prepared((encoder, capped, plan))
    expected = gradient(step)
    encoder.module.train()
    step.open(Streams(KEY))  # as a resumed run does
    assert torch.equal(gradient(step), expected)
    assert not encoder.module.activation.training


class Repeated(nn.Module):
    """One large layer, used several times on several positions of every row."""

    def __init__(self, uses, positions):
        super().__init__()
        self.linear = nn.Linear(96, 96)
        self.uses, self.positions = uses, positions

    def forward(self, features):
        spread = features[:, None, :].repeat(1, self.positions, 1)
        for _ in range(self.uses):
            spread = torch.tanh(self.linear(spread))
        return spread.mean(1)


def test_the_margin_counts_every_use_and_every_position_of_a_large_layer():
    features = np.random.default_rng(0).normal(size=(300, 96)).astype(np.float32)
    pairs = [(i, (i + 1) % 300) for i in range(300)]
    capped = EntityGraph.from_lists(list(range(300)), pairs, features=features).promise_degrees(2)
    plan = small_plan(capped, noise_multiplier=1e-3)
    errors = []
    for uses, positions in ((1, 1), (3, 1), (3, 7)):
        encoder = FeatureEncoder(96)
        encoder.module = Repeated(uses, positions)
        step = prepared((encoder, capped, plan))
        shape = step._shapes.units_of(1) * step._shapes.rows_per_unit
        assert step._engine.max_positions == shape * uses * positions
        errors.append(step._margin)
        step.run(step.draw(0, 0), 0, 0)
    assert errors[0] < errors[1] < errors[2]
    encoder.module.positions = 8  # more than was counted on
    with pytest.raises(RunError, match="no more positions"):
        step.clipped_sum(step.clip_units(step.draw(1, 0)))


def test_a_module_wrapped_by_torch_compile_is_refused_by_name():
    encoder, capped, plan = small_parts()
    encoder.module = torch.compile(encoder.module, backend="eager")
    with pytest.raises(ConfigError, match=r"`encoder` must not be wrapped by torch\.compile"):
        PrivateStep(encoder, capped, plan)


def test_a_plan_about_another_graph_is_refused():
    encoder, capped, plan = small_parts()
    other = small_graph().cap_degrees(3, seed=0)
    with pytest.raises(ConfigError, match="`max_degree`"):
        PrivateStep(encoder, other, plan)
    with pytest.raises(ConfigError, match="`clip` must be true when there is noise"):
        PrivateStep(encoder, capped, plan, clip=False)


def test_a_loss_is_a_name_or_a_loss_and_infonce_unless_given():
    def taken(**settings):
        step = PrivateStep(*small_parts(), **settings)
        step.open(Streams(KEY))
        return gradient(step)

    given = InfoNCELoss(pairing="all")
    assert torch.equal(taken(), taken(loss="infonce"))
    assert torch.equal(taken(), taken(loss=given))
    assert torch.equal(taken(), gradient(prepared(small_parts())))
    assert not torch.equal(taken(), taken(loss="hinge"))
    with pytest.raises(ConfigError, match="`loss` must be a sum over negatives"):
        PrivateStep(*small_parts(clipping="pair"))
