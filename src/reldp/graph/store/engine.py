"""DuckDB, as the builder of a store uses it: an in-memory database that spills to a folder.

Ids are compared byte by byte, as Arrow compares them. Results come out in any order, so they carry the row
that they belong to.

Public: `Engine`, `opened`.

>>> import tempfile, pyarrow as pa
>>> from reldp.graph.store.settings import BuildSettings
>>> with tempfile.TemporaryDirectory() as folder, opened(BuildSettings(), Path(folder)) as engine:
...     engine.keep_ids(pa.string(), iter([pa.record_batch({"id": ["a", "b", "a"], "row": [0, 1, 2]})]))
...     engine.repeated_rows().tolist()
[2]
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reldp.errors import GraphError
from reldp.graph.store.settings import BuildSettings

__all__ = ["Engine", "opened"]

_BATCH = 1 << 18  # rows of a result at a time
_INTERRUPTED = "Query interrupted"  # what DuckDB says when a signal arrives during a query


class Engine:
    """One database with one table of ids."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def keep_ids(self, kind: Any, batches: Iterator[Any]) -> None:
        """Keep ids and their rows: Arrow batches with columns `id` (of type `kind`) and `row` (int64)."""
        schema = pa.schema([("id", kind), ("row", pa.int64())])
        query = "CREATE TEMP TABLE ids AS SELECT id, row FROM given WHERE id IS NOT NULL"
        with self._given(schema, batches):
            self._connection.execute(query)

    def repeated_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows whose id an earlier row has, ascending, and forget them."""
        self._connection.execute(
            "CREATE TEMP TABLE repeated AS SELECT row FROM ids JOIN (SELECT id, min(row) AS first FROM ids "
            "GROUP BY id HAVING count(*) > 1) AS several USING (id) WHERE row > first"
        )
        parts = [
            batch.column("row").to_numpy() for batch in self._stream("SELECT row FROM repeated")
        ]
        rows = np.sort(np.concatenate([np.empty(0, np.int64), *parts]))
        if len(rows):
            self._connection.execute("DELETE FROM ids WHERE row IN (SELECT row FROM repeated)")
        self._connection.execute("DROP TABLE repeated")
        return rows

    def group_sizes(self, batches: Iterator[Any]) -> tuple[int, int, int]:
        """Count groups of equal texts: how many, how many texts in groups of several, the largest.

        Texts are compared by their MD5: chance does not make two different ones agree.

        Args:
            batches: Arrow batches with columns `id`, the texts, and `row`.
        """
        schema = pa.schema([("id", pa.large_string()), ("row", pa.int64())])
        query = (
            "SELECT count(*), coalesce(sum(size) FILTER (size > 1), 0), max(size) FROM "
            "(SELECT count(*) AS size FROM given GROUP BY md5_number(id))"
        )
        with self._given(schema, batches):
            [(count, sharing, largest)] = self._connection.sql(query).fetchall()
        return int(count), int(sharing), int(largest)

    def ids_as_text(self) -> None:
        """Turn integer ids into their decimal text."""
        self._connection.execute(
            "CREATE TEMP TABLE texts AS SELECT id::VARCHAR AS id, row FROM ids; DROP TABLE ids; "
            "ALTER TABLE texts RENAME TO ids"
        )

    def lookups(
        self, kind: Any, batches: Iterator[Any]
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Look ids up.

        Args:
            kind: Arrow type of the ids.
            batches: Arrow batches with columns `place` (int64) and `id`.

        Yields:
            Places whose id is known, in any order, and the row of each.
        """
        schema = pa.schema([("place", pa.int64()), ("id", kind)])
        with self._given(schema, batches):
            for batch in self._stream("SELECT place, row FROM given JOIN ids USING (id)"):
                yield batch.column("place").to_numpy(), batch.column("row").to_numpy()

    @contextmanager
    def _given(self, schema: Any, batches: Iterator[Any]) -> Iterator[None]:
        """Name Arrow batches `given` in queries; an error in making them is raised as it is."""
        errors: list[BaseException] = []

        def watched() -> Iterator[Any]:
            try:
                yield from batches
            except GeneratorExit:
                raise
            except (
                BaseException
            ) as error:  # Ctrl-C too: the engine would turn it into one of its own
                errors.append(error)
                raise

        self._connection.register("given", pa.RecordBatchReader.from_batches(schema, watched()))
        try:
            yield
        except Exception:
            if errors:
                raise errors[0] from None
            raise
        self._connection.unregister("given")

    def _stream(self, query: str) -> Iterator[Any]:
        """Yield Arrow batches of a result that never stands in memory as a whole."""
        yield from self._connection.sql(query).to_arrow_reader(_BATCH)


@contextmanager
def opened(settings: BuildSettings, folder: Path) -> Iterator[Engine]:
    """Open a database that keeps to the settings' memory and spills into a folder.

    Raises:
        GraphError: DuckDB is not installed, or needs more memory or disk than there is.
    """
    try:
        import duckdb
    except ImportError:
        raise GraphError(
            'A graph store is built with DuckDB, which is not installed. Use pip install "reldp[large]", in a clone '
            'pip install ".[large]".'
        ) from None
    config = {
        "memory_limit": f"{settings.engine_bytes}B",
        "threads": settings.num_threads,
        "temp_directory": str(folder),
        "preserve_insertion_order": False,
        # A stream looks like one row to the optimizer, which would then keep all of it in memory: the table of
        # ids, on the right of a join, is to be what is kept.
        "disabled_optimizers": "join_order,build_side_probe_side",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    connection = duckdb.connect(config=config)
    try:
        yield Engine(connection)
    except RuntimeError as error:
        if str(error) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None  # a signal: the engine discards the exception of its handler
    except duckdb.OutOfMemoryException:
        raise GraphError(
            "The build needs more memory than `memory_limit`, or more room for temporary files than "
            f"`temp_dir` has. Raise the limit above {settings.memory_bytes:,} bytes or free some space."
        ) from None
    except duckdb.IOException as error:
        full = "no space left" in str(error).lower()
        reason = (
            "the disk is full. Free some space"
            if full
            else "a temporary file failed. Check the disk"
        )
        raise GraphError(f"The store could not be built: {reason} and build it again.") from None
    finally:
        connection.close()
