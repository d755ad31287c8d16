"""Tables of other libraries become Arrow tables, and what is wrong with one is said without its values."""

import datasets
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from reldp.errors import GraphError, MissingDependency
from reldp.integrations.tables import as_arrow, from_columns, require

COLUMNS = {"name": ["bob", "eve"], "age": [3, 4]}


class OnlyStream:
    """A table that exposes Arrow's stream and nothing else, as DuckDB's relations do."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


class OnlyInterchange:
    """A table that exposes the older interchange protocol of data frames and nothing else."""

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return pa.table(COLUMNS).__dataframe__(nan_as_null, allow_copy)


TABLES = {
    "pyarrow": pa.table(COLUMNS),
    "record batch": pa.RecordBatch.from_pydict(COLUMNS),
    "pandas": pd.DataFrame(COLUMNS),
    "pandas with an index": pd.DataFrame(COLUMNS).set_index("name"),
    "polars": pl.DataFrame(COLUMNS),
    "dataset": datasets.Dataset.from_dict(COLUMNS),
    "formatted dataset": datasets.Dataset.from_dict(COLUMNS).with_format("numpy"),
    "streamed dataset": datasets.Dataset.from_dict(COLUMNS).to_iterable_dataset(),
    "dictionary": COLUMNS,
    "arrow stream": OnlyStream(),
    "interchange": OnlyInterchange(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_is_understood(kind: str) -> None:
    table = as_arrow(TABLES[kind], "pairs", columns=["name", "age"])
    assert table.to_pydict() == COLUMNS
    assert as_arrow(TABLES[kind], "pairs", columns=["name"]).column_names == ["name"]


@pytest.mark.parametrize("kind", [kind for kind in TABLES if "index" not in kind])
def test_a_column_that_is_not_there_is_named(kind: str) -> None:
    with pytest.raises(GraphError, match="pairs must have one column 'nmae', got 2 others"):
        as_arrow(TABLES[kind], "pairs", columns=["nmae"])
    with pytest.raises(GraphError, match="got 'name' and 'age'"):
        as_arrow(TABLES[kind], "pairs", columns=["nmae"], show_ids=True)


def test_rows_of_a_dataset_are_those_selected() -> None:
    chosen = datasets.Dataset.from_dict(COLUMNS).select([1])
    assert as_arrow(chosen, "pairs").to_pydict() == {"name": ["eve"], "age": [4]}


def test_missing_values_of_pandas_are_nulls() -> None:
    table = as_arrow(pd.DataFrame({"name": ["bob", None], "x": [1.0, float("nan")]}), "pairs")
    assert table.to_pydict() == {"name": ["bob", None], "x": [1.0, None]}


def test_a_repeated_column_is_refused() -> None:
    twice = pd.DataFrame([["a", "b"]], columns=["name", "name"])
    with pytest.raises(GraphError, match="one column 'name', got 2 of them"):
        as_arrow(twice, "pairs", columns=["name"])
    assert as_arrow(twice, "pairs").num_columns == 2


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([("a", "b")], "got list"),
        (None, "got NoneType"),
        (pl.LazyFrame(COLUMNS), r"got LazyFrame. Call its collect\(\) first"),
        (datasets.DatasetDict(train=TABLES["dataset"]), r"Choose a split: dataset\['train'\]"),
        ({"a": [1, 2], "b": [1]}, "columns of one length"),
        ({"a": [1, "bob"]}, "must hold one type of value in column number 1"),
        (pd.DataFrame({"a": [1, "bob"]}), "must hold one type of value in column number 1"),
        (TABLES["streamed dataset"].filter(lambda row: False), "must have a row, got none"),
    ],
)
def test_what_is_no_table_is_one_clear_line(table: object, words: str) -> None:
    with pytest.raises(GraphError, match=words) as caught:
        as_arrow(table, "pairs")
    assert "bob" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_of_plain_values() -> None:
    assert from_columns(COLUMNS, "entities", show_ids=False).to_pydict() == COLUMNS


def test_a_library_that_is_not_installed_is_named() -> None:
    assert require("pyarrow") is pa
    with pytest.raises(MissingDependency, match="pip install no-such-library"):
        require("no_such_library.data")
