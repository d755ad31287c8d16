"""Entities with lists of related ids, gathered one by one into the tables of a graph.

While records are read, only their ids stay in memory: texts and related ids go to temporary files that only their
owner can read, and which are removed at the end; what waits to be written is bounded in bytes, however large records
are. What remains in memory then is the resulting graph. Directions are merged, and whatever cannot become part of the
graph is counted: ids that repeat an earlier one, relations to ids that are not there, of an entity with itself, or
repeated by a record or in either direction, and entities without a relation. Rows are sorted by id, so the same records
in any order give the same graph; of several records of one id, the first counts.

Inside the package: `Gathering`, `shortened`.

>>> with Gathering() as gathering:
...     gathering.add("b", "lamp", ["a", "z"], domain="Cycling")
...     gathering.add("a", "bell", ["b"], domain="Cycling")
...     entities, relations = gathering.tables()
>>> entities["id"].to_pylist(), relations.to_pylist()
(['a', 'b'], [{'source': 'a', 'target': 'b'}])
>>> dict(gathering.drops)
{'relations_to_absent_ids': 1, 'duplicate_relations': 1}
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.errors import GraphError, InputError
from reldp.graph.store.progress import Progress, Tick

__all__ = ["Gathering", "shortened"]

_ROWS = 8192  # rows of a batch in a temporary file
_WAITING_BYTES = 2**25  # of texts and ids in memory, about, before they are a batch
_STRING_BYTES = 60  # of a string in memory, and of its place in a list, besides its characters
_TEXTS = pa.schema([("text", pa.large_string()), ("domain", pa.large_string())])
_RELATED = pa.schema([("related", pa.list_(pa.string()))])


def shortened(text: str, max_words: int) -> str:
    """Return the first words of a text."""
    words = text.split(maxsplit=max_words)
    return " ".join(words[:max_words])


class Gathering:
    """Entities and their related ids; use it in a ``with`` statement.

    Args:
        temp_dir: Folder of the temporary files, which are as sensitive as the data (default: the system's).
        report: Called with the progress of `tables`.

    Attributes:
        drops: What was left out, by kind.
    """

    def __init__(
        self, temp_dir: Path | None = None, report: Callable[[Tick], None] | None = None
    ) -> None:
        self.drops: Counter[str] = Counter()
        self._parent, self._progress = temp_dir, Progress(report)
        self._rows: dict[str, int] = {}
        self._stack = ExitStack()
        self._waiting: tuple[list[str], list[str], list[Sequence[str]]] = ([], [], [])
        self._num_waiting = 0  # bytes, about

    def __enter__(self) -> Self:
        """Make the temporary files.

        Raises:
            InputError: `temp_dir` is no folder.
        """
        if self._parent is not None and not self._parent.is_dir():
            raise InputError(
                f"`temp_dir` must be a folder, got {self._parent.name!r}. Make it first."
            )
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix=".reldp-prepare-", dir=self._parent)
        )
        self._folder = Path(folder)
        self._writers = [
            self._stack.enter_context(self._writer(name, schema))
            for name, schema in (("texts", _TEXTS), ("related", _RELATED))
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the temporary files."""
        self._stack.close()

    def _writer(self, name: str, schema: Any) -> Any:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        return pa.ipc.new_stream(str(self._folder / name), schema, options=options)

    def __contains__(self, name: str) -> bool:
        """Whether an id was added."""
        return name in self._rows

    def __len__(self) -> int:
        """Return the number of entities so far."""
        return len(self._rows)

    def add(self, name: str, text: str, related: Sequence[str], domain: str = "") -> None:
        """Add an entity; one whose id was added before is counted and left out, and so are repeats in `related`."""
        if name in self._rows:
            self.drops["repeated_ids"] += 1
            return
        self._rows[name] = len(self._rows)
        distinct = tuple(dict.fromkeys(related))
        self._count("duplicate_relations", len(related) - len(distinct))
        texts, domains, lists = self._waiting
        texts.append(text)
        domains.append(domain)
        lists.append(distinct)
        self._num_waiting += sum(map(len, distinct)) + len(text)
        self._num_waiting += _STRING_BYTES * (len(distinct) + 1)
        if len(texts) == _ROWS or self._num_waiting > _WAITING_BYTES:
            self._flush()

    def add_titled(
        self, name: str, title: str, words: str, related: Sequence[str], domain: str
    ) -> None:
        """Add an entity whose text is a title and some words; one without id or title is counted and left out."""
        if not name:
            self.drops["records_without_id"] += 1
        elif not title:
            self.drops["records_without_title"] += 1
        else:
            self.add(name, f"{title}. {words}" if words else title, related, domain)

    def _flush(self) -> None:
        texts, domains, related = self._waiting
        self._writers[0].write_batch(pa.record_batch([texts, domains], schema=_TEXTS))
        self._writers[1].write_batch(
            pa.record_batch([pa.array(related, _RELATED[0].type)], schema=_RELATED)
        )
        self._waiting, self._num_waiting = ([], [], []), 0

    def tables(self) -> tuple[Any, Any]:
        """Return entities (``id``, ``text``, ``domain``) and relations (``source``, ``target``), sorted.

        Raises:
            GraphError: There is no relation between two entities.
        """
        self._flush()
        for writer in self._writers:
            writer.close()
        with self._progress.phase("joining records", len(self), "records") as advance:
            pairs = self._pairs(advance)
        if not len(pairs):
            raise GraphError(
                f"The source must hold at least one relation between two of its records, got none among {len(self):,}."
            )
        linked = np.zeros(len(self), dtype=bool)
        linked[pairs.ravel()] = True
        self._count("entities_without_relations", int((~linked).sum()))
        names = np.array(list(self._rows), dtype=object)[linked]
        order = np.argsort(names, kind="stable")  # by code points, whatever the locale
        ids = pa.array(names[order], pa.string())
        entities = self._texts(linked).take(pa.array(order)).add_column(0, "id", ids)
        position = np.empty(len(self), dtype=np.int64)
        position[np.flatnonzero(linked)[order]] = np.arange(len(order))
        endpoints = np.sort(position[pairs], axis=1)
        endpoints = endpoints[np.lexsort((endpoints[:, 1], endpoints[:, 0]))]
        columns = {
            name: ids.take(pa.array(endpoints[:, i])) for i, name in ((0, "source"), (1, "target"))
        }
        return entities, pa.table(columns)

    def _texts(self, linked: npt.NDArray[np.bool_]) -> Any:
        """Return texts and domains of the entities that have a relation, in order of appearance."""
        batches, start = [], 0
        for batch in self._batches("texts"):
            mask = linked[start : start + len(batch)]
            batches.append(batch.filter(pa.array(mask)))
            start += len(batch)
        return pa.Table.from_batches(batches, _TEXTS)

    def _pairs(self, advance: Callable[[int], None]) -> npt.NDArray[np.int64]:
        """Return the distinct relations, as rows of two different entities."""
        parts = [np.empty(0, dtype=np.int64)]
        start = 0
        for batch in self._batches("related"):
            related = batch.column(0)
            sources = np.repeat(
                np.arange(start, start + len(batch)), np.diff(related.offsets.to_numpy())
            )
            names = related.flatten().to_pylist()
            targets = np.fromiter(
                (self._rows.get(name, -1) for name in names), np.int64, len(names)
            )
            start += len(batch)
            advance(len(batch))
            present = targets >= 0
            self._count("relations_to_absent_ids", int((~present).sum()))
            self._count("self_relations", int((sources == targets).sum()))
            valid = present & (sources != targets)
            low, high = np.minimum(sources, targets)[valid], np.maximum(sources, targets)[valid]
            codes = low << 32 | high
            parts.append(np.unique(codes))
            self._count("duplicate_relations", len(codes) - len(parts[-1]))
        total = np.concatenate(parts)
        codes = np.unique(total)
        self._count("duplicate_relations", len(total) - len(codes))
        return np.stack([codes >> 32, codes & 0xFFFFFFFF], axis=1)

    def _batches(self, name: str) -> Iterator[Any]:
        with pa.OSFile(str(self._folder / name)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    def _count(self, kind: str, number: int) -> None:
        if number:
            self.drops[kind] += number
