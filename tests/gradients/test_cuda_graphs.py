"""Microbatches that are computed or captured: a step's sum stays what it is, and units do not mix."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from reldp.encoders import TextEncoder
from reldp.gradients.cuda_graphs import CudaGraphWarning, MicrobatchRunner
from reldp.gradients.microbatches import MicrobatchShapes
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.runs.changes import why_new_branch
from reldp.runs.ledger import LedgerRecord
from reldp.sampling import TupleBatch
from reldp.training.config import PerformanceSettings
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import make_step, small_parts, small_plan, small_types, some_units
from tests.training.test_facts import facts

torch.set_num_threads(1)

CLIP = 0.01
NAMES = ("total", "norms", "losses", "factors")


def opened(parts, **settings):
    step = make_step(*parts, **settings)
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
    """Every text but the first fills its row, so that nothing of a microbatch need be masked."""
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
    """The clip units of a batch that holds the first entity."""
    drawn = (step.clip_units(step.draw(number)) for number in range(99))
    return next(units for units in drawn if 0 in units.entities)


def moved(step, units):
    """By how much the sum, and the other units' share of it, move as each unit leaves; in C."""

    def total(places):
        return step.clipped_sum(some_units(units, places)).total * (step._plan.grid or 1.0)

    places = np.arange(units.num_units)
    whole = total(places)
    sums, others = [], []
    for place in places:
        rest, alone = total(places[places != place]), total(places[places == place])
        sums.append(float((whole - rest).norm()) / CLIP)
        others.append(float((whole - rest - alone).norm()) / CLIP)
    return max(sums), max(others)


class ShapesByContent(MicrobatchShapes):
    """The control: one microbatch as long as the batch's longest row, and as large as the batch."""

    def split(self, longest):
        _, shape = super().split(longest)[0]
        return [(slice(0, len(longest)), replace(shape, units=len(longest)))]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_a_unit_that_leaves_moves_the_sum_by_its_threshold_and_no_other_unit(
    tmp_path, kind, precision
):
    """theory.md section 2, also where rounding is coarse and the unit is the longest of all."""
    settings = {"noise_multiplier": 0.5, "clip_norm": CLIP, "expected_batch_size": 25.0}
    step = shaken(opened(text_parts(tmp_path, kind, **settings), precision=precision))
    units = with_first(step)
    whole = step.clipped_sum(units)
    assert int((whole.factors < 1).sum()) > 10  # else nothing would be bounded here
    sums, others = moved(step, units)
    assert sums <= 1.0
    assert others < 1e-15  # sums are exact: only their difference here is rounded


@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_whether_anything_is_masked_does_not_depend_on_other_units(tmp_path, kind):
    """The one short text leaves: without a masked token left, another kernel would be chosen."""
    step = shaken(opened(cut_parts(tmp_path, kind), precision="bfloat16"))
    units = with_first(step)
    seen = []
    embed = step._encoder.embed

    def watched(rows):
        seen.append(bool(rows["attention_mask"].all()))
        return embed(rows)

    step._encoder.embed = watched
    sums, others = moved(step, units)
    assert not any(seen)
    assert sums <= 1.0
    assert others < 1e-15  # sums are exact: only their difference here is rounded


def test_shapes_by_content_would_let_one_unit_move_the_others(tmp_path):
    """The control of the test above: bfloat16 rounds otherwise in other shapes."""
    settings = {"noise_multiplier": 0.5, "clip_norm": CLIP, "expected_batch_size": 25.0}
    step = shaken(opened(text_parts(tmp_path, **settings), precision="bfloat16"))
    units = with_first(step)
    shapes = step._shapes
    step._shapes = ShapesByContent(**{name: getattr(shapes, name) for name in shapes.__dict__})
    _, others = moved(step, units)
    assert others > 1e-3


@pytest.mark.parametrize("clipping", ["tuple", "pair", "frequency"])
def test_microbatches_of_any_size_give_the_same_sum(noise_by_address, clipping):
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
    """Tables of tokens and positions may be trained too, and microbatches are padded with token 0."""
    _encoder, capped, plan = text_parts(tmp_path, kind, noise_multiplier=0.0)

    def step(units):
        own = TextEncoder.load(tmp_path / "model", train=train, lora_rank=2)
        return shaken(opened((own, capped, plan), microbatch_units=units))

    assert torch.allclose(gradients(step(None))[0], gradients(step(1))[0], atol=2e-6)


def test_without_clipping_padding_leaves_no_trace_either():
    settings = {"clip": False, "microbatch_units": 1}
    alone, _ = gradients(opened(small_parts(noise_multiplier=0.0), **settings))
    same, reports = gradients(opened(small_parts(noise_multiplier=0.0), clip=False))
    assert torch.allclose(same, alone, atol=1e-6)
    assert all(report.num_nonfinite == 0 for report in reports)


def test_padding_with_a_weight_would_be_seen():
    """The control: with weight 1 they change the sum."""
    honest_step, step = (opened(small_parts(noise_multiplier=0.0)) for _ in range(2))
    expected, _ = gradients(honest_step)
    honest = step._microbatch_sum

    def careless(microbatch):
        microbatch.weights.fill_(1.0)
        return honest(microbatch)

    step._runner = MicrobatchRunner(careless, cuda_graphs=False)
    assert not torch.allclose(gradients(step)[0], expected, atol=1e-4)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_first_unit_that_is_not_finite_is_left_out_and_counted_once(value):
    """Padding repeats it, and must neither spoil the sum nor be counted."""
    step = shaken(opened(small_parts(noise_multiplier=0.0, clip_norm=CLIP), score="dot"))
    batch = step.draw(1, 0)
    units = step.clip_units(batch)
    bad = units.entities[0, 0]
    without = np.flatnonzero(~(units.entities == bad).any(1))
    good = step.clipped_sum(some_units(units, without))
    features = step._rows.table.features.copy()
    features[bad] = value
    step._rows.table = replace(step._rows.table, features=features)
    report = step.run(batch, 1, 0)
    assert torch.allclose(step.clipped_sum(units).total, good.total, atol=CLIP * 1e-5)
    assert report.num_nonfinite == units.num_units - len(without) >= 1


def test_empty_and_overflowing_batches_are_noise_alone():
    step = opened(small_parts(clip_norm=CLIP))
    names = ("positives", "negatives", "endpoints", "relation_ids")
    batch = step.draw(1, 0)
    empty = TupleBatch(**{name: getattr(batch, name)[:0] for name in names}, overflow=True)
    step._drawn[empty] = 1, 0
    report = step.run(empty, 1, 0)
    found = torch.cat([p.grad.reshape(-1).double() for p in step.parameters.values()])
    deviation = step._plan.noise_multiplier * CLIP / step._plan.expected_batch_size
    assert 0.5 < float(found.std()) / deviation < 2
    assert (report.num_tuples, report.overflow, report.num_nonfinite) == (0, True, 0)


def test_a_sum_of_many_microbatches_is_added_up_in_double_precision():
    step = opened(small_parts(noise_multiplier=0.0, clip_norm=CLIP), microbatch_units=3)
    units = step.clip_units(step.draw(1, 0))
    count = units.num_units
    cuts = np.split(np.arange(count), range(2, count, 2))  # the third of a microbatch is padding
    parts = [step.clipped_sum(some_units(units, places)).total for places in cuts]
    assert torch.equal(step.clipped_sum(units).total, sum(parts[1:], parts[0]))
    assert parts[0].dtype == torch.float64


def captures(step, made):
    """A stand-in for CUDA graphs: every replay writes to the same places, as on a GPU."""

    def capture(microbatch):
        made.append(microbatch)
        places = step._microbatch_sum(microbatch)

        def again():
            found = step._microbatch_sum(microbatch)
            for name in NAMES:
                getattr(places, name).copy_(getattr(found, name))
            return places

        return again

    return capture


def capturing(step):
    """The step with CUDA graphs, and the list of what was captured."""
    made = []
    addresses = step._runner._addresses
    step._runner = MicrobatchRunner(step._microbatch_sum, cuda_graphs=True, addresses=addresses)
    step._runner._capture = captures(step, made)
    return step, made


def test_captured_steps_are_the_steps_and_captured_once_per_shape():
    plain, _ = gradients(opened(small_parts(), microbatch_units=3), range(5))
    step, made = capturing(opened(small_parts(), microbatch_units=3))
    same, _ = gradients(step, range(5))
    assert torch.equal(same, plain)
    assert len(made) == 1


@pytest.mark.parametrize("rule", ["tuple", "pair"])
def test_captured_steps_have_the_types_of_their_own_units(rule):
    settings = {"loss": "complex", "objective": "logistic", "microbatch_units": 3}
    parts = small_parts(types=small_types(), clipping=rule)
    plain, _ = gradients(opened(parts, **settings), range(5))
    step, made = capturing(opened(small_parts(types=small_types(), clipping=rule), **settings))
    same, _ = gradients(step, range(5))
    assert torch.equal(same, plain)
    assert len(made) == 1
    assert made[0].types is not None


def test_after_parameters_move_steps_are_captured_again():
    step, made = capturing(opened(small_parts()))
    gradients(step, (0, 1))
    for parameter in step.parameters.values():
        parameter.data = parameter.data.clone()
    gradients(step, (2, 3))
    assert len(made) == 2


def test_what_cannot_be_captured_is_run_directly():
    plain, _ = gradients(opened(small_parts()))
    step, _ = capturing(opened(small_parts()))
    tries = []

    def refused(microbatch):
        tries.append(microbatch)
        raise RuntimeError("Cannot copy between CPU and CUDA tensors during a capture.")

    step._runner._capture = refused
    with pytest.warns(CudaGraphWarning, match="one by one: Cannot copy"):
        same, _ = gradients(step)
    assert len(tries) == 1
    assert torch.equal(same, plain)


def test_memory_that_runs_out_is_not_taken_for_an_encoder_that_cannot_be_captured():
    step, _ = capturing(opened(small_parts()))

    def full(microbatch):
        raise torch.OutOfMemoryError

    step._runner._capture = full
    with pytest.raises(torch.OutOfMemoryError):
        gradients(step)


def test_a_run_that_is_replayed_otherwise_is_not_taken_to_repeat():
    """Bits differ between a replayed sum and a plain one, so the same noise must not meet both."""
    assert "cuda_graphs" in PerformanceSettings.__dataclass_fields__
    known = facts()

    def record(machine):
        start = {"kind": "start", "format": 2, "num_steps": 9, "machine": machine}
        return LedgerRecord.check([start], "")

    assert why_new_branch(known, record(known.machine)) is None
    was = known.machine | {"cuda_graphs": True}
    assert why_new_branch(known, record(was)) == "cuda_graphs was True, is False"
