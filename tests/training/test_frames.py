"""Frames: shapes that are public, and fillers that leave no trace."""

import numpy as np
import pytest
import torch

from reldp.training.frames import Frame, Piece, Shapes, Summed, most_units

LONGEST = np.array([31, 30, 30, 25, 24, 20, 18, 17, 9, 3])


def shapes(**changes):
    settings = {"rows_per_unit": 6, "most_units": 80, "max_length": 32, "kind": "cpu"}
    return Shapes(**{**settings, **changes})


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("max_length", [5, 13, 32, 200, None])
def test_a_unit_s_frame_follows_from_the_unit_alone(kind, max_length):
    """Whatever else is in the batch, the same unit meets the same shape."""
    own = shapes(kind=kind, max_length=max_length)
    lengths = np.minimum(LONGEST, max_length or 99)
    for keep in (np.arange(10), np.arange(3, 10), np.array([0, 4, 9]), np.array([5])):
        pieces = own.cut(lengths[keep])
        assert [p.start for p in pieces] == [0, *(p.stop for p in pieces[:-1])]
        assert pieces[-1].stop == len(keep)
        for piece in pieces:
            assert 0 < piece.stop - piece.start <= piece.units
            for unit in lengths[keep][piece.start : piece.stop]:
                assert piece.length == own.length_of(int(unit))
                assert piece.units == own.units_of(piece.length)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_frames_hold_their_rows_and_keep_to_the_model_s_positions(kind):
    for max_length in (5, 13, 32, 100, 256, 300):
        own = shapes(kind=kind, max_length=max_length)
        for longest in range(1, max_length + 1):
            assert longest <= own.length_of(longest) <= max_length


def test_lengths_are_few_on_a_gpu_and_close_on_a_cpu():
    gpu, cpu = shapes(kind="cuda", max_length=256), shapes(max_length=256)
    assert {gpu.length_of(n) for n in range(1, 257)} == {32, 64, 128, 256}
    assert all(cpu.length_of(n) < n + (8 if n <= 64 else 32) for n in range(1, 257))


def test_units_of_a_frame_are_as_asked_or_fit_the_device():
    assert shapes(units=3).cut(np.full(7, 20))[0] == Piece(0, 2, 24, 3)  # the third fills up
    assert shapes(units=1).cut(np.full(7, 20))[0] == Piece(0, 1, 24, 1)
    assert shapes(units=1).units_of(32) == 1
    assert shapes(rows_per_unit=500).units_of(32) == 3  # two, so that what mixes is found
    assert shapes(kind="cuda").units_of(32) == 81
    assert shapes(max_length=None).length_of(99) == 1


@pytest.mark.parametrize(("batch", "per_tuple"), [(64, 1), (256, 1), (64, 4), (0.01, 1), (3.5, 2)])
def test_most_batches_fit(batch, per_tuple):
    found = most_units(batch, per_tuple)
    tuples = np.random.default_rng(0).poisson(batch, 20_000) * per_tuple
    assert found % 8 == 0
    assert (tuples > found).mean() < 0.05
    assert found <= per_tuple * (batch + 2.1 * np.sqrt(batch)) + 8


def rows(units, longest, value):
    ids = torch.full((units * 3, longest), value)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def test_a_frame_repeats_its_first_unit_with_weight_zero():
    endpoints, mask = torch.tensor([[1], [0]]), torch.tensor([[True], [False]])
    chunk = rows(2, 5, 7)
    chunk["input_ids"][0] = torch.tensor([1, 2, 3, 4, 5])
    frame = Frame.like(chunk, endpoints, Piece(0, 2, 8, 4), has_grid=True)
    thresholds = torch.tensor([2.0, 3.0], dtype=torch.float64)
    frame.fill(chunk, endpoints, mask, thresholds, grid=0.25)
    assert float(frame.grid) == 0.25
    assert frame.rows["input_ids"].shape == (12, 8)
    assert frame.rows["input_ids"][6].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
    assert frame.rows["input_ids"][9].tolist() == [1, 2, 3, 4, 5, 0, 0, 0]
    assert frame.rows["attention_mask"][:, 5:].sum() == 0
    full = rows(2, 8, 7)
    frame.fill(full, endpoints, mask, thresholds, grid=0.5)
    assert frame.rows["attention_mask"].sum(1).tolist() == [8] * 6 + [7] * 6
    assert frame.endpoints.tolist() == [[1], [0], [1], [1]]
    assert frame.mask.tolist() == [[True], [False], [True], [True]]
    assert frame.weights.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert frame.thresholds.tolist() == [2.0, 3.0, 2.0, 2.0]
    frame.fill(full, endpoints, mask, thresholds, grid=0.5, weights=torch.tensor([0.0, 1.0]))
    assert frame.weights.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_a_frame_keeps_nothing_of_the_chunk_before():
    endpoints, thresholds = (
        torch.zeros((3, 1), dtype=torch.int64),
        torch.ones(3, dtype=torch.float64),
    )
    frame = Frame.like(rows(3, 8, 9), endpoints, Piece(0, 3, 8, 4), has_grid=False)
    frame.fill(rows(3, 8, 9), endpoints + 1, endpoints == 0, thresholds * 1e9, grid=None)
    frame.fill(rows(1, 2, 5), endpoints[:1], endpoints[:1] == 1, thresholds[:1], grid=None)
    assert frame.grid is None
    assert set(frame.rows["input_ids"].unique().tolist()) == {0, 5}
    assert frame.rows["attention_mask"].sum(1).tolist() == [2] * 12
    assert not frame.endpoints.any()
    assert not frame.mask.any()
    assert frame.weights.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert float(frame.thresholds.max()) == 1.0


def test_what_follows_a_row_s_tokens_does_not_depend_on_longer_rows():
    endpoints, thresholds = (
        torch.zeros((1, 1), dtype=torch.int64),
        torch.ones(1, dtype=torch.float64),
    )
    seen = []
    for longest in (2, 8):
        chunk = rows(1, longest, 1)  # 1 is the padding token
        chunk["input_ids"][:, :2] = 5
        frame = Frame.like(chunk, endpoints, Piece(0, 1, 8, 2), has_grid=False, pad_id=1)
        frame.fill(chunk, endpoints, endpoints == 1, thresholds, grid=None)
        seen.append(frame.rows["input_ids"].tolist())
    assert seen[0] == seen[1] == [[5, 5, 1, 1, 1, 1, 1, 1]] * 6


def test_sums_are_joined_unit_by_unit_and_copied():
    values = torch.arange(3.0)
    one = Summed(torch.ones(2), values, values + 1, values + 2)
    copy = one.first(2)
    values.fill_(9.0)
    assert copy.norms.tolist() == [0.0, 1.0]
    both = copy.plus(copy)
    assert both.total.tolist() == [2.0, 2.0]
    assert both.factors.tolist() == [2.0, 3.0, 2.0, 3.0]


def test_every_length_has_a_layout_and_frames_of_one_unit_have_no_padding():
    own = shapes(max_length=20)
    assert own.lengths() == [8, 16, 20]
    assert shapes(max_length=None).lengths() == [1]
    single = own.laid_out(16, "single").laid_out(8, "apart")
    assert (single.units_of(16), single.units_of(20)) == (1, own.units_of(20))
    assert single.whole(16) == Piece(0, 1, 16, 1)
    assert single.whole(8).apart
    assert [(p.units, p.apart) for p in single.cut(np.array([16, 16, 3]))][1:] == [
        (1, False),
        (own.units_of(8), True),
    ]
