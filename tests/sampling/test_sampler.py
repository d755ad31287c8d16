import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reldp.errors import InputError, PlanError
from reldp.graph import EntityGraph
from reldp.noise.streams import Streams
from reldp.sampling.sampler import TupleSampler

STREAMS = Streams(bytes(range(32)))
ALARM = 1e-6  # false-alarm rate of every statistical test below; the key is fixed


def ring(size=30, protected=None):
    """Entity i is related to i + 1."""
    pairs = [(i, (i + 1) % size) for i in range(size)]
    text = [f"entity {i}" for i in range(size)]
    graph = EntityGraph.from_lists(list(range(size)), pairs, text=text, protected=protected)
    return graph.promise_degrees(2)


def sampler(capped, **changes):
    settings_ = {"sample_rate": 0.2, "num_negatives": 3, "streams": STREAMS}
    return TupleSampler(capped, **(settings_ | changes))


def test_positives_are_the_relations_of_their_ids():
    capped = ring()
    for step in range(30):
        batch = sampler(capped).sample(step)
        assert (batch.positives == capped.relations[batch.relation_ids]).all()
        assert np.unique(batch.relation_ids).size == batch.num_tuples
        assert batch.negatives.shape == (batch.num_tuples, 3)


def test_negatives_of_all_entities_cover_them_and_are_masked_on_their_own_positive():
    made = sampler(ring())
    batches = [made.sample(step) for step in range(400)]
    seen = np.concatenate([batch.negatives.reshape(-1) for batch in batches])
    assert set(seen.tolist()) == set(range(30))
    masked = sum(int(batch.mask.sum()) for batch in batches)
    # A negative is one of its positive's two ends with probability 2/30.
    assert stats.binomtest(masked, seen.size, 2 / 30).pvalue > ALARM
    assert stats.binomtest(0, seen.size, 2 / 30).pvalue < ALARM  # a mask that never marks


def test_unprotected_negatives_are_never_protected():
    protected = [i % 3 != 0 for i in range(30)]
    made = sampler(ring(protected=protected), negatives="unprotected", num_negatives=1)
    assert made.pool_size == 10
    seen = np.concatenate([made.sample(step).negatives.reshape(-1) for step in range(400)])
    assert set(seen.tolist()) == set(range(0, 30, 3))
    counts = np.bincount(seen, minlength=30)[::3]
    assert stats.chisquare(counts).pvalue > ALARM
    assert any(made.sample(step).mask.any() for step in range(50))  # an unprotected end


def test_public_negatives_are_numbered_after_the_graph_and_never_masked():
    made = sampler(ring(), negatives="public", public_pool_size=100)
    batches = [made.sample(step) for step in range(200)]
    seen = np.concatenate([batch.negatives.reshape(-1) for batch in batches])
    assert seen.min() >= 30
    assert seen.max() < 130
    assert set(seen.tolist()) == set(range(30, 130))
    assert not any(batch.mask.any() for batch in batches)


@given(st.integers(0, 2**40), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_batches_are_repeatable(step, branch):
    batch = sampler(CAPPED).sample(step, branch)
    again = sampler(CAPPED).sample(step, branch)
    for name in ("positives", "negatives", "endpoints", "mask", "relation_ids"):
        assert (getattr(batch, name) == getattr(again, name)).all()


CAPPED = ring()


def test_same_coins_mean_the_same_batch_in_every_pool():
    # The pool changes who the negatives are, not which relations are taken or which ends.
    entities = sampler(CAPPED).sample(3)
    public = sampler(CAPPED, negatives="public", public_pool_size=30).sample(3)
    assert (entities.relation_ids == public.relation_ids).all()
    assert (entities.endpoints == public.endpoints).all()
    assert (entities.negatives + 30 == public.negatives).all()


def test_empty_batches_are_ordinary_and_overflowing_ones_say_so():
    rare = sampler(CAPPED, sample_rate=1e-9)
    batch = rare.sample(0)
    assert (batch.num_tuples, batch.num_negatives, batch.overflow) == (0, 3, False)
    full = sampler(CAPPED, sample_rate=1.0, num_negatives=2).sample(0)
    assert (full.num_tuples, full.overflow) == (0, True)
    fits = sampler(CAPPED, sample_rate=1.0, num_negatives=1).sample(0)
    assert (fits.num_tuples, fits.overflow) == (30, False)
    assert sorted(fits.negatives.reshape(-1).tolist()) == list(range(30))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("negatives", {"negatives": "friends"}),
        ("public_pool_size", {"negatives": "public"}),
        ("public_pool_size", {"public_pool_size": 100}),
        ("pool_size", {"negatives": "unprotected"}),  # every entity is protected
        ("sample_rate", {"sample_rate": 1.5}),
        ("num_negatives", {"num_negatives": -1}),
        ("num_negatives", {"num_negatives": 1.5}),
    ],
)
def test_impossible_settings_are_refused(name, changes):
    with pytest.raises(PlanError, match=f"`{name}`"):
        sampler(CAPPED, **changes)


def test_only_capped_graphs_and_valid_steps_are_taken():
    with pytest.raises(PlanError, match=r"cap_degrees"):
        sampler(CAPPED.graph)
    with pytest.raises(InputError, match="`step`"):
        sampler(CAPPED).sample(-1)
    with pytest.raises(InputError, match="`branch`"):
        sampler(CAPPED).sample(0, branch=-1)


def test_types_follow_their_relations():
    pairs = [(i, (i + 1) % 30) for i in range(30)]
    graph = EntityGraph.from_lists(
        list(range(30)), pairs, text=["x"] * 30, types=[str(i % 3) for i in range(30)]
    )
    capped = graph.promise_degrees(2)
    plain = sampler(ring())
    for step in range(30):
        batch = sampler(capped).sample(step)
        assert batch.types.tolist() == [int(row) % 3 for row in batch.relation_ids]
        assert (batch.entities == plain.sample(step).entities).all()  # types move no draw
        assert plain.sample(step).types is None


def matching(size=30):
    """Entities 2 i and 2 i + 1 are related."""
    pairs = [(2 * i, 2 * i + 1) for i in range(size)]
    text = [f"entity {i}" for i in range(2 * size)]
    graph = EntityGraph.from_lists(list(range(2 * size)), pairs, text=text)
    return graph.promise_degrees(1)


def test_other_relations_bring_both_endpoints_and_are_all_distinct_in_a_batch():
    made = sampler(matching(), negatives="relations", num_negatives=2)
    assert made.pool_size == 30
    drawn = []
    for step in range(400):
        batch = made.sample(step)
        assert batch.negatives.shape == batch.endpoints.shape == (batch.num_tuples, 4)
        first, second = batch.negatives[:, ::2], batch.negatives[:, 1::2]
        assert ((second == first + 1) & (first % 2 == 0)).all()
        assert np.unique(first).size == first.size
        assert (batch.endpoints[:, ::2] == batch.endpoints[:, 1::2]).all()
        own = first == batch.positives[:, :1]
        assert (batch.mask == np.repeat(own, 2, axis=1)).all()
        drawn.append(first.ravel() // 2)
    counts = np.bincount(np.concatenate(drawn), minlength=30)
    assert stats.chisquare(counts).pvalue > ALARM
    counts[0] *= 2  # a relation that is drawn twice as often
    assert stats.chisquare(counts).pvalue < ALARM


def test_more_other_relations_than_there_are_overflow():
    made = sampler(matching(), negatives="relations", num_negatives=16, sample_rate=0.5)
    batch = made.sample(0)
    assert batch.overflow
    assert batch.negatives.shape == (0, 32)
