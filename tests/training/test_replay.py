"""Frames and recordings: filled up to a fixed shape, a sum stays what it was."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reldp.encoders import TextEncoder
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.training.config import TrainingConfig
from reldp.training.replay import (
    Frame,
    Replay,
    ReplayWarning,
    Summed,
    even_chunks,
    frame_units,
)
from reldp.training.step import PrivateStep
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import small_parts, small_plan

torch.set_num_threads(1)


def opened(parts, **settings):
    step = PrivateStep(*parts, TrainingConfig(**settings))
    step.open(Streams(bytes(range(32))))
    return step


def gradients(step, numbers=(0, 1, 2)):
    """Gradients and reports of some steps."""
    found, reports = [], []
    for number in numbers:
        reports.append(step.run(step.draw(number, 0), number, 0))
        found.append(torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()]))
    return torch.stack(found), reports


def framed(step, chunk=None):
    """The step with its chunks put into frames, computed on the CPU."""
    step._replay = Replay(step._frame_sum, record=False)
    if chunk is not None:
        step._even_chunks = lambda units: even_chunks(units.num_units, chunk)
    return step


def text_parts(tmp_path, kind="bert", **plan):
    words = SENTENCE.split()
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(words, 1 + i % 9)) for i in range(150)]
    graph = EntityGraph.from_lists(
        list(range(150)), [(i, (i + 1) % 150) for i in range(150)], text=texts
    )
    capped = graph.promise_degrees(2)
    settings = {"num_negatives": 2, "expected_batch_size": 13.0, "noise_multiplier": 0.5, **plan}
    encoder = TextEncoder.load(write_model(kind, tmp_path / "model"), lora_rank=2)
    return encoder, capped, small_plan(capped, **settings)


def test_frames_are_at_most_an_eighth_larger_and_few():
    sizes = {count: frame_units(count) for count in range(1, 2000)}
    assert all(count <= size <= max(count * 1.125, count) for count, size in sizes.items())
    assert len(set(sizes.values())) < 80


@pytest.mark.parametrize(("units", "most"), [(1, 1), (7, 3), (256, 113), (5, 100)])
def test_chunks_are_alike_and_complete(units, most):
    sizes = even_chunks(units, most)
    assert sum(sizes) == units
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
@pytest.mark.parametrize("chunk", [None, 3])
def test_a_framed_sum_is_the_sum(clipping, chunk):
    parts = small_parts(clipping=clipping, clip_norm=0.05)
    plain, met = gradients(opened(parts, loss="logistic"))
    parts = small_parts(clipping=clipping, clip_norm=0.05)
    same, again = gradients(framed(opened(parts, loss="logistic"), chunk))
    assert torch.allclose(same, plain, atol=1e-6)
    for one, other in zip(met, again, strict=True):
        assert one.num_tuples == other.num_tuples
        assert other.loss == pytest.approx(one.loss, abs=1e-5)
        assert other.clipped_share == pytest.approx(one.clipped_share)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_texts_are_padded_without_a_trace(tmp_path, kind):
    plain, _ = gradients(opened(text_parts(tmp_path / "a", kind)))
    same, _ = gradients(framed(opened(text_parts(tmp_path / "b", kind)), 5))
    assert torch.allclose(same, plain, atol=2e-6)


def test_without_clipping_too():
    settings = {"clip": False}
    plain, _ = gradients(opened(small_parts(noise_multiplier=0.0), **settings))
    same, reports = gradients(framed(opened(small_parts(noise_multiplier=0.0), **settings)))
    assert torch.allclose(same, plain, atol=1e-6)
    assert all(report.num_nonfinite == 0 for report in reports)


def test_units_that_fill_a_frame_would_be_seen():
    """The control: with weight 1 they change the sum."""
    step = opened(small_parts(noise_multiplier=0.0))
    plain, _ = gradients(step)
    step = framed(opened(small_parts(noise_multiplier=0.0)))
    honest = step._frame_sum

    def careless(frame: Frame) -> Summed:
        frame.weights.fill_(1.0)
        return honest(frame)

    step._replay = Replay(careless, record=False)
    counts = [step.draw(number, 0).units.num_units for number in range(3)]
    assert any(frame_units(count) > count for count in counts)
    changed, _ = gradients(step)
    assert not torch.allclose(changed, plain, atol=1e-4)


def test_a_unit_that_is_not_finite_is_left_out_also_where_it_fills_up():
    step = framed(opened(small_parts(noise_multiplier=0.0)))
    gradients(step, (0,))  # the first batch checks that units do not mix
    batch = step.draw(1, 0)
    features = step._table.features.copy()
    features[batch.units.entities[0, 0]] = np.inf
    step._table = replace(step._table, features=features)
    report = step.run(batch, 1, 0)
    found = torch.cat([p.grad.reshape(-1) for p in step.parameters.values()])
    assert torch.isfinite(found).all()
    assert report.num_nonfinite >= 1


def test_an_empty_batch_is_noise_alone():
    step = framed(opened(small_parts(expected_batch_size=0.01)))
    found, reports = gradients(step, (0, 1))
    assert all(report.num_tuples == 0 for report in reports)
    assert (found.abs() > 0).all()


def test_what_cannot_be_recorded_is_run_as_it_is():
    plain, _ = gradients(opened(small_parts()))
    step = opened(small_parts())
    step._replay = Replay(step._frame_sum)
    tries = []

    def refused(frame):
        tries.append(frame)
        raise RuntimeError("Cannot copy between CPU and CUDA tensors during a recording.")

    step._replay._recording = refused
    with pytest.warns(ReplayWarning, match="one by one: Cannot copy"):
        same, _ = gradients(step)
    assert len(tries) == 1
    assert torch.allclose(same, plain, atol=1e-6)


def test_memory_that_runs_out_is_not_taken_for_an_encoder_that_cannot_be_recorded():
    step = opened(small_parts())
    step._replay = Replay(step._frame_sum)

    def full(frame):
        raise torch.OutOfMemoryError

    step._replay._recording = full
    with pytest.raises(torch.OutOfMemoryError):
        gradients(step)
