"""Inputs that are nearly right: numbers, words and bytes that mean something somewhere, and edits of files.

A case that is given `Undamaged` as its random generator damages nothing: this is the case that must be accepted.
"""

import bz2
import gzip
import json
import os
from random import Random

import pyarrow as pa

COMPRESSIONS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}
"""What compresses, by the end of a file's name."""

NUMBERS = (
    "0", "-0", "-1", "1", "2", "1.5", "1e6", "1e-6", "1e308", "1e309", "-1e309", "1e-308", "1e-400", "nan", "inf",
    "-inf", "0x10", "1_000", "1__0", "٣", "１", "1e", ".", "", " 1", "1 ", "9" * 25, "9" * 400, "9" * 5000, "1e23",
    "true", "None", "1,5", "½", "\x00", "1\n2", "--1", "1j", "0b1", "1e-15", "0.9999999999999999", "1e-100", "1e15",
    "9007199254740993", "18446744073709551616", "2147483648",
)  # fmt: skip
WORDS = (
    "", "a", "é", "\ufeff", "\u202e", "a" * 300, "\x1b[31m", "'", '"', "\\", "..", "/", "~", "%s", "{0}", "NaN",
    "cuda:99", "last:9", "`num_steps`", "--graph", "a\nb", "\udcff",
)  # fmt: skip
BYTES = (
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\t", b",", b'"', b"[" * 40, b"{", b"9" * 400, b"\xc3",
    b"[" * 100_000, b"null", b"NaN", b"-1", b"1e999", b"\\ud800",
)  # fmt: skip


class Undamaged(Random):
    """A generator with which nothing is damaged, and only words that are right are chosen."""


def is_undamaged(random) -> bool:
    """Whether a case is to damage nothing."""
    return isinstance(random, Undamaged)


def gentler(random, share: float):
    """Return a generator with which, in a share of the cases, a part of the input stays undamaged."""
    is_spared = is_undamaged(random) or random.random() < share
    return Undamaged(random.random()) if is_spared else random


def damaged(random, data: bytes) -> bytes:
    """Some bytes with up to four edits: cuts, doublings, bits, and bytes that mean something."""
    if is_undamaged(random):
        return data
    for _ in range(random.randint(0, 4)):
        place = random.randrange(len(data) + 1)
        end = min(len(data), place + random.choice((1, 2, 8, 64, 1024)))
        edit = random.randrange(5)
        if edit == 0:
            data = data[:place] + data[end:]
        elif edit == 1:
            data = data[:end] + data[place:]
        elif edit == 2:
            data = data[:place] + random.choice(BYTES) + data[end:]
        elif edit == 3:
            data = data[:place] + random.choice(NUMBERS).encode() + data[place:]
        elif place < len(data):
            flipped = data[place] ^ (1 << random.randrange(8))
            data = data[:place] + bytes([flipped]) + data[place + 1 :]
    return data


def damaged_value(random, values: dict) -> dict:
    """An object of JSON with one value replaced by another that JSON can hold, a name changed, or one left out."""
    if is_undamaged(random):
        return dict(values)
    name, values = random.choice(list(values)), dict(values)
    edit = random.randrange(4)
    if edit == 0:
        del values[name]
    elif edit == 1:
        values[name + random.choice(WORDS[:3])] = values.pop(name)
    else:
        deep = json.loads("[" * 50 + "]" * 50)
        values[name] = random.choice(
            (None, True, "", "a", -1, 0, 1, 1.5, 1e308, 10**30, [], {}, deep)
        )
    return values


def damage_file(random, path) -> None:
    """Edit a file, or replace it by something that is no file."""
    if is_undamaged(random):
        return
    data, edit = path.read_bytes(), random.randrange(12)
    path.unlink()
    if edit == 0:
        return
    if edit == 1:
        path.mkdir()
    elif edit == 2:
        path.symlink_to(random.choice(("/dev/zero", "/dev/null", "nowhere", path.name)))
    elif edit == 3:
        os.mkfifo(path)
    elif edit == 4:
        path.write_bytes(data[: random.randrange(len(data) + 1)])
    else:
        path.write_bytes(damaged(random, data))
