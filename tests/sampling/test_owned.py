"""Negatives where entities have owners: distinct owners, then one entity of each, uniformly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reldp.graph import EntityGraph
from reldp.noise.streams import Streams
from reldp.sampling.owned import OwnedEntities
from reldp.sampling.sampler import TupleSampler

STREAMS = Streams(bytes(range(32)))
ALARM = 1e-6  # false-alarm rate of every statistical test below; the key is fixed
OWNER = ["a", "a", "a", None, "b", "b", None, None, None, None, "c", "c", "c", "c"]


def capped(owner=OWNER, protected=None):
    size = len(owner)
    graph = EntityGraph.from_lists(
        list(range(size)),
        [(i, (i + 1) % size) for i in range(size)],
        text=["x"] * size,
        owner=owner,
        protected=protected,
    )
    return graph.promise_degrees(8)


def sampler(graph, **changes):
    settings_ = {"sample_rate": 0.2, "num_negatives": 2, "streams": STREAMS}
    return TupleSampler(graph, **(settings_ | changes))


def test_an_owner_is_a_negative_of_at_most_one_tuple():
    graph = capped()
    made = sampler(graph)
    assert made.pool_size == graph.num_units == 8
    sizes = set()
    for step in range(300):
        batch = made.sample(step)
        drawn = graph.owners[batch.negatives.ravel()]
        assert np.unique(drawn).size == drawn.size
        sizes.add(batch.num_tuples)
    assert {2, 3, 4} <= sizes


def test_batches_beyond_the_number_of_owners_overflow():
    made = sampler(capped(), sample_rate=1.0)
    assert made.sample(0).overflow  # 14 relations need 28 negatives of 8 owners


def test_owners_are_uniform_and_so_is_the_entity_of_each():
    graph = capped()
    made = sampler(graph, sample_rate=0.1, num_negatives=1)
    drawn = np.concatenate([made.sample(step).negatives.ravel() for step in range(20_000)])
    owners = np.bincount(graph.owners[drawn], minlength=8)
    assert stats.chisquare(owners).pvalue > ALARM
    for owner in range(8):
        members = np.flatnonzero(graph.owners == owner)
        counts = np.bincount(drawn, minlength=14)[members]
        assert members.size == 1 or stats.chisquare(counts).pvalue > ALARM
    # The control: drawn among entities, an owner of four entities comes four times as often.
    plain = EntityGraph(
        entities=graph.graph.entities.drop_columns("owner"), relations=graph.relations
    )
    wrong = sampler(plain.promise_degrees(8), sample_rate=0.1, num_negatives=1)
    drawn = np.concatenate([wrong.sample(step).negatives.ravel() for step in range(20_000)])
    assert stats.chisquare(np.bincount(graph.owners[drawn], minlength=8)).pvalue < ALARM


def test_unprotected_owners_are_the_pool_of_unprotected_negatives():
    protected = [name in ("a", "c") for name in OWNER]
    graph = capped(protected=protected)
    made = sampler(graph, negatives="unprotected", num_negatives=1)
    assert made.pool_size == 6
    seen = set()
    for step in range(200):
        batch = made.sample(step)
        assert not graph.protected[batch.negatives].any()
        owners = graph.owners[batch.negatives.ravel()]
        assert np.unique(owners).size == owners.size
        seen |= set(batch.negatives.ravel().tolist())
    assert seen == {3, 4, 5, 6, 7, 8, 9}


def test_owners_of_a_public_pool_do_not_matter():
    batch = sampler(capped(), negatives="public", public_pool_size=50).sample(2)
    assert (batch.negatives >= 14).all()


def test_owners_of_one_entity_each_draw_what_entities_draw():
    """The second stage has a stream of its own, so it moves no other draw."""
    names = [f"o{i}" for i in range(14)]
    owned, plain = capped(owner=names), capped(owner=[None] * 14)
    for step in range(40):
        one, other = sampler(owned).sample(step), sampler(plain).sample(step)
        assert (one.entities == other.entities).all()
        assert (one.relation_ids == other.relation_ids).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 100))
def test_each_owner_is_represented_by_an_entity_of_its_own(index, seed):
    index = np.unique(np.array(index), return_inverse=True)[1].astype(np.int64)
    pool = np.arange(index.max() + 1)[:: 1 + seed % 2]
    owned = OwnedEntities(index, pool)
    assert owned.num_owners == pool.size
    places = np.random.default_rng(seed).integers(0, pool.size, (3, 4))
    chosen = owned.pick(places, STREAMS.stream("test", 0, seed))
    assert chosen.shape == places.shape
    assert (index[chosen] == pool[places]).all()


def test_words_above_the_largest_multiple_are_drawn_again():
    class Words:
        def __init__(self, *words):
            self.words = list(words)

        def uint64(self, count):
            return np.array([self.words.pop(0) for _ in range(count)], dtype=np.uint64)

    owned = OwnedEntities(np.array([0, 0, 0]), np.array([0]))  # 2^64 is 1 modulo 3
    stream = Words(2**64 - 1, 2**64 - 2, 7)
    assert owned.pick(np.array([0, 0]), stream).tolist() == [7 % 3, (2**64 - 2) % 3]
    assert not stream.words


def test_a_plan_counts_owners():
    from reldp.plan import PrivacyPlan

    graph = capped()
    plan = PrivacyPlan.for_graph(
        graph, sizes="public", num_negatives=1, sample_rate=0.01, num_steps=3, noise_multiplier=5.0
    )
    assert (plan.num_entities, plan.pool_size, plan.unit) == (8, 8, "owner")
    assert plan.sampler(graph, STREAMS).pool_size == 8
    with pytest.raises(ValueError, match="must not be given"):
        PrivacyPlan.for_graph(graph, sizes="public", num_entities=14, noise_multiplier=5.0)
