"""What a run folder shows: every file classified, and only weights, hashes and dates masked.

Four files and TensorBoard's folder are sensitive, and only their owner may read them; every other
file counts as public.
`shown` turns the public files into text in which three things are masked, and keeps the masked
values, so that two runs can be compared byte by byte and the masked values can be looked at too.
"""

import hashlib
import json
import re
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

SENSITIVE = {"key", "sensitive.json", "metrics.jsonl", "evaluations.jsonl"}
_MASKED = re.compile(rb"\b[0-9a-f]{64}\b|\b\d{4}-\d{2}-\d{2}\b")
_CLOCK = re.compile(rb"\d{2}:\d{2}:\d{2}")


@dataclass(frozen=True)
class Shown:
    """The public part of a run folder.

    Attributes:
        texts: Content by file name, weights, hashes and dates masked.
        masked: The masked values, by (file name, position among the masked values of the file).
    """

    texts: dict[str, bytes]
    masked: dict[tuple[str, int], bytes]


def shown(folder: Path) -> Shown:
    """Everything public in a run folder; a sensitive file that others can read is an error."""
    texts: dict[str, bytes] = {}
    masked: dict[tuple[str, int], bytes] = {}
    for place in sorted(folder.rglob("*")):
        if not place.is_file():
            continue
        name = place.relative_to(folder).as_posix()
        if name.startswith("tensorboard/"):
            others = stat.S_IMODE((folder / "tensorboard").stat().st_mode) & 0o077
            assert not others, "tensorboard is sensitive and readable by others"
            continue
        if name in SENSITIVE:
            others = stat.S_IMODE(place.stat().st_mode) & 0o077
            assert not others, f"{name} is sensitive and readable by others"
            continue
        data, values = place.read_bytes(), []
        if place.suffix == ".safetensors":
            data, weights = _without_weights(data)
            values.append(weights)
        assert not _CLOCK.search(data), f"{name} holds a time of day, which shows how long it took"
        values += _MASKED.findall(data)
        texts[name] = _MASKED.sub(lambda found: b"#" * len(found.group()), data)
        masked |= {(name, position): value for position, value in enumerate(values)}
    return Shown(texts, masked)


def _without_weights(data: bytes) -> tuple[bytes, bytes]:
    """A safetensors file without its numbers: header and length; and a hash of the numbers."""
    (size,) = struct.unpack("<Q", data[:8])
    header, numbers = data[8 : 8 + size], data[8 + size :]
    json.loads(header)
    return header + b" %d bytes" % len(data), hashlib.sha256(numbers).hexdigest().encode()


def differences(one: Shown, other: Shown, same_graph: Shown) -> list[str]:
    """What tells two runs on neighboring graphs apart, apart from weights, hashes and dates.

    A masked value may differ between neighbors only if it is protected by randomness. So it must
    also differ from `same_graph`, a run on the first graph with another key and another salt: a
    plain hash of the data, or of exact sizes, would not.

    Args:
        one: A run on a graph.
        other: A run on its neighbor, with the same key.
        same_graph: A run on the first graph, with another key and salt.
    """
    found = [f"{name}: only one has it" for name in sorted(set(one.texts) ^ set(other.texts))]
    for name in sorted(set(one.texts) & set(other.texts)):
        if one.texts[name] != other.texts[name]:
            found.append(f"{name}: {_first_difference(one.texts[name], other.texts[name])}")
    for place in sorted(set(one.masked) & set(other.masked)):
        value = one.masked[place]
        if value != other.masked[place] and value == same_graph.masked.get(place):
            found.append(f"{place[0]}: masked value {place[1]} follows from the graph alone")
    return found


def _first_difference(one: bytes, other: bytes) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    around = slice(max(place - 60, 0), place + 40)
    return f"{one[around]!r} and {other[around]!r}"
