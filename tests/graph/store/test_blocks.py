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
        checker, "_digest", lambda block: hashed.append(block) or checker.blocks.sha256[block]
    )
    checker.check(5, 15)
    checker.check(0, 20)
    checker.check(19, 19)
    assert hashed == [0, 1]


def test_many_blocks_are_hashed_by_threads_alike(path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 2)
    blocks = hash_blocks(path)
    BlockChecker(path, blocks).check_all()
    damage(path, 20)
    with pytest.raises(GraphError, match="block 11 of 18 differs"):
        BlockChecker(path, blocks).check_all()


def test_the_bytes_that_are_hashed_are_those_that_are_read(path):
    """A file that is replaced after it was opened is not read, and its damage not noticed."""
    blocks = hash_blocks(path)
    checker = BlockChecker(path, blocks)
    path.rename(path.with_name("old"))
    path.write_bytes(bytes(35))
    checker.check_all()
    assert checker.mapped[:] == bytes(range(35))
    damage(path.with_name("old"), 3)
    other = BlockChecker(path.with_name("old"), blocks)
    with pytest.raises(GraphError, match="block 1 of 4 differs"):
        other.check_all()


@pytest.mark.parametrize("data", [b"", b"\x93NUMPY\x01\x00\x08\x00{}      ", bytes(200)])
def test_a_file_that_holds_no_array_is_refused(path, data):
    path.write_bytes(data or b"x")
    with pytest.raises(GraphError, match=r"x\.bin must be as it was built"):
        BlockChecker(path, hash_blocks(path)).shape()


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
