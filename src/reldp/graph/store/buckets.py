"""Records that do not fit into memory, distributed over files by the top bits of a 64-bit key.

Each bucket fits into memory, and buckets are in the order of their keys: reading one after the other and
sorting each is a sort of all.

Public: `Buckets`.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     buckets = Buckets(Path(folder), np.dtype([("key", "u8")]), num_records=4, memory_bytes=999)
...     keys = np.array([2**63 + 5, 7, 2**63, 3], dtype=np.uint64)
...     buckets.add(keys, {"key": keys})
...     [np.sort(bucket["key"]).tolist() for bucket in buckets.read()]
[[3, 7], [9223372036854775808, 9223372036854775813]]
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reldp.graph.store.lookahead import in_threads

__all__ = ["Buckets"]

_MAX_FILES = 1024
_CACHED = (
    1 << 25
)  # bytes of a bucket: sorting is fast where most of it stays in the processor's cache
_MULTIPLE = 6  # memory that sorting a bucket takes, in multiples of its size


class Buckets:
    """Files of records.

    Args:
        folder: Folder for the files, which must exist.
        dtype: Type of a record, with named fields.
        num_records: How many records there will be, about.
        memory_bytes: Memory that reading and sorting a bucket may take.
    """

    def __init__(
        self, folder: Path, dtype: np.dtype[Any], *, num_records: int, memory_bytes: int
    ) -> None:
        self._dtype = dtype
        max_bytes = max(min(memory_bytes // _MULTIPLE, _CACHED), 1)
        wanted = num_records * dtype.itemsize // max_bytes
        self._bits = min(max(wanted, 1).bit_length(), _MAX_FILES.bit_length() - 1)
        self._paths = [folder / f"bucket{number:04}" for number in range(1 << self._bits)]
        self._buffers: list[list[bytes]] = [[] for _ in self._paths]
        self._held = 0
        self._limit = max(1 << 20, min(memory_bytes // 8, 1 << 27))
        for path in self._paths:
            path.touch(mode=0o600, exist_ok=False)

    def add(self, keys: npt.NDArray[np.uint64], fields: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add records.

        Args:
            keys: (records,) whose top bits decide on the bucket.
            fields: Values of each field, (records,).
        """
        places = (keys >> np.uint64(64 - self._bits)).astype(np.uint16)
        order = np.argsort(places, kind="stable")
        records = np.empty(len(keys), self._dtype)
        for name, values in fields.items():
            records[name] = values[order]
        stops = np.cumsum(np.bincount(places, minlength=len(self._paths))).tolist()
        start = 0
        for number, end in enumerate(stops):
            if end > start:
                self._buffers[number].append(records[start:end].tobytes())
            start = end
        self._held += records.nbytes
        if self._held > self._limit:
            self._flush()

    def read(
        self,
        prepare: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda records: records,
        *,
        threads: int = 1,
    ) -> Iterator[npt.NDArray[Any]]:
        """Yield the records of each bucket, in the order they were added, and remove its file.

        Args:
            prepare: Applied to the records first, such as to sort them.
            threads: Threads that read and prepare the next buckets.
        """
        self._flush()

        def one(path: Path) -> npt.NDArray[Any]:
            records = np.fromfile(path, self._dtype)
            path.unlink()
            return prepare(records)

        yield from in_threads(one, self._paths, threads)

    def _flush(self) -> None:
        for path, buffers in zip(self._paths, self._buffers, strict=True):
            if buffers:
                with path.open("ab", buffering=0) as file:
                    data = memoryview(b"".join(buffers))
                    while len(data):  # a disk that is nearly full takes a part at a time
                        data = data[file.write(data) :]
                buffers.clear()
        self._held = 0
