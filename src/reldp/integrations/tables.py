"""Tables of other libraries as Arrow tables, without quoting a value in an error.

Understood are pyarrow tables and record batches, pandas data frames, Hugging Face datasets (also
streamed ones), dictionaries of columns, and everything with `__arrow_c_stream__` (Polars, DuckDB)
or `__dataframe__`, the two interchange protocols of data frames.

Public: `as_arrow`. Inside the package: `column_array`, `from_columns`, `require`.

>>> as_arrow({"left": ["a", "b"], "right": ["c", "d"]}, "pairs", columns=["right"]).to_pylist()
[{'right': 'c'}, {'right': 'd'}]
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from reldp.errors import GraphError, MissingDependency
from reldp.graph.disclosure import column_words, columns_words, guarded

__all__ = ["as_arrow", "column_array", "from_columns", "require"]

_STREAMED_ROWS = 10_000


def as_arrow(
    table: Any, name: str, *, columns: Sequence[str] | None = None, show_ids: bool = False
) -> Any:
    """Return a table of any library as an Arrow table.

    Args:
        table: The table.
        name: What errors call it.
        columns: Columns to convert; all by default.
        show_ids: Whether errors may show content of the table, which is sensitive.

    Raises:
        GraphError: It is no table, lacks a column, or holds values that Arrow does not know.
    """
    with guarded(name, show_ids=show_ids):
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if isinstance(table, pa.Table):
            return _selected(table, table.column_names, name, columns, show_ids)
        if hasattr(table, "iloc") and hasattr(table, "columns"):
            return _from_pandas(table, name, columns, show_ids)
        if isinstance(table, Mapping):
            return _from_mapping(table, name, columns, show_ids)
        if hasattr(table, "with_format"):
            return _from_dataset(table, name, columns, show_ids)
        if hasattr(table, "__arrow_c_stream__"):
            whole = pa.table(table)
        elif hasattr(table, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            whole = from_dataframe(table)
        else:
            hint = " Call its collect() first." if hasattr(table, "collect") else ""
            raise GraphError(
                f"{name} must be a table of pandas, pyarrow, Polars or Hugging Face datasets, or a "
                f"dictionary of columns, got {type(table).__name__}.{hint}"
            )
        return _selected(whole, whole.column_names, name, columns, show_ids)


def from_columns(columns: Mapping[str, Any], name: str, show_ids: bool) -> Any:
    """Return columns of plain values as an Arrow table."""
    names = [str(column) for column in columns]
    arrays = [
        column_array(values, name, column_words(column, names, show_ids=show_ids))
        for column, values in zip(names, columns.values(), strict=True)
    ]
    if len({len(array) for array in arrays}) > 1:
        raise GraphError(f"{name} must have columns of one length, got several lengths.")
    return pa.Table.from_arrays(arrays, names=names)


def column_array(values: Any, name: str, label: str) -> Any:
    """Return one column as Arrow keeps it; missing values of pandas become nulls."""
    try:
        return pa.array(values, from_pandas=hasattr(values, "iloc"))
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise GraphError(
            f"{name} must hold one type of value in {label}, got several, or one that Arrow does "
            "not know. Write all as text, or all as numbers."
        ) from None


def require(module: str) -> Any:
    """Import an optional library; the error names the package to install."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0].replace("_", "-")
        raise MissingDependency(
            f"{package} is needed for this. Install it: pip install {package}."
        ) from None


def _selected(
    table: Any, names: Sequence[str], name: str, columns: Sequence[str] | None, show_ids: bool
) -> Any:
    """Return the columns that are asked for."""
    wanted = _wanted(names, name, columns, show_ids)
    return table if columns is None else table.select(wanted)


def _wanted(
    names: Sequence[str], name: str, columns: Sequence[str] | None, show_ids: bool
) -> list[str]:
    """Return the names of the columns to convert, each once; a column that is not there is refused."""
    wanted = list(dict.fromkeys(names if columns is None else columns))
    for column in wanted:
        count = list(names).count(column)
        if columns is not None and count != 1:
            got = columns_words(names, show_ids=show_ids) if not count else f"{count} of them"
            hint = "" if show_ids else " Set `show_ids` to see the columns here."
            raise GraphError(f"{name} must have one column {column!r}, got {got}.{hint}")
    return wanted


def _from_pandas(table: Any, name: str, columns: Sequence[str] | None, show_ids: bool) -> Any:
    """Return a data frame column by column: Arrow's error would quote a value."""
    # An index that is named like a column that is needed counts as one.
    needed = columns or (["id"] if name == "entities" else [])
    if any(level in needed and level not in table.columns for level in table.index.names):
        table = table.reset_index()
    names = [str(column) for column in table.columns]
    places = list(range(len(names)))
    if columns is not None:
        places = [names.index(column) for column in _wanted(names, name, columns, show_ids)]
    arrays = [
        column_array(
            table.iloc[:, place], name, column_words(names[place], names, show_ids=show_ids)
        )
        for place in places
    ]
    return pa.Table.from_arrays(arrays, names=[names[place] for place in places])


def _from_mapping(
    table: Mapping[Any, Any], name: str, columns: Sequence[str] | None, show_ids: bool
) -> Any:
    """Return a dictionary of columns; a dictionary of datasets is refused."""
    if any(hasattr(values, "with_format") for values in table.values()):
        raise GraphError(
            f"{name} must be one dataset, got a dictionary of {len(table)}. Choose a split: "
            "dataset['train']."
        )
    names = [str(column) for column in table]
    wanted = _wanted(names, name, columns, show_ids)
    return from_columns({c: v for c, v in table.items() if str(c) in wanted}, name, show_ids)


def _from_dataset(dataset: Any, name: str, columns: Sequence[str] | None, show_ids: bool) -> Any:
    """Return a Hugging Face dataset: its rows as selected and sorted, whole or streamed."""
    if dataset.column_names is not None:  # a streamed dataset may not know its columns
        wanted = _wanted(dataset.column_names, name, columns, show_ids)
        dataset = dataset if columns is None else dataset.select_columns(wanted)
    rows = dataset.with_format("arrow")
    if hasattr(rows, "num_rows"):
        return rows[:]
    parts = list(rows.iter(batch_size=_STREAMED_ROWS))
    if not parts:
        raise GraphError(f"{name} must have a row, got none.")
    whole = pa.concat_tables(parts)
    return _selected(whole, whole.column_names, name, columns, show_ids)
