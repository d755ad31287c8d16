"""Blocks are checked when they are first read, and only then."""

import pytest

from reldp.errors import GraphError
from reldp.graph.store import blocks as module
from reldp.graph.store.blocks import BlockChecker, FileBlocks, hash_blocks


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 10)
    (tmp_path / "x.bin").write_bytes(bytes(range(35)))
    return tmp_path / "x.bin"


def damage(path, place):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_blocks_end_at_equal_distances_and_at_the_end(path):
    blocks = hash_blocks(path)
    assert blocks.boundaries == (10, 20, 30, 35)
    assert blocks.size == 35
    assert FileBlocks.from_json(blocks.to_json()) == blocks


@pytest.mark.parametrize("place", [0, 9, 10, 34])
def test_exactly_the_block_that_was_changed_is_refused(path, place):
    blocks = hash_blocks(path)
    damage(path, place)
    number = place // 10
    checker = BlockChecker(path, blocks)
    for other in {0, 1, 2, 3} - {number}:
        checker.check(10 * other, min(10 * other + 10, 35))
    with pytest.raises(GraphError, match=rf"block {number + 1} of 4 differs"):
        checker.check(place, place + 1)
    with pytest.raises(GraphError, match="differs"):
        checker.check_all()


def test_a_block_is_hashed_once(path, monkeypatch):
    checker = BlockChecker(path, hash_blocks(path))
    hashed = []
    monkeypatch.setattr(
        module,
        "_digest",
        lambda *span: hashed.append(span[1:]) or checker.blocks.sha256[span[1] // 10],
    )
    checker.check(5, 15)
    checker.check(0, 20)
    checker.check(19, 19)
    assert hashed == [(0, 10), (10, 20)]


@pytest.mark.parametrize(
    "values",
    [
        {"boundaries": [], "sha256": []},
        {"boundaries": [5, 5], "sha256": ["a", "b"]},
        {"boundaries": [5], "sha256": ["a", "b"]},
        {"boundaries": ["5"], "sha256": ["a"]},
        {"boundaries": [0], "sha256": ["a"]},
    ],
)
def test_values_that_describe_no_blocks_are_refused(values):
    with pytest.raises(ValueError):
        FileBlocks.from_json(values)
