"""Headers of GGUF files that would take hours to read are refused, and damaged ones left to the reader."""

import struct
import time

import gguf
import pytest

from reldp.encoders.gguf_words import refuse_long_words
from reldp.errors import EncoderError
from tests.encoders.tiny import write_gguf

UINT8, UINT32, STRING, ARRAY = 0, 4, 8, 9


def text(value):
    return struct.pack(f"<Q{len(value)}s", len(value), value)


def array(kind, *parts, count=None):
    return struct.pack("<IQ", kind, len(parts) if count is None else count) + b"".join(parts)


def header(*values, version=3, count=None, magic=b"GGUF"):
    """Keys and values, each value with its type."""
    begin = struct.pack("<4sIQQ", magic, version, 0, len(values) if count is None else count)
    keys = (text(b"key %d" % place) for place in range(len(values)))
    pairs = zip(keys, values, strict=False)
    return begin + b"".join(
        key + struct.pack("<I", kind) + content for key, (kind, content) in pairs
    )


LONG = ARRAY, array(STRING, text(b"ab" * 300_000))
WORDS = r"^`source` must have tokens of ordinary length, got one of 600,000 bytes in m\.gguf\. "


def check(tmp_path, data):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    refuse_long_words(path)


@pytest.mark.parametrize("packed", [False, True])
def test_a_model_passes(tmp_path, packed):
    refuse_long_words(write_gguf(tmp_path / "m.gguf", packed=packed))


@pytest.mark.parametrize("endianess", list(gguf.GGUFEndian))
def test_a_long_token_is_refused_in_either_byte_order(tmp_path, endianess):
    for tokens, is_refused in ((["ab" * 300_000], True), (["ab"] * 300_000, False)):
        writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", endianess=endianess)
        writer.add_vocab_size(3)
        writer.add_token_list(tokens)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        if is_refused:
            with pytest.raises(EncoderError, match=WORDS):
                refuse_long_words(tmp_path / "m.gguf")
        else:
            refuse_long_words(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    "before",
    [
        *((kind, bytes(size)) for kind, size in ((0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4))),
        *((kind, bytes(size)) for kind, size in ((6, 4), (7, 1), (10, 8), (11, 8), (12, 8))),
        (STRING, text(b"llama")),
        (STRING, text(b"a template " * 100_000)),  # no token
        (ARRAY, array(UINT32, *[bytes(4)] * 5)),
        (ARRAY, array(STRING)),
        (ARRAY, array(77)),  # the reader looks at no element
        (ARRAY, array(ARRAY, array(UINT8, b"\1", b"\2"), array(STRING, text(b"x")))),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_whatever_comes_before_it(tmp_path, before, version):
    check(tmp_path, header(before, (ARRAY, array(STRING, text(b"token"))), version=version))
    with pytest.raises(EncoderError, match=WORDS):
        check(tmp_path, header(before, LONG, version=version))


def test_many_texts_count_together(tmp_path):
    def tokens(number):
        return ARRAY, array(STRING, *[text(b"x" * 10_000)] * number)

    check(tmp_path, header(tokens(5), tokens(5)))
    with pytest.raises(EncoderError, match="ordinary length, got one of 10,000 bytes"):
        check(tmp_path, header(tokens(5), tokens(6)))


def test_arrays_in_one_another(tmp_path):
    def nested(depth):
        inner = array(STRING, text(b"x"))
        for _ in range(depth - 1):
            inner = array(ARRAY, inner)
        return ARRAY, inner

    check(tmp_path, header(nested(4)))
    with pytest.raises(EncoderError, match="must have arrays in one another up to 4 deep"):
        check(tmp_path, header(nested(5)))
    with pytest.raises(EncoderError, match="must have arrays in one another up to 4 deep"):
        check(tmp_path, header(nested(10_000)))


@pytest.mark.parametrize("kind", [UINT8, UINT32, STRING, ARRAY, 77])
def test_counts_that_a_reader_would_follow_beyond_the_file(tmp_path, kind):
    check(tmp_path, header((ARRAY, array(kind, count=10**6))))
    with pytest.raises(EncoderError, match="must have at most 10,000,000 entries in the header"):
        check(tmp_path, header((ARRAY, array(kind, count=2**64 - 1))))


def test_damaged_headers_are_left_to_the_reader(tmp_path):
    whole = header(
        (STRING, text(b"llama")),
        (ARRAY, array(ARRAY, array(STRING, text(b"x"), text(b"y")))),
        (UINT32, bytes(4)),
        (ARRAY, array(STRING, text(b"x"))),
    )
    for size in range(len(whole)):
        check(tmp_path, whole[:size])
        check(tmp_path, whole[:size] + bytes(3))
    check(tmp_path, header(LONG, magic=b"GGML"))
    check(tmp_path, header((77, b""), LONG))
    check(tmp_path, header((UINT32, bytes(4)), count=2**64 - 1))
    check(tmp_path, header((STRING, struct.pack("<Q", 2**64 - 1)), LONG))


def test_a_text_that_goes_on_beyond_the_file_counts_as_what_is_there(tmp_path):
    content = struct.pack("<Q", 2**64 - 1) + bytes(600_000)
    with pytest.raises(EncoderError, match=WORDS):
        check(tmp_path, header((ARRAY, array(STRING, content))))


def test_a_large_vocabulary_takes_no_time(tmp_path):
    tokens = ARRAY, array(STRING, *[text(b"a token")] * 150_000)
    scores = ARRAY, array(UINT32, bytes(4 * 150_000), count=150_000)
    merges = ARRAY, array(STRING, *[text(b"a tok en")] * 500_000)
    started = time.process_time()
    check(tmp_path, header(tokens, scores, merges))
    assert time.process_time() - started < 2


@pytest.mark.parametrize("endianess", list(gguf.GGUFEndian))
@pytest.mark.parametrize("count", [3, 400])
def test_tensors_that_share_their_bytes_are_refused(tmp_path, endianess, count):
    """Each of them would be computed, a thousand times what the file holds."""
    order = ">" if endianess == gguf.GGUFEndian.BIG else "<"
    begin = struct.pack(f"{order}4sIQQ", b"GGUF", 3, count, 0)
    side, kind, place = 2**15, 0, 0
    shape = struct.pack(f"{order}IQQIQ", 2, side, 2**5, kind, place)
    names = (struct.pack(f"{order}Q3s", 3, b"%03d" % number) for number in range(count))
    data = begin + b"".join(name + shape for name in names) + bytes(4 * side * 2**5)
    if count == 3:  # 12 bytes of each number
        check(tmp_path, data)
        return
    words = r"got tensors with more numbers, or more dimensions, than m\.gguf can hold"
    with pytest.raises(EncoderError, match=words):
        check(tmp_path, data)


def test_a_tensor_of_many_dimensions_is_refused_at_once(tmp_path):
    """Their product has a million digits."""
    begin = struct.pack("<4sIQQ", b"GGUF", 3, 1, 0)
    sides = struct.pack("<Q", 2**64 - 1) * 200_000
    data = begin + struct.pack("<Q3sI", 3, b"big", 200_000) + sides + struct.pack("<IQ", 0, 0)
    started = time.process_time()
    with pytest.raises(EncoderError, match="or more dimensions, than"):
        check(tmp_path, data)
    assert time.process_time() - started < 2
