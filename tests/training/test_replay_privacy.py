"""Frames and privacy: a unit adds at most its threshold, whatever else stands in its frame.

Everything runs on a CPU with frames that are computed as they come (``record=False``): what a
recording replays is the same computation.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

import reldp.training.session as session_module
from reldp.clipping import ClipUnits
from reldp.encoders import TextEncoder
from reldp.errors import InputError
from reldp.noise import Streams
from reldp.training.config import PERFORMANCE, TrainingConfig
from reldp.training.replay import Frame, Replay, frame_units
from reldp.training.session import RunFacts
from reldp.training.step import Batch, PrivateStep
from tests.encoders.tiny import write_model
from tests.training.small import small_parts
from tests.training.test_replay import framed, opened, text_parts

torch.set_num_threads(1)

CLIP = 0.01


def checked(parts, **settings):
    """An open step that knows already that units do not mix, with weights off their start."""
    step = opened(parts, **settings)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in step.parameters.values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    step.run(step.draw(0, 0), 0, 0)
    assert step._is_checked()
    return step


def some(batch, places):
    """The batch with some of its units alone."""
    names = ("entities", "ends", "mask", "thresholds", "tuple_index")
    units = ClipUnits(**{name: getattr(batch.units, name)[places] for name in names})
    return replace(batch, units=units)


def first(batch, count):
    assert batch.units.num_units >= count
    return some(batch, np.arange(count))


def full_text_parts(folder, kind, train):
    """Texts and a model of which more than adapters is trained."""
    _, capped, plan = text_parts(folder / "adapters", kind, noise_multiplier=0.0, clip_norm=CLIP)
    return TextEncoder.load(write_model(kind, folder / "model"), train=train), capped, plan


def chunk(step, batch):
    """What a frame is filled with."""
    units = batch.units
    return (
        step._encoder.rows(step._table, units.entities.reshape(-1)),
        torch.from_numpy(units.ends).long(),
        torch.from_numpy(units.mask),
        torch.from_numpy(units.thresholds),
    )


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_removing_a_unit_moves_a_framed_sum_by_its_threshold_at_most(tmp_path, kind):
    """The neighbour test: the removed unit may be the longest, or the one that fills up."""
    step = framed(checked(text_parts(tmp_path, kind, noise_multiplier=0.0, clip_norm=CLIP)))
    batch = first(step.draw(1, 0), 17)
    assert frame_units(17) > 17
    whole = step._sum(batch)
    assert int((whole.factors < 1).sum()) > 10  # else nothing would be bounded here
    for place in range(17):
        rest = step._sum(some(batch, np.arange(17) != place))
        assert float((whole.total - rest.total).norm()) <= CLIP * (1 + 1e-5)


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
def test_a_unit_adds_the_same_alone_and_in_company(clipping):
    """A sum of single sums, each bounded by its own threshold; 17 units leave room in a frame."""
    parts = small_parts(clipping=clipping, clip_norm=CLIP, noise_multiplier=0.0)
    step = framed(checked(parts, loss="logistic"))
    batch = first(step.draw(1, 0), 17)
    alone = [step._sum(some(batch, np.array([place]))).total for place in range(17)]
    for part, threshold in zip(alone, batch.units.thresholds, strict=True):
        assert 0 < float(part.norm()) <= threshold
    assert torch.allclose(step._sum(batch).total, torch.stack(alone).sum(0), atol=CLIP * 1e-5)


@pytest.mark.parametrize("train", ["full", "last:1"])
@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_padding_of_a_frame_trains_nothing(tmp_path, kind, train):
    """Tables of tokens and positions are trained too, and a frame is padded with token 0."""
    step = checked(full_text_parts(tmp_path, kind, train))
    batch = first(step.draw(1, 0), 5)
    short = some(batch, np.argsort(step._table.lengths[batch.units.entities].max(1))[:3])
    plain = step._sum(short)
    framed(step)
    rows, ends, mask, thresholds = chunk(step, short)
    tokens = rows["attention_mask"].shape[1]
    frame = Frame.like(rows, ends, thresholds)
    assert frame.rows["attention_mask"].shape[1] > tokens
    frame.fill(rows, ends, mask, thresholds)
    same = step._frame_sum(frame)
    assert torch.allclose(same.total, plain.total, atol=CLIP * 1e-3)
    frame.rows["attention_mask"].fill_(1)  # the control: a mask that is left from before
    assert not torch.allclose(step._frame_sum(frame).total, plain.total, atol=CLIP * 1e-2)


def test_a_frame_keeps_nothing_of_the_chunk_before(tmp_path):
    plan = {"noise_multiplier": 0.0, "clip_norm": CLIP, "expected_batch_size": 25.0}
    step = framed(checked(text_parts(tmp_path, **plan)))
    batch = step.draw(1, 0)
    longest = step._table.lengths[batch.units.entities].max(1)
    long, few = first(batch, 18), some(batch, np.argsort(longest)[:17])
    used = Frame.like(chunk(step, long)[0], *chunk(step, long)[1::2])
    used.fill(*chunk(step, long))
    used.thresholds.fill_(1e9)
    used.fill(*chunk(step, few))
    fresh = Frame.like(chunk(step, long)[0], *chunk(step, long)[1::2])
    fresh.fill(*chunk(step, few))
    for name, value in fresh.rows.items():
        assert torch.equal(used.rows[name], value)
    for name in ("ends", "mask", "weights", "thresholds"):
        assert torch.equal(getattr(used, name), getattr(fresh, name))
    assert fresh.weights.tolist() == [1.0] * 17 + [0.0]
    assert float(used.thresholds.max()) <= 1.0


def test_what_a_replay_gives_is_not_overwritten_by_the_next():
    step = framed(checked(small_parts(noise_multiplier=0.0, clip_norm=CLIP)), chunk=6)
    names = ("total", "norms", "losses", "factors")

    def recorded(frame):
        """As a recording does: every replay writes to the same places."""
        places = step._frame_sum(frame)

        def again():
            found = step._frame_sum(frame)
            for name in names:
                getattr(places, name).copy_(getattr(found, name))
            return places

        return again

    batch = first(step.draw(1, 0), 18)  # three chunks in one frame
    expected = step._sum(batch)
    step._replay = Replay(step._frame_sum)
    step._replay._recorded = recorded
    found = step._sum(batch)
    for name in names:
        assert torch.equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_first_unit_that_is_not_finite_is_left_out_and_counted_once(value):
    """It fills the frame up as well, and must neither spoil the sum nor be counted there."""
    step = checked(small_parts(noise_multiplier=0.0, clip_norm=CLIP), score="dot")
    batch = first(step.draw(1, 0), 17)
    bad = batch.units.entities[0, 0]
    without = np.flatnonzero(~(batch.units.entities == bad).any(1))
    good = step._sum(some(batch, without))
    features = step._table.features.copy()
    features[bad] = value
    step._table = replace(step._table, features=features)
    plain = step.run(batch, 1, 0)
    framed(step)
    again = step.run(batch, 1, 0)
    assert torch.allclose(step._sum(batch).total, good.total, atol=CLIP * 1e-5)
    assert again.num_nonfinite == plain.num_nonfinite == 17 - len(without)
    assert again.clipped_share == plain.clipped_share


def test_reports_of_framed_steps_are_those_of_plain_ones():
    def reports(step):
        return [step.run(step.draw(number, 0), number, 0) for number in range(1, 5)]

    settings = {"noise_multiplier": 0.0, "clip_norm": 1.0}
    plain = reports(checked(small_parts(**settings)))
    again = reports(framed(checked(small_parts(**settings))))
    assert any(0 < report.clipped_share < 1 for report in plain)
    assert any(frame_units(report.num_tuples) > report.num_tuples for report in plain)
    for one, other in zip(plain, again, strict=True):
        assert other.num_tuples == one.num_tuples
        assert other.clipped_share == one.clipped_share
        assert other.num_nonfinite == one.num_nonfinite == 0
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.median_norm == pytest.approx(one.median_norm, rel=1e-4)


def test_nothing_is_replayed_before_units_are_known_not_to_mix():
    step = opened(small_parts())
    calls = []

    def seen(frame):
        calls.append(step._engine.is_checked)
        return step._frame_sum(frame)

    step._replay = Replay(seen, record=False)
    empty = some(step.draw(0, 0), np.arange(0))
    for batch in (empty, first(step.draw(0, 0), 1)):  # one unit alone shows nothing
        step.run(batch, 0, 0)
    assert not calls
    assert not step._is_checked()
    step.run(step.draw(1, 0), 1, 0)
    assert not calls
    step.run(step.draw(2, 0), 2, 0)
    assert calls == [True]


def test_an_encoder_that_mixes_units_is_refused_with_replay_too(monkeypatch):
    step = framed(opened(small_parts()))
    embed = step._encoder.embed
    monkeypatch.setattr(step._encoder, "embed", lambda rows: embed(rows) + embed(rows).mean(0))
    with pytest.raises(InputError, match="must keep units apart"):
        step.run(step.draw(0, 0), 0, 0)


def test_thresholds_in_frames_are_lowered_for_the_grid():
    parts = small_parts(clip_norm=CLIP, noise_multiplier=1e5)  # so that the share can be seen
    step = PrivateStep(*parts, TrainingConfig())
    step.open(Streams(bytes(range(32))))
    step.run(step.draw(0, 0), 0, 0)
    met = []

    def seen(frame):
        met.append(frame.thresholds.clone())
        return step._frame_sum(frame)

    step._replay = Replay(seen, record=False)
    batch = first(step.draw(1, 0), 17)
    step._sum(batch)
    step.close()
    assert step._slack() > 1e-4
    lowered = torch.from_numpy(batch.units.thresholds * (1 - step._slack()))
    assert torch.equal(met[0][:17], lowered)


def test_a_sum_of_many_chunks_is_added_up_in_double_precision():
    step = framed(checked(small_parts(noise_multiplier=0.0, clip_norm=CLIP)), chunk=3)
    batch = first(step.draw(1, 0), 17)
    parts = [
        step._sum(some(batch, places)).total
        for places in np.split(np.arange(17), [3, 6, 9, 12, 15])
    ]
    assert torch.equal(step._sum(batch).total, sum(parts[1:], parts[0]))
    assert parts[0].dtype == torch.float64


def test_a_run_with_other_frames_is_not_taken_to_repeat():
    """Bits differ between a replayed sum and a plain one, so the same noise must not meet both."""
    assert "replay" in PERFORMANCE
    encoder, capped, plan = small_parts()
    facts = RunFacts(encoder=encoder, capped=capped, plan=plan, config=TrainingConfig(), threads=1)
    assert session_module._why_not_repeatable(facts, facts.machine) is None
    was = facts.machine | {"replay": True}
    assert session_module._why_not_repeatable(facts, was) == "replay was True, is False"


def test_empty_and_overflowing_batches_get_noise_with_frames():
    step = framed(checked(small_parts(clip_norm=CLIP)))
    empty = Batch(units=some(step.draw(1, 0), np.arange(0)).units, num_tuples=0, overflow=True)
    report = step.run(empty, 1, 0)
    found = torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()])
    deviation = step._plan.noise_multiplier * CLIP / step._plan.expected_batch_size
    assert 0.5 < float(found.std()) / deviation < 2
    assert (report.num_tuples, report.overflow, report.num_nonfinite) == (0, True, 0)
