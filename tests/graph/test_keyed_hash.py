"""Coins that depend on ids and a seed alone."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from reldp.errors import GraphError
from reldp.graph import keyed_hash
from reldp.graph.keyed_hash import (
    entity_digests,
    priority_order,
    relation_hashes,
    unit_interval,
)

IDS = pa.array([f"id {i}" for i in range(200)])


def pairs(num: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 200, (num, 2))


def test_a_digest_is_keyed_blake2b_of_the_id() -> None:
    purpose = hashlib.blake2b(b"reldp/graph/test").digest()
    key = hashlib.blake2b(b"int:7", key=purpose).digest()
    expected = hashlib.blake2b(b"id 3", digest_size=16, key=key).digest()
    digests = entity_digests(IDS, 7, "test")
    assert digests.shape == (2, 200)
    assert digests[:, 3].astype("<u8").tobytes() == expected


def test_an_id_keeps_its_digest_whatever_else_is_there() -> None:
    alone = entity_digests(IDS.slice(50, 1), 7, "test")
    assert np.array_equal(alone[:, 0], entity_digests(IDS, 7, "test")[:, 50])


def test_ids_beyond_one_slice_are_hashed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = entity_digests(IDS, 7, "test")
    monkeypatch.setattr(keyed_hash, "_SLICE", 7)
    assert np.array_equal(entity_digests(IDS, 7, "test"), whole)


def test_an_integer_hashes_like_its_decimal_text() -> None:
    numbers = entity_digests(pa.array([10, -3]), 7, "test")
    assert np.array_equal(numbers, entity_digests(pa.array(["10", "-3"]), 7, "test"))


def test_seeds_and_purposes_give_unrelated_digests() -> None:
    seen = {
        entity_digests(IDS, seed, purpose)[0, 0].item()
        for seed in (0, 1, -1, 10**30, b"", b"0", b"1", b"x" * 1000)
        for purpose in ("one", "two")
    }
    assert len(seen) == 16


@pytest.mark.parametrize("seed", [1.5, "1", None, True])
def test_a_seed_is_an_integer_or_bytes(seed: object) -> None:
    with pytest.raises(GraphError, match="`seed` must be an integer or bytes"):
        entity_digests(IDS, seed, "test")  # type: ignore[arg-type]


def test_the_hash_of_a_relation_does_not_depend_on_which_end_comes_first() -> None:
    digests, relations = entity_digests(IDS, 7, "test"), pairs(500)
    swapped = relation_hashes(digests, relations[:, ::-1])
    assert np.array_equal(relation_hashes(digests, relations), swapped)


def test_relations_beyond_one_block_are_hashed_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    digests, relations = entity_digests(IDS, 7, "test"), pairs(50)
    types = digests[:, relations[:, 1]]
    whole = [relation_hashes(digests, relations, kinds) for kinds in (None, types)]
    monkeypatch.setattr(keyed_hash, "_ROWS", 7)
    again = [relation_hashes(digests, relations, kinds) for kinds in (None, types)]
    assert np.array_equal(whole, again)
    assert len(np.unique(whole)) == 100


def test_hashes_of_all_pairs_are_distinct_and_uniform() -> None:
    """A chi-squared statistic over 64 cells of top bits and of low bits; false alarm below 1e-6."""
    relations = np.stack(np.triu_indices(200, 1), axis=1)  # (19900, 2)
    hashes = relation_hashes(entity_digests(IDS, 7, "test"), relations)
    assert len(np.unique(hashes)) == len(hashes)
    for shift in (58, 0):
        cells = np.bincount(
            ((hashes >> np.uint64(shift)) & np.uint64(63)).astype(int), minlength=64
        )
        expected = len(hashes) / 64
        assert ((cells - expected) ** 2 / expected).sum() < 145  # the 1 - 1e-7 quantile is 143.5


def test_relations_of_one_entity_have_unrelated_hashes() -> None:
    """Neighboring pairs share a digest, and must not share an order."""
    star = np.stack([np.zeros(199, dtype=np.int64), np.arange(1, 200)], axis=1)
    other = np.stack([np.full(198, 1), np.arange(2, 200)], axis=1)
    digests = entity_digests(IDS, 7, "test")
    one = unit_interval(relation_hashes(digests, star))[1:]
    two = unit_interval(relation_hashes(digests, other))
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / np.sqrt(198)


def test_the_order_is_that_of_the_hashes() -> None:
    digests, relations = entity_digests(IDS, 7, "test"), pairs(500)
    order = priority_order(digests, relations)
    assert np.array_equal(order, np.argsort(relation_hashes(digests, relations), kind="stable"))


def test_equal_hashes_are_ordered_by_ids_and_not_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_hash, "_mix", lambda state: state & np.uint64(0))
    relations = np.stack(np.triu_indices(30, 1), axis=1)
    digests = entity_digests(IDS, 7, "test")
    assert len(np.unique(relation_hashes(digests, relations))) == 1
    shuffled = relations[np.random.default_rng(1).permutation(len(relations))][:, ::-1]
    ordered = relations[priority_order(digests, relations)]
    again = shuffled[priority_order(digests, shuffled)][:, ::-1]
    assert np.array_equal(ordered, again)


def test_unit_interval_is_half_open() -> None:
    endpoints = unit_interval(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert endpoints.tolist() == [0.0, 1.0 - 2.0**-53]
