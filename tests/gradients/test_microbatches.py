"""Microbatches: shapes that are public, and padding that leaves no trace."""

import numpy as np
import pytest
import torch

from reldp.gradients.microbatches import (
    Microbatch,
    MicrobatchShape,
    MicrobatchShapes,
    UnitInputs,
    typical_units,
)

LONGEST = np.array([31, 30, 30, 25, 24, 20, 18, 17, 9, 3])


def shapes(**changes):
    settings = {"rows_per_unit": 6, "typical_units": 80, "max_length": 32, "device_type": "cpu"}
    return MicrobatchShapes(**{**settings, **changes})


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("max_length", [5, 13, 32, 200, None])
def test_a_unit_s_microbatch_follows_from_the_unit_alone(kind, max_length):
    """Whatever else is in the batch, the same unit meets the same shape."""
    run = shapes(device_type=kind, max_length=max_length)
    lengths = np.minimum(LONGEST, max_length or 99)
    for keep in (np.arange(10), np.arange(3, 10), np.array([0, 4, 9]), np.array([5])):
        microbatches = run.split(lengths[keep])
        parts = [part for part, _ in microbatches]
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        assert parts[-1].stop == len(keep)
        for part, shape in microbatches:
            assert 0 < part.stop - part.start <= shape.capacity
            for unit in lengths[keep][part]:
                assert shape.length == run.length_of(int(unit))
                assert shape.units == run.units_of(shape.length)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_microbatches_hold_their_rows_and_keep_to_the_model_s_positions(kind):
    for max_length in (5, 13, 32, 100, 256, 300):
        run = shapes(device_type=kind, max_length=max_length)
        for longest in range(1, max_length + 1):
            assert longest <= run.length_of(longest) <= max_length


def test_lengths_are_few_on_a_gpu_and_close_on_a_cpu():
    gpu, cpu = shapes(device_type="cuda", max_length=256), shapes(max_length=256)
    assert {gpu.length_of(n) for n in range(1, 257)} == {32, 64, 128, 256}
    assert all(cpu.length_of(n) < n + (8 if n <= 64 else 32) for n in range(1, 257))


def test_units_of_a_microbatch_are_as_asked_or_fit_the_device():
    first = shapes(units=3).split(np.full(7, 20))[0]
    assert first == (slice(0, 2), MicrobatchShape(units=3, length=24))  # the third is padding
    first = shapes(units=1).split(np.full(7, 20))[0]
    assert first == (slice(0, 1), MicrobatchShape(units=1, length=24))
    assert shapes(units=1).units_of(32) == 1
    assert shapes(rows_per_unit=500).units_of(32) == 3  # two, so that what mixes is found
    assert shapes(device_type="cuda").units_of(32) == 81
    assert shapes(device_type="cuda", width=4096).units_of(32) == 11  # large models need few rows
    assert shapes(max_length=None).length_of(99) == 1


def _computed(run, rng, lengths):
    """Tokens computed over tokens of texts, of 200 batches of about 64 units."""
    computed = real = 0
    for _ in range(200):
        rows = rng.choice(lengths, size=(rng.poisson(64), run.rows_per_unit))
        longest = np.sort(rows.max(axis=1, initial=1))[::-1]
        computed += sum(s.units * s.length for _, s in run.split(longest)) * run.rows_per_unit
        real += rows.sum()
    return computed / real


@pytest.mark.parametrize(("kind", "limit"), [("cpu", 3.3), ("cuda", 4.5)])
def test_texts_of_many_lengths_waste_little(kind, limit):
    """One microbatch for all units of a length computes ten times the tokens of the texts, on a GPU."""
    lengths = np.clip(np.random.default_rng(0).gamma(3.0, 8.0, 10_000), 3, 128).astype(int)
    run, rng = shapes(device_type=kind, max_length=128), np.random.default_rng(1)
    assert _computed(run, rng, lengths) < limit
    whole = shapes(device_type=kind, max_length=128, units=run.typical_units + 1)
    assert _computed(whole, rng, lengths) > 2 * limit


@pytest.mark.parametrize(("batch", "per_tuple"), [(64, 1), (256, 1), (64, 4), (0.01, 1), (3.5, 2)])
def test_most_batches_fit(batch, per_tuple):
    found = typical_units(batch, per_tuple)
    tuples = np.random.default_rng(0).poisson(batch, 20_000) * per_tuple
    assert found % 8 == 0
    assert (tuples > found).mean() < 0.05
    assert found <= per_tuple * (batch + 2.1 * np.sqrt(batch)) + 8


TOKENS = {"padding": {"input_ids": 0, "attention_mask": 0}, "token_mask": "attention_mask"}


def test_inputs_without_tokens_keep_their_shape_whatever_their_name():
    endpoints = torch.zeros((1, 1), dtype=torch.int64)
    one = inputs(rows(1, 5, 7), endpoints, endpoints == 1, torch.ones(1).double(), grid=None)
    microbatch = Microbatch.like(one, MicrobatchShape(units=2, length=1))
    microbatch.fill(one)
    assert microbatch.rows["input_ids"].tolist() == [[7] * 5] * 6
    assert microbatch.rows["attention_mask"].tolist() == [[1] * 5] * 6


def rows(units, longest, value):
    ids = torch.full((units * 3, longest), value)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def inputs(rows, endpoints, mask, thresholds, **settings):
    return UnitInputs(rows=rows, endpoints=endpoints, mask=mask, thresholds=thresholds, **settings)


def test_padding_repeats_the_first_unit_with_weight_zero():
    endpoints, mask = torch.tensor([[1], [0]]), torch.tensor([[True], [False]])
    units = rows(2, 5, 7)
    units["input_ids"][0] = torch.tensor([1, 2, 3, 4, 5])
    common = endpoints, mask, torch.tensor([2.0, 3.0], dtype=torch.float64)
    few = inputs(units, *common, grid=0.25)
    microbatch = Microbatch.like(few, MicrobatchShape(units=4, length=8), **TOKENS)
    microbatch.fill(few)
    assert float(microbatch.grid) == 0.25
    assert microbatch.rows["input_ids"].shape == (12, 8)
    assert microbatch.rows["input_ids"][6].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
    assert microbatch.rows["input_ids"][9].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
    assert microbatch.rows["attention_mask"][:, 5:].sum() == 0
    full = rows(2, 8, 7)
    microbatch.fill(inputs(full, *common, grid=0.5))
    assert microbatch.rows["attention_mask"].sum(1).tolist() == [8] * 6 + [7] * 6
    assert microbatch.endpoints.tolist() == [[1], [0], [1], [1]]
    assert microbatch.mask.tolist() == [[True], [False], [True], [True]]
    assert microbatch.weights.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert microbatch.thresholds.tolist() == [2.0, 3.0, 2.0, 2.0]
    weights = torch.tensor([0.0, 1.0])
    microbatch.fill(inputs(full, *common, grid=0.5, weights=weights))
    assert microbatch.weights.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_types_are_padded_like_everything_else_and_absent_without_types():
    flags, bounds = torch.zeros((3, 1), dtype=torch.int64), torch.ones(3, dtype=torch.float64)
    common = flags, flags.bool(), bounds
    typed = inputs(rows(3, 8, 9), *common, grid=None, types=torch.tensor([5, 1, 2]))
    microbatch = Microbatch.like(typed, MicrobatchShape(units=5, length=8))
    microbatch.fill(typed)
    assert microbatch.types.tolist() == [5, 1, 2, 5, 5]
    one = (value[:1] for value in common)
    microbatch.fill(inputs(rows(1, 8, 9), *one, grid=None, types=torch.tensor([3])))
    assert microbatch.types.tolist() == [3] * 5
    plain = Microbatch.like(
        inputs(rows(3, 8, 9), *common, grid=None), MicrobatchShape(units=5, length=8)
    )
    assert plain.types is None


def test_buffers_keep_nothing_of_the_units_before():
    endpoints, thresholds = (
        torch.zeros((3, 1), dtype=torch.int64),
        torch.ones(3, dtype=torch.float64),
    )
    many = inputs(rows(3, 8, 9), endpoints + 1, endpoints == 0, thresholds * 1e9, grid=None)
    microbatch = Microbatch.like(many, MicrobatchShape(units=4, length=8), **TOKENS)
    microbatch.fill(many)
    one = inputs(rows(1, 2, 5), endpoints[:1], endpoints[:1] == 1, thresholds[:1], grid=None)
    microbatch.fill(one)
    assert microbatch.grid is None
    assert set(microbatch.rows["input_ids"].unique().tolist()) == {0, 5}
    assert microbatch.rows["attention_mask"].sum(1).tolist() == [2] * 12
    assert not microbatch.endpoints.any()
    assert not microbatch.mask.any()
    assert microbatch.weights.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert float(microbatch.thresholds.max()) == 1.0


def test_what_follows_a_row_s_tokens_does_not_depend_on_longer_rows():
    endpoints, thresholds = (
        torch.zeros((1, 1), dtype=torch.int64),
        torch.ones(1, dtype=torch.float64),
    )
    seen = []
    tokens = {**TOKENS, "padding": {"input_ids": 1, "attention_mask": 0}}
    for longest in (2, 8):
        units = rows(1, longest, 1)  # 1 is the padding token
        units["input_ids"][:, :2] = 5
        one = inputs(units, endpoints, endpoints == 1, thresholds, grid=None)
        microbatch = Microbatch.like(one, MicrobatchShape(units=2, length=8), **tokens)
        microbatch.fill(one)
        seen.append(microbatch.rows["input_ids"].tolist())
    assert seen[0] == seen[1] == [[5, 5, 1, 1, 1, 1, 1, 1]] * 6


def test_every_length_has_a_layout_and_microbatches_of_one_unit_have_no_padding():
    run = shapes(max_length=20)
    assert run.lengths() == [8, 16, 20]
    assert shapes(max_length=None).lengths() == [1]
    single = run.with_layout(16, "single").with_layout(8, "apart")
    assert (single.units_of(16), single.units_of(20)) == (1, run.units_of(20))
    assert single.shape_of(16) == MicrobatchShape(units=1, length=16)
    assert single.shape_of(8).apart
    assert [(p.units, p.apart) for _, p in single.split(np.array([16, 16, 3]))][1:] == [
        (1, False),
        (run.units_of(8), True),
    ]
