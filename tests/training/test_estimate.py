"""Time and memory of a step are measured on public rows, and change nothing."""

import numpy as np
import torch

from reldp.noise import Streams, new_key
from reldp.training.estimate import estimate_step
from tests.training.small import make_step, small_encoder, small_graph, small_parts, small_plan

torch.set_num_threads(1)


def test_a_step_has_a_time_and_its_weights_stay():
    encoder, capped, plan = small_parts()
    step = make_step(encoder, capped, plan)
    before = {name: value.clone() for name, value in step.parameters.items()}
    found = estimate_step(step)
    assert 0 < found.seconds < 60
    assert found.num_microbatches >= 1
    assert found.peak_bytes > 2**20
    for name, value in step.parameters.items():
        assert torch.equal(value, before[name])
        assert value.grad is None


def test_no_private_row_is_read(monkeypatch):
    """Rows of the graph are made useless: an estimate that touched them would fail."""
    step = make_step(*small_parts())

    def refuse(*_):
        raise AssertionError("a private row")

    monkeypatch.setattr(type(step._rows), "of", refuse)
    estimate_step(step)


def test_an_estimate_does_not_move_the_bits_of_a_run():
    key, results = new_key(), []
    for estimated in (False, True):
        step = make_step(*small_parts())
        if estimated:
            estimate_step(step)
        step.open(Streams(key))
        step.run(step.draw(0), 0)
        results.append([p.grad.numpy().copy() for p in step.parameters.values()])
        step.close()
    assert all(np.array_equal(one, two) for one, two in zip(*results, strict=True))


def test_larger_batches_have_more_microbatches():
    capped = small_graph().promise_degrees(4)
    numbers = [
        estimate_step(
            make_step(
                small_encoder(), capped, small_plan(capped, expected_batch_size=size), **settings
            )
        ).num_microbatches
        for size, settings in ((20.0, {"microbatch_units": 6}), (60.0, {"microbatch_units": 6}))
    ]
    assert numbers == [4, 12]


def test_a_step_without_clipping_and_noise_is_measured_too():
    encoder, capped, plan = small_parts(noise_multiplier=0.0)
    assert estimate_step(make_step(encoder, capped, plan, clip=False)).seconds > 0
