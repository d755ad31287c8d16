"""Buckets are a sort of what does not fit into memory."""

import numpy as np
import pytest

from reldp.graph.store.buckets import Buckets

RECORD = np.dtype([("key", "u8"), ("row", "i8")])


@pytest.mark.parametrize("memory", [10**3, 10**5, 10**9])
def test_sorting_bucket_after_bucket_sorts_everything(tmp_path, memory):
    keys = np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64)
    buckets = Buckets(tmp_path, RECORD, num_records=5000, memory_bytes=memory)
    for part in np.array_split(np.arange(5000), 7):
        buckets.add(keys[part], {"key": keys[part], "row": part})
    parts = list(buckets.read())
    assert (len(parts) > 100) == (memory == 10**3)
    ordered = np.concatenate([part[np.argsort(part["key"])] for part in parts])
    assert np.array_equal(ordered["key"], np.sort(keys))
    assert np.array_equal(keys[ordered["row"]], ordered["key"])
    assert list(tmp_path.iterdir()) == []


def test_records_of_a_bucket_keep_their_order(tmp_path):
    buckets = Buckets(tmp_path, RECORD, num_records=10, memory_bytes=10**6)
    for row in range(10):
        key = np.array([5], dtype=np.uint64)
        buckets.add(key, {"key": key, "row": np.array([row])})
    assert next(iter(buckets.read()))["row"].tolist() == list(range(10))
