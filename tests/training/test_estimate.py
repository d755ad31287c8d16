"""Time and memory of a step are measured on public rows, and change nothing."""

import numpy as np
import pytest
import torch

from reldp.noise import Streams, new_key
from reldp.training import estimate
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


@pytest.mark.parametrize(
    ("microbatches", "noises", "expected"),
    [
        # The first microbatch warms up; then one slow moment, of a microbatch and of the noise.
        ([9, 2, 15, 3], [1, 1, 18], (3, 1)),
        ([9, 2, 3, 90], [18, 1, 1], (3, 1)),
        ([9, 3, 3, 3], [1, 2, 4], (3, 2)),
        # What is slow is not measured again.
        ([90, 30], [25], (30, 25)),
        ([9, 6, 15], [10, 12], (10.5, 11)),
    ],
)
def test_a_step_takes_its_microbatches_and_the_noise_by_their_median(
    monkeypatch, microbatches, noises, expected
):
    now, left = [0.0], {"_run_public": list(microbatches), "_draw_noise": list(noises)}

    def take(name):
        now[0] += left[name].pop(0)

    monkeypatch.setattr(estimate.time, "perf_counter", lambda: now[0])
    for name in left:
        monkeypatch.setattr(estimate, name, lambda *_, name=name: take(name))
    step = make_step(*small_parts(expected_batch_size=20.0), microbatch_units=6)
    found = estimate_step(step)
    assert (found.microbatch_seconds, found.noise_seconds) == expected
    assert found.num_microbatches == 4  # 20 units, 6 at once
    assert found.seconds == 4 * expected[0] + expected[1]
    assert not any(left.values())
