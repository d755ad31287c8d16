"""Frames that are computed or recorded: a step's sum stays what it is, and units do not touch."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reldp.clipping import ClipUnits
from reldp.encoders import TextEncoder
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.runs.changes import why_new_branch
from reldp.runs.ledger import LedgerRecord
from reldp.training.config import PerformanceSettings, TrainingConfig
from reldp.training.facts import TrainingFacts
from reldp.training.frames import Frame, Shapes, Summed
from reldp.training.replay import Replay, ReplayWarning
from reldp.training.step import Batch, PrivateStep
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import small_parts, small_plan

torch.set_num_threads(1)

CLIP = 0.01
NAMES = ("total", "norms", "losses", "factors")


def opened(parts, **settings):
    step = PrivateStep(*parts, TrainingConfig.make(**settings))
    step.open(Streams(bytes(range(32))))
    return step


def shaken(step):
    """The step with weights off their start, so that every parameter has a gradient."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in step.parameters.values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return step


def gradients(step, numbers=(0, 1, 2)):
    """Gradients and reports of some steps."""
    found, reports = [], []
    for number in numbers:
        reports.append(step.run(step.draw(number, 0), number, 0))
        found.append(torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()]))
    return torch.stack(found), reports


def text_parts(tmp_path, kind="bert", longest=9, **plan):
    """Texts of 1 to `longest` words; the first has twice as many as any other."""
    words = SENTENCE.split()
    generator = np.random.default_rng(0)
    lengths = [2 * longest, *(1 + i % longest for i in range(149))]
    texts = [" ".join(generator.choice(words, length)) for length in lengths]
    graph = EntityGraph.from_lists(
        list(range(150)), [(i, (i + 1) % 150) for i in range(150)], text=texts
    )
    capped = graph.promise_degrees(2)
    settings = {"num_negatives": 2, "expected_batch_size": 13.0, "noise_multiplier": 0.5, **plan}
    encoder = TextEncoder.load(write_model(kind, tmp_path / "model"), lora_rank=2)
    return encoder, capped, small_plan(capped, **settings)


def cut_parts(tmp_path, kind):
    """Every text but the first fills its row, so that nothing of a frame need be masked."""
    words = SENTENCE.split()
    generator = np.random.default_rng(0)
    texts = ["cat", *(" ".join(generator.choice(words, 20)) for _ in range(149))]
    graph = EntityGraph.from_lists(
        list(range(150)), [(i, (i + 1) % 150) for i in range(150)], text=texts
    )
    capped = graph.promise_degrees(2)
    model = write_model(kind, tmp_path / "model")
    plan = small_plan(
        capped, num_negatives=2, expected_batch_size=25.0, noise_multiplier=0.5, clip_norm=CLIP
    )
    return TextEncoder.load(model, lora_rank=2, max_length=16), capped, plan


def with_first(step):
    """A batch that holds the first entity."""
    return next(b for b in (step.draw(n, 0) for n in range(99)) if 0 in b.units.entities)


def some(batch, places):
    """The batch with some of its units alone."""
    names = ("entities", "endpoints", "mask", "thresholds", "tuple_index")
    units = ClipUnits(**{name: getattr(batch.units, name)[places] for name in names})
    return replace(batch, units=units)


def moved(step, batch):
    """By how much the sum, and the other units' share of it, move as each unit leaves; in C."""

    def total(units):
        return step._sum(units).total * (step._grid or 1.0)

    whole = total(batch)
    sums, others = [], []
    for place in range(batch.units.num_units):
        rest = total(some(batch, np.arange(batch.units.num_units) != place))
        alone = total(some(batch, np.array([place])))
        sums.append(float((whole - rest).norm()) / CLIP)
        others.append(float((whole - rest - alone).norm()) / CLIP)
    return max(sums), max(others)


class CompanyShapes(Shapes):
    """The control: every frame is as long as the batch's longest row, and as large as the batch."""

    def cut(self, longest):
        piece = super().cut(longest)[0]
        return [replace(piece, start=0, stop=len(longest), units=len(longest))]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_a_unit_that_leaves_moves_the_sum_by_its_threshold_and_no_other_unit(
    tmp_path, kind, precision
):
    """theory.md section 2, also where rounding is coarse and the unit is the longest of all."""
    settings = {"noise_multiplier": 0.5, "clip_norm": CLIP, "expected_batch_size": 25.0}
    step = shaken(opened(text_parts(tmp_path, kind, **settings), precision=precision))
    batch = with_first(step)
    whole = step._sum(batch)
    assert int((whole.factors < 1).sum()) > 10  # else nothing would be bounded here
    sums, others = moved(step, batch)
    assert sums <= 1.0
    assert others < 1e-15  # sums are exact: only their difference here is rounded


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_whether_anything_is_masked_does_not_depend_on_company(tmp_path, kind):
    """The one short text leaves: without a masked token left, another kernel would be chosen."""
    step = shaken(opened(cut_parts(tmp_path, kind), precision="bfloat16"))
    batch = with_first(step)
    seen = []
    embed = step._encoder.embed

    def watched(rows):
        seen.append(bool(rows["attention_mask"].all()))
        return embed(rows)

    step._encoder.embed = watched
    sums, others = moved(step, batch)
    assert not any(seen)
    assert sums <= 1.0
    assert others < 1e-15  # sums are exact: only their difference here is rounded


def test_shapes_by_company_would_let_one_unit_move_the_others(tmp_path):
    """The control of the test above: bfloat16 rounds otherwise in other shapes."""
    settings = {"noise_multiplier": 0.5, "clip_norm": CLIP, "expected_batch_size": 25.0}
    step = shaken(opened(text_parts(tmp_path, **settings), precision="bfloat16"))
    batch = with_first(step)
    shapes = step._shapes
    step._shapes = CompanyShapes(**{name: getattr(shapes, name) for name in shapes.__dict__})
    _, others = moved(step, batch)
    assert others > 1e-3


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
def test_frames_of_any_size_give_the_same_sum(noise_by_address, clipping):
    parts = {"clipping": clipping, "clip_norm": 0.05}
    alone, met = gradients(opened(small_parts(**parts), loss="logistic", microbatch_units=1))
    for units in (None, 3, 1000):
        same, again = gradients(
            opened(small_parts(**parts), loss="logistic", microbatch_units=units)
        )
        assert torch.allclose(same, alone, atol=1e-6)
        for one, other in zip(met, again, strict=True):
            assert one.num_tuples == other.num_tuples
            assert other.loss == pytest.approx(one.loss, abs=1e-5)
            assert other.median_norm == pytest.approx(one.median_norm, rel=1e-4)
            assert other.clipped_share == pytest.approx(one.clipped_share)


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
@pytest.mark.parametrize("train", ["lora", "full", "last:1"])
def test_texts_are_padded_without_a_trace(tmp_path, kind, train):
    """Tables of tokens and positions may be trained too, and frames are padded with token 0."""
    _encoder, capped, plan = text_parts(tmp_path, kind, noise_multiplier=0.0)

    def step(units):
        own = TextEncoder.load(tmp_path / "model", train=train, lora_rank=2)
        return shaken(opened((own, capped, plan), microbatch_units=units))

    assert torch.allclose(gradients(step(None))[0], gradients(step(1))[0], atol=2e-6)


def test_without_clipping_frames_leave_no_trace_either():
    settings = {"clip": False, "microbatch_units": 1}
    alone, _ = gradients(opened(small_parts(noise_multiplier=0.0), **settings))
    same, reports = gradients(opened(small_parts(noise_multiplier=0.0), clip=False))
    assert torch.allclose(same, alone, atol=1e-6)
    assert all(report.num_nonfinite == 0 for report in reports)


def test_units_that_fill_a_frame_would_be_seen():
    """The control: with weight 1 they change the sum."""
    honest_step, step = (opened(small_parts(noise_multiplier=0.0)) for _ in range(2))
    expected, _ = gradients(honest_step)
    honest = step._frame_sum

    def careless(frame: Frame) -> Summed:
        frame.weights.fill_(1.0)
        return honest(frame)

    step._frames = Replay(careless, record=False)
    assert not torch.allclose(gradients(step)[0], expected, atol=1e-4)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_first_unit_that_is_not_finite_is_left_out_and_counted_once(value):
    """It fills the frame up as well, and must neither spoil the sum nor be counted there."""
    step = shaken(opened(small_parts(noise_multiplier=0.0, clip_norm=CLIP), score="dot"))
    batch = step.draw(1, 0)
    bad = batch.units.entities[0, 0]
    without = np.flatnonzero(~(batch.units.entities == bad).any(1))
    good = step._sum(some(batch, without))
    features = step._table.features.copy()
    features[bad] = value
    step._table = replace(step._table, features=features)
    report = step.run(batch, 1, 0)
    assert torch.allclose(step._sum(batch).total, good.total, atol=CLIP * 1e-5)
    assert report.num_nonfinite == batch.units.num_units - len(without) >= 1


def test_empty_and_overflowing_batches_are_noise_alone():
    step = opened(small_parts(clip_norm=CLIP))
    empty = Batch(units=some(step.draw(1, 0), np.arange(0)).units, num_tuples=0, overflow=True)
    report = step.run(empty, 1, 0)
    found = torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()])
    deviation = step._plan.noise_multiplier * CLIP / step._plan.expected_batch_size
    assert 0.5 < float(found.std()) / deviation < 2
    assert (report.num_tuples, report.overflow, report.num_nonfinite) == (0, True, 0)


def test_a_sum_of_many_frames_is_added_up_in_double_precision():
    step = opened(small_parts(noise_multiplier=0.0, clip_norm=CLIP), microbatch_units=3)
    batch = step.draw(1, 0)
    count = batch.units.num_units
    cuts = np.split(np.arange(count), range(2, count, 2))  # the third of a frame fills up
    parts = [step._sum(some(batch, places)).total for places in cuts]
    assert torch.equal(step._sum(batch).total, sum(parts[1:], parts[0]))
    assert parts[0].dtype == torch.float64


def recorder(step, made):
    """A stand-in for recordings: every replay writes to the same places, as on a GPU."""

    def record(frame):
        made.append(frame)
        places = step._frame_sum(frame)

        def again():
            found = step._frame_sum(frame)
            for name in NAMES:
                getattr(places, name).copy_(getattr(found, name))
            return places

        return again

    return record


def recording(step):
    """The step with recordings, and the list of what was recorded."""
    made = []
    step._frames = Replay(step._frame_sum, record=True, place=step._place)
    step._frames._recording = recorder(step, made)
    return step, made


def test_recorded_steps_are_the_steps_and_recorded_once_per_shape():
    plain, _ = gradients(opened(small_parts(), microbatch_units=3), range(5))
    step, made = recording(opened(small_parts(), microbatch_units=3))
    same, _ = gradients(step, range(5))
    assert torch.equal(same, plain)
    assert len(made) == 1


def test_parameters_that_move_are_recorded_anew():
    step, made = recording(opened(small_parts()))
    gradients(step, (0, 1))
    for parameter in step.parameters.values():
        parameter.data = parameter.data.clone()
    gradients(step, (2, 3))
    assert len(made) == 2


def test_what_cannot_be_recorded_is_run_as_it_is():
    plain, _ = gradients(opened(small_parts()))
    step, _ = recording(opened(small_parts()))
    tries = []

    def refused(frame):
        tries.append(frame)
        raise RuntimeError("Cannot copy between CPU and CUDA tensors during a recording.")

    step._frames._recording = refused
    with pytest.warns(ReplayWarning, match="one by one: Cannot copy"):
        same, _ = gradients(step)
    assert len(tries) == 1
    assert torch.equal(same, plain)


def test_memory_that_runs_out_is_not_taken_for_an_encoder_that_cannot_be_recorded():
    step, _ = recording(opened(small_parts()))

    def full(frame):
        raise torch.OutOfMemoryError

    step._frames._recording = full
    with pytest.raises(torch.OutOfMemoryError):
        gradients(step)


def test_a_run_that_is_replayed_otherwise_is_not_taken_to_repeat():
    """Bits differ between a replayed sum and a plain one, so the same noise must not meet both."""
    assert "cuda_graphs" in PerformanceSettings.__dataclass_fields__
    encoder, capped, plan = small_parts()
    facts = TrainingFacts(
        encoder=encoder,
        capped=capped,
        plan=plan,
        config=TrainingConfig.make(),
        threads=1,
        make_table=lambda: encoder.table(capped),
    )

    def record(machine):
        start = {"kind": "start", "format": 2, "num_steps": 9, "machine": machine}
        return LedgerRecord.check([start], "")

    assert why_new_branch(facts, record(facts.machine)) is None
    was = facts.machine | {"cuda_graphs": True}
    assert why_new_branch(facts, record(was)) == "cuda_graphs was True, is False"
