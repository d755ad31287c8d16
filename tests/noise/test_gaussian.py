import threading

import numpy as np
import pytest
import torch
from scipy import stats

from reldp.errors import InputError
from reldp.noise import gaussian
from reldp.noise.gaussian import GaussianNoise, add_noise
from reldp.noise.rounded import GRID
from reldp.noise.streams import Streams

STREAMS = Streams(bytes(range(32)))
ALARM = 1e-6  # false-alarm rate of every statistical test below; the key is fixed


def draws(step=0, branch=0, size=1 << 18):
    return GaussianNoise(STREAMS, prefetch=0).draw(step, branch, size)


def test_distribution_is_standard_normal_and_five_percent_wrong_scale_is_rejected():
    sample = draws()
    assert stats.kstest(sample, "norm").pvalue > ALARM
    assert stats.kstest(sample * 1.05, "norm").pvalue < ALARM
    assert stats.kstest(sample / 1.05, "norm").pvalue < ALARM


def test_tails_hold_as_many_draws_as_they_should():
    sample = np.abs(np.concatenate([draws(step) for step in range(4)]))
    for bound in (3.0, 4.0, 4.5):
        count = int((sample > bound).sum())
        chance = 2 * stats.norm.sf(bound)
        assert stats.binomtest(count, sample.size, chance).pvalue > ALARM
    # Control: tails cut at 4 standard deviations.
    assert stats.binomtest(0, sample.size, 2 * stats.norm.sf(4.0)).pvalue < ALARM


def test_cosine_and_sine_draws_are_uncorrelated_also_in_size():
    sample = draws().reshape(-1, 2)
    for power in (1, 2):
        left, right = sample[:, 0] ** power, sample[:, 1] ** power
        assert stats.pearsonr(left, right).pvalue > ALARM
        assert stats.pearsonr(left, right + 0.05 * left).pvalue < ALARM


def test_steps_branches_and_parameters_are_independent():
    base = draws(step=3, size=100_000)
    others = {
        "next step": draws(step=4, size=100_000),
        "other branch": draws(step=3, branch=1, size=100_000),
        "next parameter": np.roll(base, 1),
        "next pair": np.roll(base, 2),
        "half way": np.roll(base, 50_000),
    }
    for name, other in others.items():
        assert stats.pearsonr(base, other).pvalue > ALARM, name
    assert stats.pearsonr(base, base).pvalue < ALARM


def test_blocks_of_one_draw_are_independent():
    sample = draws(size=3 * gaussian._BLOCK)
    blocks = sample.reshape(3, -1)
    for left, right in ((0, 1), (0, 2), (1, 2)):
        assert stats.pearsonr(blocks[left], blocks[right]).pvalue > ALARM


def test_noise_is_a_function_of_key_branch_and_step_alone():
    expected = draws(step=5, branch=2, size=1001)
    assert (draws(step=5, branch=2, size=1001) == expected).all()
    assert not (draws(step=6, branch=2, size=1001) == expected).any()
    assert not (draws(step=5, branch=1, size=1001) == expected).any()
    other = GaussianNoise(Streams(bytes(32)), prefetch=0).draw(5, 2, 1001)
    assert not (other == expected).any()


@pytest.mark.parametrize("mode", ["secure", "fast"])
def test_noise_for_a_sum_is_gaussian_and_another_for_every_other_sum(mode):
    """40,000 draws: mean within 5 standard errors, deviation within 2 % (5.6 of them)."""
    sums = np.arange(40.0)[:, None] * np.ones(1000)
    with GaussianNoise(Streams(bytes(range(32))), mode) as noise:
        drawn = np.stack([noise.draw_for(total.data, 3, 0) for total in sums])
        assert np.array_equal(drawn[7], noise.draw_for(sums[7].copy().data, 3, 0))
        assert not np.array_equal(drawn[7], noise.draw_for(sums[7].data, 4, 0))
    assert abs(drawn.mean()) < 5 / 200
    assert drawn.std() == pytest.approx(1.0, abs=0.02)
    # 780 pairs of 1000: a correlation above 0.19 once in 3 million tests.
    assert np.abs(np.corrcoef(drawn) - np.eye(40)).max() < 0.19


def test_noise_of_a_key_is_the_same_on_every_machine():
    # Correct rounding leaves no room for the mathematical library. Source of the numbers: the
    # integer half alone, reldp.noise.refine.
    steps = (draws(step=1, branch=0, size=4) / GRID).astype(np.int64)
    assert steps.tolist() == [-96868277, 1057454037, 60997554, 1450690150]


@pytest.mark.parametrize("size", [0, 1, 2, 777, gaussian._BLOCK - 1, gaussian._BLOCK + 3])
def test_a_shorter_draw_is_the_beginning_of_a_longer_one(size):
    assert (draws(size=gaussian._BLOCK + 4)[:size] == draws(size=size)).all()


@pytest.mark.parametrize(("prefetch", "workers"), [(0, 1), (1, 1), (3, 2)])
def test_prefetching_and_threads_change_nothing(prefetch, workers):
    size = gaussian._BLOCK + 11
    with GaussianNoise(STREAMS, prefetch=prefetch, workers=workers) as noise:
        noise.prefetch(0, 0, size)
        order = [(0, 0), (1, 0), (2, 0), (7, 0), (8, 0), (3, 1), (4, 1), (0, 0)]
        got = [noise.draw(step, branch, size) for step, branch in order]
    for (step, branch), array in zip(order, got, strict=True):
        assert (array == draws(step, branch, size)).all()


def test_prefetched_arrays_are_fresh_and_writable():
    with GaussianNoise(STREAMS) as noise:
        first = noise.draw(0, 0, 100)
        first[:] = 0.0
        assert (noise.draw(0, 0, 100) == draws(size=100)).all()


def test_draws_can_be_written_where_the_caller_wants_them():
    made = []

    def allocate(size):
        made.append(torch.empty(size, dtype=torch.float64))
        return made[-1].numpy()

    with GaussianNoise(STREAMS, allocate=allocate) as noise:
        noise.draw(0, 0, 100)
    assert (made[0].numpy() == draws(size=100)).all()


def test_next_step_is_drawn_in_the_background():
    def threads():
        return {t for t in threading.enumerate() if t.name.startswith("reldp-noise")}

    others = threads()  # of steps that other tests left open
    with GaussianNoise(STREAMS, prefetch=2) as noise:
        noise.draw(0, 0, 5000)
        assert sorted(address.step for address in noise._jobs) == [1, 2]
        assert threads() - others
        noise.draw(9, 1, 5000)  # another branch: what was drawn ahead for the old one is dropped
        assert sorted(noise._jobs) == [(10, 1, 5000), (11, 1, 5000)]
    assert not noise._jobs
    assert not threads() - others
    assert (noise.draw(1, 0, 50) == draws(1, 0, 50)).all()


def test_noise_is_added_to_an_empty_batch_too():
    noise = draws(size=1000)
    assert (add_noise(np.zeros(1000), noise, standard_deviation=0.7) == noise * 0.7).all()


def test_variance_after_accumulating_chunks_is_that_of_one_noise():
    # The sum of the chunks gets noise once. Control: noise on each of four chunks.
    size, deviation = 100_000, 1.7
    chunks = [np.full(size, value) for value in (0.3, -0.2, 0.5, 1.1)]
    once = add_noise(sum(chunks), draws(size=size), standard_deviation=deviation) - 1.7
    each = sum(
        add_noise(chunk, draws(step, size=size), standard_deviation=deviation)
        for step, chunk in enumerate(chunks)
    )
    low, high = stats.chi2.ppf([ALARM / 2, 1 - ALARM / 2], size)
    assert low < (once**2).sum() / deviation**2 < high
    assert not low < ((each - 1.7) ** 2).sum() / deviation**2 < high


def test_sum_leaves_on_the_grid_so_low_bits_carry_nothing():
    # Added the ordinary way, a total off the grid leaves its trace between the grid points.
    noise = draws(size=1000)
    for total in (0.1, 0.1 + 1e-14):
        values = np.full(1000, total)
        released = add_noise(values, noise, standard_deviation=1.0)
        assert (np.rint(released / GRID) == released / GRID).all()
        plain = values + noise
        assert not (np.rint(plain / GRID) == plain / GRID).any()


def test_a_sum_on_the_grid_is_not_moved_and_another_by_half_a_step_per_coordinate():
    rng = np.random.default_rng(0)
    for deviation in (1e-3, 0.37, 37.0):
        zero = np.zeros(10_000)
        # As large as a sum may be: 2^20 standard deviations.
        steps = np.rint(rng.uniform(-1, 1, size=zero.size) * 2.0**50)
        total = steps * (GRID * deviation)
        again = add_noise(total, zero, standard_deviation=deviation)
        assert (np.rint(again / deviation / GRID) == steps).all()
        off = rng.normal(size=zero.size) * 50 * deviation
        moved = np.abs(add_noise(off, zero, standard_deviation=deviation) - off)
        assert moved.max() < 0.5 * GRID * deviation * (1 + 1e-3)
        assert moved.max() > 0.49 * GRID * deviation  # and the bound is not idle


def test_torch_tensors_get_bitwise_the_same_noise():
    total = np.random.default_rng(1).normal(size=500)
    noise = draws(size=500)
    expected = add_noise(total, noise, standard_deviation=0.3)
    got = add_noise(torch.from_numpy(total), torch.from_numpy(noise), standard_deviation=0.3)
    assert (got.numpy() == expected).all()


def test_no_noise_returns_the_sum():
    total = np.random.default_rng(2).normal(size=10)
    assert (add_noise(total, draws(size=10), standard_deviation=0.0) == total).all()


def test_no_two_steps_of_fast_noise_are_alike_as_they_were_with_seeds_of_32_bits():
    """100,000 steps: 128 bits collide with probability 1e-29; the control's 32 bits do here."""
    steps = 100_000
    words = [
        tuple(STREAMS.stream("noise/fast", 0, step).uint64(2).tolist()) for step in range(steps)
    ]
    assert len(set(words)) == steps
    assert len({first & 0xFFFFFFFF for first, _ in words}) < steps
    fast = GaussianNoise(STREAMS, "fast", prefetch=0)
    first = {float(fast.draw(step, branch, 1)[0]) for step in range(500) for branch in range(4)}
    assert len(first) == 2000


def test_fast_noise_is_keyed_by_all_128_bits_and_lies_on_the_grid(monkeypatch):
    fast = GaussianNoise(STREAMS, "fast", prefetch=0)
    whole = fast.draw(3, 1, 300_000)
    assert (np.rint(whole / GRID) == whole / GRID).all()
    assert (fast.draw(3, 1, 10) == whole[:10]).all()
    assert not (draws(step=3, branch=1, size=10) == whole[:10]).any()
    seen = []
    philox = np.random.Philox
    monkeypatch.setattr(np.random, "Philox", lambda key: seen.append(key) or philox(key=key))
    fast.draw(3, 1, 300_000)
    assert [len(key) for key in seen] == [2, 2]
    assert (seen[0] != seen[1]).all()
    for flipped in (0, 1):  # either half of the key decides
        key = seen[0].copy()
        key[flipped] ^= np.uint64(1 << 63)
        other = np.random.Generator(philox(key=key)).standard_normal(10)
        assert not (np.rint(other / GRID) * GRID == whole[:10]).any()


def test_fast_noise_is_gaussian_and_another_deviation_would_be_rejected():
    """Kolmogorov-Smirnov on 200,000 draws of a fixed key, at a false-alarm rate of 1e-3."""
    found = GaussianNoise(STREAMS, "fast", prefetch=0).draw(0, 0, 200_000)
    assert stats.kstest(found, "norm").pvalue > 1e-3
    assert stats.kstest(found * 1.02, "norm").pvalue < 1e-3


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("noise_generator", lambda: GaussianNoise(STREAMS, "sloppy")),
        ("prefetch", lambda: GaussianNoise(STREAMS, prefetch=-1)),
        ("workers", lambda: GaussianNoise(STREAMS, workers=0)),
        ("allocate", lambda: GaussianNoise(STREAMS, allocate=np.ones(7).repeat).draw(0, 0, 3)),
        ("step", lambda: draws(step=-1)),
        ("branch", lambda: draws(branch=0.5)),
        ("size", lambda: draws(size=-1)),
        ("total", lambda: add_noise(np.zeros(1, "f4"), np.zeros(1), standard_deviation=1.0)),
        ("noise", lambda: add_noise(np.zeros(1), np.zeros(1, "f4"), standard_deviation=1.0)),
        ("noise", lambda: add_noise(np.zeros(2), np.zeros(1), standard_deviation=1.0)),
        ("standard_deviation", lambda: add_noise(np.zeros(1), np.zeros(1), standard_deviation=-1)),
    ],
)
def test_bad_arguments_are_refused_by_name(name, call):
    with pytest.raises(InputError, match=f"`{name}`"):
        call()


@pytest.mark.parametrize("deviation", [1e-300, 5e-324, 1e300])
def test_a_grid_that_float64_cannot_hold_is_refused(deviation):
    """The reciprocal of a step of the grid was infinite: a sum of 0 could be told from others."""
    with pytest.raises(InputError, match="standard_deviation"):
        add_noise(np.array([0.0, 1e-300]), np.zeros(2), standard_deviation=deviation)
    kept = add_noise(np.array([0.0, 1e-270]), np.zeros(2), standard_deviation=1e-270)
    assert kept.tolist() == pytest.approx([0.0, 1e-270], rel=1e-12, abs=0.0)
