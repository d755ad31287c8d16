"""The guard of a real step: what it must find in encoders, before any private row is touched."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.errors import InputError, RunError
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.training import guard
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import make_step, small_encoder, small_parts, small_plan

torch.set_num_threads(1)


class Centered(nn.Module):
    """Takes off the mean of the batch below everything that is trained; maybe detached."""

    def __init__(self, inner, detached):
        super().__init__()
        self.inner, self.detached = inner, detached

    def forward(self, features):
        mean = features.mean(0, keepdim=True)
        return self.inner(features - (mean.detach() if self.detached else mean))


class Switched(nn.Module):
    """Mixes rows once it is told to, by an object of a library: nobody looks into these."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.begin = inner, threading.Event()

    def forward(self, features):
        mixed = features - features.mean(0, keepdim=True)
        return self.inner(mixed if self.begin.is_set() else features)


class Counting(nn.Module):
    """Mixes rows after a number of forwards, which is kept somewhere."""

    calls_of_all = [0]  # noqa: RUF012 # the mistake

    def __init__(self, inner, place):
        super().__init__()
        self.inner, self.place, self.calls = inner, place, 0
        self.register_buffer("counted", torch.zeros(()))

    def forward(self, features):
        if self.place == "attribute":
            self.calls += 1
        elif self.place == "buffer":
            self.counted += 1
        elif self.place == "class":
            self.calls_of_all[0] += 1
        else:
            CALLS["all"] += 1
        calls = self.calls + int(self.counted) + self.calls_of_all[0] + CALLS["all"]
        return self.inner(features - features.mean(0, keepdim=True) if calls > 9999 else features)


CALLS = {"all": 0}


class Running(nn.Module):
    """Keeps a running mean of what it has seen: a state that carries rows into later steps."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, features):
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * features.mean(0))
        return self.inner(features - self.mean)


def opened(wrap, **settings):
    encoder, capped, plan = small_parts()
    encoder.module = wrap(encoder.module)
    step = make_step(encoder, capped, plan, **settings)
    step.open(Streams(bytes(range(32))))
    return step


@pytest.mark.parametrize("units", [None, 2, 3, 50])
@pytest.mark.parametrize("detached", [False, True])
def test_batch_statistics_below_the_first_trained_layer_are_refused(detached, units):
    with pytest.raises(InputError, match="keep units apart"):
        opened(lambda module: Centered(module, detached), microbatch_units=units)


@pytest.mark.parametrize("units", [None, 1])
def test_a_module_with_a_state_is_refused(units):
    with pytest.raises(InputError, match=r"keep units apart|even for a unit alone"):
        opened(Running, microbatch_units=units)


def test_no_private_row_is_touched_before_the_check(monkeypatch):
    """Row 0 is asked for its kind and size, and never given to the module."""
    encoder, capped, plan = small_parts()
    seen = []
    embed = encoder.embed
    monkeypatch.setattr(encoder, "embed", lambda rows: seen.append(rows["features"]) or embed(rows))
    make_step(encoder, capped, plan).open(Streams(bytes(32)))
    private = {tuple(row) for row in capped.graph.features.tolist()}
    assert len(seen) > 2
    assert not any(tuple(row) in private for rows in seen for row in rows.tolist())


def test_a_module_that_begins_to_mix_later_is_stopped(monkeypatch):
    """With a look at every step; in training it is at random steps, one in 64."""
    monkeypatch.setattr(guard, "_CHECK_INTERVAL", 1)
    step = opened(Switched)
    step.run(step.draw(0, 0), 0, 0)
    step._encoder.module.begin.set()
    with pytest.raises(RunError, match="Does the module keep a state"):
        step.run(step.draw(1, 0), 1, 0)


@pytest.mark.parametrize("place", ["attribute", "buffer", "class", "global"])
def test_a_state_of_a_module_that_shows_later_is_found_wherever_it_is_kept(place):
    with pytest.raises(RunError, match="`encoder` must keep no state between steps"):
        opened(lambda module: Counting(module, place))


def test_a_module_that_changes_after_its_check_takes_no_step():
    step = opened(Switched)
    step.run(step.draw(0, 0), 0, 0)
    step._encoder.module.more = 1
    with pytest.raises(RunError, match="got one that changed after it was checked"):
        step.run(step.draw(1, 0), 1, 0)


class Caching(nn.Module):
    """Keeps what it computes once for every shape."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.ones = inner, {}

    def forward(self, features):
        ones = self.ones.setdefault(len(features), torch.ones(len(features), 1))
        return self.inner(features * ones)


def test_a_module_may_keep_what_it_computes_once():
    step = opened(Caching)
    for number in range(3):
        step.run(step.draw(number, 0), number, 0)


def test_looks_are_at_random_steps_of_which_there_are_enough(monkeypatch):
    looks = []
    monkeypatch.setattr(guard, "is_still_local", lambda *_, **kind: looks.append(kind) or True)
    step = opened(lambda module: module)
    for number in range(2000):
        step._check_again(number, 0)
    assert 10 <= len(looks) <= 60  # 31 expected, five deviations either way


def test_weights_are_put_back_and_zeros_do_not_hide_products():
    encoder = small_encoder()
    with torch.no_grad():
        encoder.layers[1].weight.zero_()
    before = {name: p.detach().clone() for name, p in encoder.trainable().items()}
    _, capped, plan = small_parts()
    step = make_step(encoder, capped, plan)
    step.open(Streams(bytes(32)))
    assert all(torch.equal(p, before[name]) for name, p in encoder.trainable().items())
    assert step._shapes.layouts[1] != "single"  # gradients were shown although weights are zero


def test_the_layout_does_not_depend_on_the_weights(monkeypatch):
    """A run that is resumed with trained weights must find the layout that it had."""
    seen = []
    for scale in (1.0, 1e3, 0.0):
        encoder, capped, plan = small_parts()
        with torch.no_grad():
            for parameter in encoder.trainable().values():
                parameter.mul_(scale)
        step = make_step(encoder, capped, plan)
        embed = encoder.embed
        outputs = []
        monkeypatch.setattr(
            encoder, "embed", lambda rows, e=embed, o=outputs: o.append(e(rows)) or o[-1]
        )
        step.open(Streams(bytes(32)))
        sums = torch.stack(
            [o.detach().sum() for o in outputs]
        ).nan_to_num()  # some rows are not finite
        seen.append((step._shapes.layouts, sums))
    assert all(found[0] == seen[0][0] and torch.equal(found[1], seen[0][1]) for found in seen)


def test_the_precision_of_the_loop_around_a_step_does_not_reach_it():
    """Units were checked without it: in bfloat16 their bits depend on others."""
    gradients = []
    for is_on in (False, True):
        step = opened(lambda module: module)
        batch = step.draw(0, 0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_on):
            step.run(batch, 0, 0)
        gradients.append(torch.cat([p.grad.reshape(-1) for p in step.parameters.values()]))
    assert torch.equal(*gradients)


def test_another_number_of_threads_is_checked_anew(monkeypatch):
    step = opened(lambda module: module)
    found = []
    honest = step._guard.find_layouts
    monkeypatch.setattr(step._guard, "find_layouts", lambda s: found.append(s) or honest(s))
    step.run(step.draw(0, 0), 0, 0)
    torch.set_num_threads(2)
    try:
        step.run(step.draw(1, 0), 1, 0)
    finally:
        torch.set_num_threads(1)
    assert len(found) == 1


@pytest.mark.parametrize("train", ["lora", "full", "head", "last:1", "pooling"])
@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_text_encoders_have_a_layout_for_every_length(tmp_path, kind, train):
    texts = [" ".join(SENTENCE.split()[: 1 + i % 5]) for i in range(60)]
    graph = EntityGraph.from_lists(
        list(range(60)), [(i, (i + 1) % 60) for i in range(60)], text=texts
    )
    capped = graph.promise_degrees(2)
    encoder = TextEncoder.load(
        write_model(kind, tmp_path / "m"),
        train=train,
        max_length=16,
        pooling="mean" if train == "pooling" else None,
    )
    plan = small_plan(capped, num_negatives=2, expected_batch_size=5.0)
    step = make_step(encoder, capped, plan)
    step.open(Streams(bytes(32)))
    assert sorted(step._shapes.layouts) == step._shapes.lengths()


def test_an_encoder_of_whole_numbers_must_say_what_public_rows_are():
    class Whole(FeatureEncoder):
        def rows(self, table, indices):
            return {"features": super().rows(table, indices)["features"].round().long()}

    _, capped, plan = small_parts()
    step = make_step(Whole(6), capped, plan)
    with pytest.raises(Exception, match="`synthetic_rows` must be written"):
        step.open(Streams(np.zeros(32, np.uint8).tobytes()))


class Shaped(nn.Module):
    """Does something to all rows that public random rows alone would not reveal."""

    def __init__(self, inner, what):
        super().__init__()
        self.inner, self.what = inner, what

    def forward(self, features):
        return self.inner(self.what(features))


def where_large(x):
    largest = x.abs().amax()
    return torch.where(largest > 10, x / largest, x)


@pytest.mark.parametrize("units", [None, 3])
@pytest.mark.parametrize(
    "what",
    [where_large, lambda x: x / (x.abs().max() / 10).clamp(min=1), lambda x: x - 1e-9 * x.mean(0)],
)
def test_modules_that_act_on_rows_that_stand_out_are_refused(what, units):
    with pytest.raises(InputError, match="keep units apart"):
        opened(lambda inner: Shaped(inner, what), microbatch_units=units)


def test_units_of_a_module_that_decides_by_values_are_run_alone():
    def routed(x):
        out, chosen = x, x.sum(1) > 0
        for expert in (chosen, ~chosen):
            where = torch.where(expert)[0]
            out = out.index_copy(0, where, x[where].tanh())
        return out

    for what in (lambda x: x / x.max() if x.max() > 10 else x, routed):
        step = opened(lambda inner, what=what: Shaped(inner, what))
        assert set(step._shapes.layouts.values()) == {"single"}
        step.close()
    plain = opened(lambda inner: Shaped(inner, torch.tanh))
    assert set(plain._shapes.layouts.values()) != {"single"}
    plain.close()


class Looking(FeatureEncoder):
    """Looks for certain numbers in the whole batch, which ordinary rows do not have."""

    looks_for = staticmethod(lambda embeddings: ~torch.isfinite(embeddings))

    def embed(self, inputs):
        embeddings = super().embed(inputs)
        return torch.where(self.looks_for(embeddings).any(), 0.0 * embeddings, embeddings)


class LookingForHugeOnes(Looking):
    looks_for = staticmethod(lambda embeddings: embeddings.abs() > 1e25)


class Stopping(FeatureEncoder):
    """Stops where a number is not finite."""

    def embed(self, inputs):
        assert all(bool(torch.isfinite(value).all()) for value in inputs.values())
        return super().embed(inputs)


@pytest.mark.parametrize("kind", [Looking, LookingForHugeOnes])
def test_encoders_that_look_for_rare_numbers_in_the_batch_are_refused(kind):
    """One entity whose embedding overflows would change the gradients of all others."""
    _, capped, plan = small_parts()
    step = make_step(kind(6, hidden=(5,), dim=4), capped, plan)
    with pytest.raises(InputError, match="must keep units apart"):
        step.prepare()


def test_encoders_may_stop_at_numbers_that_are_not_finite():
    _, capped, plan = small_parts()
    make_step(Stopping(6, hidden=(5,), dim=4), capped, plan).prepare()


def test_a_public_unit_has_the_same_bits_in_all_processes_whatever_is_beside_it():
    step = make_step(*small_parts(), threads=1, microbatch_units=4)
    step.prepare()

    def contributions(rank, **settings):
        settings = {"seed": 3, "public_weights": True, **settings}
        found = step._guard.public_contributions(step._shapes, [1], rank=rank, **settings)
        return next(iter(found))

    bits, total = contributions(0)
    assert total.any()
    for rank in range(1, 6):
        assert contributions(rank)[0] == bits
        assert torch.equal(contributions(rank)[1], total)
    assert contributions(0, seed=4)[0] != bits
    assert contributions(0, public_weights=False)[0] != bits


def test_a_public_unit_of_a_module_that_mixes_rows_differs_between_processes():
    """The control: other units and the position depend on the process."""
    encoder, capped, plan = small_parts()
    step = make_step(encoder, capped, plan, threads=1, microbatch_units=4)
    step.prepare()
    losses = step._losses
    step._losses = lambda microbatch: losses(microbatch) * losses(microbatch).detach().mean()
    settings = {"seed": 0, "public_weights": True}
    found = [
        next(iter(step._guard.public_contributions(step._shapes, [1], rank=rank, **settings)))[0]
        for rank in range(3)
    ]
    assert len({*found}) == 3
