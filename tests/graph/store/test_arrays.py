"""Arrays in files."""

import errno
import os

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph.store.arrays import GrowingArray, array_in, map_array, row_chunks


def test_rows_survive_growing_and_the_file_is_what_numpy_writes(tmp_path):
    array = GrowingArray(tmp_path / "a.npy", np.int64, columns=2)
    array.grow(10)
    array.rows[3] = [7, 8]
    array.grow(3_000_000)
    array.rows[2_999_999] = [1, 2]
    assert array.rows[3].tolist() == [7, 8]
    array.close(5)
    np.save(tmp_path / "b.npy", np.array([[0, 0], [0, 0], [0, 0], [7, 8], [0, 0]]))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_column_of_any_length_is_mapped_read_only(tmp_path, count):
    array = GrowingArray(tmp_path / "a.npy", np.float32)
    array.grow(4)
    array.rows[:4] = 2.5
    array.close(count)
    mapped = map_array(tmp_path / "a.npy")
    assert mapped.tolist() == [2.5] * count
    assert not mapped.flags.writeable


def test_a_full_disk_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    array = GrowingArray(tmp_path / "a.npy", np.int64)
    with pytest.raises(OSError, match="No space"):
        array.grow(1)


def test_chunks_cover_all_rows():
    assert list(row_chunks(7, 3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(row_chunks(0, 3)) == []


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", (0, b"\x04"), (12, b"9" * 300), (20, b"(")])
def test_a_file_that_is_no_array_is_one_clear_line(tmp_path, damage):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(5))
    if isinstance(damage, tuple):
        place, piece = damage
        damage = path.read_bytes()[:place] + piece + path.read_bytes()[place + 1 :]
    path.write_bytes(damage)
    with pytest.raises(GraphError, match=r"a\.npy must hold an array"):
        map_array(path)


@pytest.mark.parametrize("header", [b"(300,), } }", b"(300,), {", b"(-1,), }", b"(" * 60, b"\x00"])
def test_headers_that_are_no_literals_are_damage(tmp_path, header):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(300))
    data = path.read_bytes().replace(b"(300,), }", header.ljust(9))
    path.write_bytes(data)
    with pytest.raises(GraphError, match="as reldp wrote it"):
        map_array(path)
    with pytest.raises(ValueError):
        array_in(data)
    with pytest.raises(ValueError):
        array_in(b"not an array")


@pytest.mark.parametrize(
    "shape", ["(10**30, 2)", "(1, 10**30)", "(0, 10**30)", "(2**62, 4)", "(True,)"]
)
def test_sizes_that_no_array_has_are_refused(shape):
    shape = shape.replace("10**30", str(10**30)).replace("2**62", str(2**62))
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
    header = text.ljust(117).encode() + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    with pytest.raises(ValueError, match=r"shape|header|dimension|buffer"):
        array_in(data)
