import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import InputError
from reldp.evaluation.ranking import Neighbors, full_ranks, in_batch_ranks, prepared


def random_graph(seed, entities=30, relations=48):
    generator = np.random.default_rng(seed)
    pairs = {
        (int(min(pair)), int(max(pair)))
        for pair in generator.integers(0, entities, size=(4 * relations, 2))
        if pair[0] != pair[1]
    }
    chosen = generator.permutation(np.array(sorted(pairs)))[:relations]
    # Few distinct vectors, so that exact ties are common.
    vectors = generator.integers(-2, 3, size=(entities, 3)).astype(np.float32)
    return vectors, chosen


def oracle(vectors, query, answer, pool, partners):
    """Better and tied candidates, one Python comparison at a time."""

    def score(entity):
        return float(np.dot(vectors[query].astype(float), vectors[entity].astype(float)))

    rivals = [e for e in pool if e not in (query, answer) and e not in partners]
    return (
        sum(score(e) > score(answer) + 1e-9 for e in rivals),
        sum(abs(score(e) - score(answer)) <= 1e-9 for e in rivals),
    )


def partners_of(relations, entity):
    return {int(a + b - entity) for a, b in relations if entity in (a, b)}


@pytest.mark.parametrize("filtered", [True, False])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_full_ranks_equal_a_loop_over_all_entities(filtered, seed):
    vectors, relations = random_graph(seed)
    known = Neighbors(relations, len(vectors)) if filtered else None
    # Blocks that do not divide the sizes.
    ranks = full_ranks(vectors, relations, known=known, query_block=7, candidate_block=11)
    for row, (first, second) in enumerate(relations):
        for direction, (query, answer) in enumerate([(first, second), (second, first)]):
            partners = partners_of(relations, query) if filtered else set()
            expected = oracle(vectors, query, answer, range(len(vectors)), partners)
            assert (ranks.better[row, direction], ranks.ties[row, direction]) == expected


@pytest.mark.parametrize("filtered", [True, False])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_in_batch_ranks_equal_a_loop_over_the_batch(filtered, seed):
    vectors, relations = random_graph(seed)
    known = Neighbors(relations, len(vectors)) if filtered else None
    ranks = in_batch_ranks(vectors, relations, candidates=16, known=known)
    for row, (first, second) in enumerate(relations):
        batch = relations[row // 16 * 16 : row // 16 * 16 + 16]
        for direction, (query, answer) in enumerate([(first, second), (second, first)]):
            pool = batch[:, 1 - direction].tolist()
            partners = partners_of(relations, query) if filtered else set()
            expected = oracle(vectors, query, answer, pool, partners)
            assert (ranks.better[row, direction], ranks.ties[row, direction]) == expected


def test_a_collapsed_encoder_ranks_like_guessing():
    relations = np.array([[0, 1], [2, 3], [4, 5]])
    ranks = full_ranks(np.ones((6, 4), np.float32), relations, known=None)
    assert not ranks.better.any()
    assert (ranks.ties == 4).all()


def test_identical_texts_tie_whatever_block_they_fall_into():
    generator = np.random.default_rng(0)
    vectors = prepared(generator.normal(size=(50, 384)), "cosine")
    vectors[17] = vectors[3]
    ranks = full_ranks(vectors, np.array([[0, 3]]), known=None, candidate_block=9)
    assert ranks.ties[0, 0] == 1


def test_cosine_ignores_lengths_and_dot_does_not():
    embeddings = np.array([[1.0, 0.0], [1.0, 0.1], [9.0, 9.0]])
    relation = np.array([[0, 1]])
    by_cosine = full_ranks(prepared(embeddings, "cosine"), relation, known=None)
    by_dot = full_ranks(prepared(embeddings, "dot"), relation, known=None)
    assert by_cosine.better[0].tolist() == [0, 0]
    assert by_dot.better[0].tolist() == [1, 1]


def test_a_zero_vector_has_cosine_zero_with_everything():
    assert not prepared(np.zeros((2, 3)), "cosine").any()


def test_embeddings_that_are_no_numbers_are_refused_and_not_ranked_first():
    embeddings = np.ones((4, 2))
    embeddings[2, 1] = np.nan
    with pytest.raises(InputError, match="the first 2"):
        prepared(embeddings, "cosine")
    with pytest.raises(InputError, match="shape"):
        prepared(np.ones(4), "cosine")
    with pytest.raises(InputError, match="`score`"):
        prepared(np.ones((4, 2)), "euclid")


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_neighbors_are_the_partners_in_both_directions(seed):
    _, relations = random_graph(seed)
    known = Neighbors(relations, 30)
    asked = np.array([5, 0, 29, 5])
    rows, partners = known.of(asked)
    for position, entity in enumerate(asked):
        assert set(partners[rows == position].tolist()) == partners_of(relations, entity)


def test_values_that_are_no_numbers_are_not_repeated():
    wrong = np.array([[1.0], ["bob@example.com"]], dtype=object)
    with pytest.raises(InputError, match="must be a matrix of numbers") as caught:
        prepared(wrong, "cosine")
    assert "bob" not in str(caught.value)
    assert caught.value.__suppress_context__
