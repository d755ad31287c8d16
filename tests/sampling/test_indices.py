from itertools import product

import numpy as np
import pytest
from scipy import stats

from reldp.errors import PlanError
from reldp.noise import gaussian
from reldp.noise.streams import Streams
from reldp.sampling import indices
from reldp.sampling.indices import IndexSampler

STREAMS = Streams(bytes(range(32)))
ALARM = 1e-6  # false-alarm rate of every statistical test below; the key is fixed
RATE = 0.3


def sampler(**changes):
    sizes = {"num_relations": 8, "pool_size": 20, "sample_rate": RATE, "num_negatives": 2}
    return IndexSampler(**(sizes | {"streams": STREAMS} | changes))


def inclusions(made, steps=6000):
    """(step, relation) 0/1: which relations the batches hold."""
    out = np.zeros((steps, made.num_relations))
    for step in range(steps):
        out[step, made.draw(step).relation_ids] = 1
    return out


def fixed_size(steps=6000, size=8):
    """Control: batches of 2 or 3 relations, the right mean but hardly any variance of the size."""
    rng = np.random.default_rng(0)
    out = np.zeros((steps, size))
    for step in range(steps):
        out[step, rng.choice(size, 2 + (step % 5 < 2), replace=False)] = 1
    return out


def rate_pvalue(included):
    """Inclusion rate of one relation, and of all: binomial tests, Bonferroni over m + 1."""
    steps, size = included.shape
    values = [stats.binomtest(int(c), steps, RATE).pvalue for c in included.sum(0)]
    values.append(stats.binomtest(int(included.sum()), included.size, RATE).pvalue)
    return min(values) * (size + 1)


def joint_pvalue(included):
    """Joint inclusion of two: every pair, and the number of pairs in all batches together."""
    steps, size = included.shape
    joint = included.T @ included
    values = [
        stats.binomtest(int(joint[i, j]), steps, RATE**2).pvalue
        for i in range(size)
        for j in range(i)
    ]
    # l(l-1)/2 of l ~ Bin(m, rate): mean and variance by enumeration.
    law = stats.binom(size, RATE)
    pairs = np.arange(size + 1) * np.arange(-1, size) / 2
    mean = law.expect(lambda count: count * (count - 1) / 2)
    spread = np.sqrt((law.pmf(np.arange(size + 1)) * (pairs - mean) ** 2).sum() / steps)
    batch_sizes = included.sum(1)
    score = ((batch_sizes * (batch_sizes - 1) / 2).mean() - mean) / spread
    values.append(2 * stats.norm.sf(abs(score)))
    return min(values) * len(values)


def subset_pvalue(included):
    """Chi-square over all subsets of the first four relations, which are 16 known probabilities."""
    first = included[:, :4].astype(int)
    observed = np.bincount(first @ [1, 2, 4, 8], minlength=16)
    bits = np.array(list(product([0, 1], repeat=4)))[:, ::-1]
    expected = np.prod(np.where(bits, RATE, 1 - RATE), axis=1) * len(first)
    return stats.chisquare(observed, expected).pvalue


def test_relations_enter_independently_at_the_rate_and_controls_are_rejected():
    right = inclusions(sampler())
    assert rate_pvalue(right) > ALARM
    assert joint_pvalue(right) > ALARM
    assert subset_pvalue(right) > ALARM
    ten_percent_off = inclusions(sampler(sample_rate=1.1 * RATE))
    assert rate_pvalue(ten_percent_off) < ALARM
    assert subset_pvalue(ten_percent_off) < ALARM
    # Fixed-size batches have the right rate: only the joint tests can tell.
    wrong = fixed_size()
    assert rate_pvalue(wrong) > ALARM
    assert joint_pvalue(wrong) < ALARM
    assert subset_pvalue(wrong) < ALARM


def test_steps_branches_and_keys_are_independent_and_repeated_coins_are_rejected():
    base = inclusions(sampler()).reshape(-1)
    shifted = np.roll(inclusions(sampler()), 1, axis=0).reshape(-1)
    other_key = inclusions(sampler(streams=Streams(bytes(32)))).reshape(-1)
    made, branch = sampler(), np.zeros((6000, 8))
    for step in range(6000):
        branch[step, made.draw(step, branch=1).relation_ids] = 1
    for other in (shifted, other_key, branch.reshape(-1)):
        assert stats.pearsonr(base, other).pvalue > ALARM
    half_repeated = np.where(np.arange(base.size) % 2, base, shifted)
    assert stats.pearsonr(base, half_repeated).pvalue < ALARM


def test_negatives_are_distinct_uniform_and_uniform_per_place():
    counts = np.zeros((3, 12), np.int64)  # (place in the batch, entity)
    made = sampler(num_relations=3, sample_rate=1.0, num_negatives=2, pool_size=12)
    for step in range(6000):
        places = made.draw(step).places
        assert np.unique(places).size == 6
        for i in range(3):
            counts[i, places[i, 0]] += 1
    for row in counts:
        assert stats.chisquare(row).pvalue > ALARM
    assert stats.chisquare(counts[0] + np.eye(12, dtype=int)[0] * 200).pvalue < ALARM


def all_distinct(batches):
    """Whether no batch holds an entity twice."""
    return all(np.unique(batch).size == batch.size for batch in batches)


def test_control_negatives_with_replacement_are_rejected():
    made = sampler(num_relations=50, sample_rate=0.2, pool_size=1000)
    drawn = [made.draw(step).places for step in range(300)]
    assert all_distinct(drawn)
    stream = STREAMS.stream("with replacement", 0, 0)
    control = [stream.integers(1000, batch.size) for batch in drawn]
    assert not all_distinct(control)


def test_two_negatives_of_one_batch_are_jointly_uniform():
    # All ordered pairs of different entities are equally likely, in one tuple and across two.
    made = sampler(num_relations=2, sample_rate=1.0, num_negatives=2, pool_size=5)
    places = np.stack([made.draw(step).places.reshape(-1) for step in range(8000)])
    for left, right in ((0, 1), (0, 2), (1, 3)):
        table = np.zeros((5, 5), np.int64)
        np.add.at(table, (places[:, left], places[:, right]), 1)
        assert table.trace() == 0
        off_diagonal = table[~np.eye(5, dtype=bool)]
        assert stats.chisquare(off_diagonal).pvalue > ALARM


def test_ends_are_fair_and_independent_of_each_other():
    made = sampler(num_relations=40, sample_rate=0.5, pool_size=200, num_negatives=4)
    endpoints = np.concatenate([made.draw(step).endpoints.reshape(-1) for step in range(800)])
    assert set(np.unique(endpoints)) == {0, 1}
    assert stats.binomtest(int(endpoints.sum()), endpoints.size, 0.5).pvalue > ALARM
    neighbors = int((endpoints[1:] == endpoints[:-1])[::2].sum())
    assert stats.binomtest(neighbors, endpoints.size // 2, 0.5).pvalue > ALARM
    lopsided = int(endpoints.sum()) + endpoints.size // 20  # 55 %
    assert stats.binomtest(lopsided, endpoints.size, 0.5).pvalue < ALARM
    assert stats.binomtest(0, endpoints.size, 0.5).pvalue < ALARM  # always the first end


def test_positives_negatives_and_ends_read_different_coins(monkeypatch):
    asked = []
    real = Streams.stream

    def recording(self, purpose, branch, step, lane=0):
        asked.append((purpose, branch, step, lane))
        return real(self, purpose, branch, step, lane)

    monkeypatch.setattr(Streams, "stream", recording)
    made = sampler()
    made.draw(4, branch=2)
    assert len({purpose for purpose, *_ in asked}) == len(asked) == 3
    assert all((branch, step) == (2, 4) for _, branch, step, _ in asked)


def test_sampling_and_noise_have_no_purpose_in_common():
    coins = [indices._POSITIVES, indices._NEGATIVES, indices._ENDPOINTS]
    noise = [gaussian._DRAWS, gaussian._REFINEMENTS, gaussian._FAST]
    assert len(set(coins + noise)) == 6


def test_text_form_shows_no_coins():
    assert repr(sampler().draw(0)) == "IndexDraw(overflow=False)"


def test_a_step_is_the_same_whether_reached_by_running_or_alone():
    running = sampler()
    trail = [running.draw(step) for step in range(20)]
    for step in (19, 3, 11):
        alone = sampler().draw(step)
        for name in ("relation_ids", "places", "endpoints"):
            assert (getattr(alone, name) == getattr(trail[step], name)).all()


def test_more_negatives_than_the_pool_holds_is_an_empty_overflow():
    made = sampler(num_relations=11, sample_rate=1.0, num_negatives=2, pool_size=20)
    draw = made.draw(0)
    assert draw.overflow
    assert draw.relation_ids.shape == (0,)
    assert draw.places.shape == draw.endpoints.shape == (0, 2)
    exact_fit = sampler(num_relations=10, sample_rate=1.0, num_negatives=2, pool_size=20).draw(0)
    assert not exact_fit.overflow
    assert sorted(exact_fit.places.reshape(-1).tolist()) == list(range(20))


def test_overflow_happens_as_often_as_its_probability_says():
    made = sampler(num_relations=30, sample_rate=0.2, num_negatives=2, pool_size=15)
    overflows = sum(made.draw(step).overflow for step in range(3000))
    chance = stats.binom.sf(7, 30, 0.2)
    assert stats.binomtest(overflows, 3000, chance).pvalue > ALARM
    assert stats.binomtest(overflows, 3000, stats.binom.sf(8, 30, 0.2)).pvalue < ALARM


def test_no_negatives_need_no_pool():
    draw = sampler(num_negatives=0, pool_size=0, sample_rate=1.0).draw(0)
    assert sorted(draw.relation_ids.tolist()) == list(range(8))
    assert draw.places.shape == (8, 0)
    assert not draw.overflow


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("num_relations", {"num_relations": -1}),
        ("pool_size", {"pool_size": 1}),
        ("pool_size", {"pool_size": 2.5}),
        ("sample_rate", {"sample_rate": 0}),
        ("sample_rate", {"sample_rate": 2}),
        ("num_negatives", {"num_negatives": -1}),
    ],
)
def test_impossible_sizes_are_refused(name, changes):
    with pytest.raises(PlanError, match=f"`{name}`"):
        sampler(**changes)
