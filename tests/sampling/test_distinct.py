from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reldp.errors import PlanError
from reldp.noise.streams import Streams
from reldp.sampling.distinct import distinct

STREAMS = Streams(bytes(range(32)))
ALARM = 1e-6  # false-alarm rate of every statistical test below; the key is fixed


def sequence_pvalue(sequences, size, count):
    """Chi-square over all ordered choices without repeats; 0 if a repeat occurs."""
    cells = dict.fromkeys(permutations(range(size), count), 0)
    for sequence in sequences:
        if tuple(sequence) not in cells:
            return 0.0
        cells[tuple(sequence)] += 1
    return stats.chisquare(list(cells.values())).pvalue


@pytest.mark.parametrize(
    ("size", "count"), [(6, 1), (6, 2), (6, 3), (5, 3), (4, 4), (10, 2), (1, 1)]
)
def test_every_ordered_choice_is_equally_likely(size, count):
    # Both ways are met: rejection up to half of the pool, shuffling beyond.
    sequences = [
        distinct(STREAMS.stream("distinct", count, step), size, count).tolist()
        for step in range(12_000)
    ]
    assert size == 1 or sequence_pvalue(sequences, size, count) > ALARM


def test_control_choices_with_replacement_sorted_or_lopsided_are_rejected():
    rng = STREAMS.stream("control", 0, 0)
    drawn = [distinct(STREAMS.stream("c", 0, step), 6, 2) for step in range(12_000)]
    assert sequence_pvalue(rng.integers(6, 24_000).reshape(-1, 2).tolist(), 6, 2) < ALARM
    assert sequence_pvalue([sorted(pair.tolist()) for pair in drawn], 6, 2) < ALARM
    # Every fourth sequence that begins with entity 0 is turned round.
    swapped = [pair if pair[0] != 0 or i % 4 else pair[::-1] for i, pair in enumerate(drawn)]
    assert sequence_pvalue([pair.tolist() for pair in swapped], 6, 2) < ALARM


@given(st.integers(0, 400), st.data())
@settings(max_examples=100, deadline=None)
def test_choices_are_distinct_in_range_and_repeatable(size, data):
    count = data.draw(st.integers(0, size))
    chosen = distinct(STREAMS.stream("any", size, count), size, count)
    assert chosen.dtype == np.int64
    assert chosen.shape == (count,)
    assert len(set(chosen.tolist())) == count
    assert all(0 <= value < size for value in chosen.tolist())
    again = distinct(STREAMS.stream("any", size, count), size, count)
    assert (chosen == again).all()


@pytest.mark.parametrize(("size", "count"), [(20_000, 1024), (10**12, 5000), (3000, 1500)])
def test_larger_choices_are_distinct_and_uniform_over_the_pool(size, count):
    runs = 60
    tenths = np.zeros(10, np.int64)
    for step in range(runs):
        chosen = distinct(STREAMS.stream("large", 0, step), size, count)
        assert np.unique(chosen).size == count
        tenths += np.bincount(chosen * 10 // size, minlength=10)
    # Without replacement the counts vary less than a multinomial: the test errs to acceptance.
    assert stats.chisquare(tenths).pvalue > ALARM
    biased = tenths + np.array([runs * count // 50] + [0] * 9)
    assert stats.chisquare(biased, np.full(10, biased.mean())).pvalue < ALARM


def test_too_many_are_refused():
    for count in (-1, 6):
        with pytest.raises(PlanError, match="`count`"):
            distinct(STREAMS.stream("p", 0, 0), 5, count)
