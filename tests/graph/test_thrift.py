"""Headers of pages are read as Thrift's compact protocol writes them, and nothing else is."""

import pyarrow as pa
import pytest

from reldp.graph.thrift import read_struct

# Fields 1 (i32): -3; 2 (binary): "abc"; 3 (true); 4 (list of two i32); 5 (map of one byte to a struct with field 1: 1);
# 6 (double); 21 (i64, by a number of its own): 300; a list of two booleans; a byte.
PARTS = (
    b"\x15\x05\x18\x03abc\x11\x19\x25\x02\x04\x1b\x01\x3c\x09\x15\x02\x00"
    b"\x17\x00\x00\x00\x00\x00\x00\x00\x00\x06\x2a\xd8\x04\x19\x21\x01\x02\x13\x07\x00"
)


def test_numbers_are_read_and_the_rest_is_passed_over():
    fields, end = read_struct(b"??" + PARTS + b"rest", 2)
    assert {name: value for name, value in fields.items() if value is not None} == {1: -3, 21: 300}
    assert end == 2 + len(PARTS)


@pytest.mark.parametrize("length", range(len(PARTS)))
def test_a_structure_that_is_cut_off_is_refused(length):
    with pytest.raises(pa.ArrowInvalid, match="header of a page"):
        read_struct(PARTS[:length], 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1c" * 2000,  # structures in structures
        b"\x19" * 2000,  # lists of lists
        b"\x19\xf1" + b"\xff\xff\xff\x7f" + b"\x01" * 5000,  # a list of too many
        b"\x15" + b"\xff" * 20,  # a number without an end
        b"\x1e\x00",  # no such kind
    ],
)
def test_what_no_writer_writes_is_refused(data):
    with pytest.raises(pa.ArrowInvalid, match="header of a page is damaged"):
        read_struct(data, 0)


def test_a_negative_place_is_refused():
    with pytest.raises(pa.ArrowInvalid, match="damaged"):
        read_struct(PARTS, -5)
