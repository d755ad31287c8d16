"""Lines in blocks: the same lines as Python gives, and a bound on each."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.errors import GraphError
from reldp.graph import text_lines
from reldp.graph.text_lines import line_blocks, numbered_lines


class Endless(io.RawIOBase):
    """A stream that gives the same bytes forever, and counts how often it was asked."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.data, self.num_reads = data, 0

    def read(self, size: int = -1) -> bytes:
        self.num_reads += 1
        assert self.num_reads < 1000, "it reads on"
        return self.data


@given(data=st.text(st.sampled_from('a"\r\n'), max_size=40), size=st.integers(1, 50))
@settings(max_examples=500, deadline=None)
def test_lines_and_numbers_are_those_of_python_at_any_size_of_blocks(data, size):
    expected = enumerate(data.encode().splitlines(keepends=True), 1)
    content = [(number, line) for number, line in expected if line.strip(b"\r\n")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "_BLOCK_BYTES", size)
        blocks = list(line_blocks(io.BytesIO(data.encode()), "x", size))
        lines = list(numbered_lines(io.BytesIO(data.encode()), "x"))
    assert b"".join(block for _, block in blocks) == data.encode()
    assert b"".join(line for _, line in lines) == data.encode()
    assert [pair for pair in lines if pair[1].strip(b"\r\n")] == content


def test_blank_lines_in_a_row_come_together():
    lines = list(numbered_lines(io.BytesIO(b"\n" * 100_000 + b"a\n" + b"\r\n" * 1000 + b"b"), "x"))
    assert [number for number, _ in lines] == [1, 100_001, 100_002, 101_002]


@pytest.mark.parametrize("data", [b"\0", b"a" * 100])
def test_a_line_without_end_is_refused_with_its_number(monkeypatch, data):
    monkeypatch.setattr(text_lines, "LONGEST_LINE", 50)
    stream = Endless(data)
    with pytest.raises(
        GraphError, match=r"x\.csv must have at most 50 bytes on a line, .*line 1\."
    ):
        list(line_blocks(stream, "x.csv"))  # type: ignore[arg-type]
    long = io.BytesIO(b"a\n\r\nb\r" + b"c" * 51)
    with pytest.raises(GraphError, match=r"got more on line 4\."):
        list(numbered_lines(long, "x.csv"))
