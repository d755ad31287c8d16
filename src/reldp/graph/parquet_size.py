r"""Parquet files that decode to far more than their size, refused before they are decoded.

Repeated values cost a Parquet file next to nothing: a file of 900 bytes can hold gigabytes of text. Its footer is
written by whoever wrote the file, so this module reads the headers of the pages, by which Arrow decodes:
sizes of numbers follow from their count, and texts that a page holds in full are no longer than the page. Texts
that a page abbreviates, by a dictionary or by shared prefixes, are bounded by the longest one. Where such a bound
exceeds the limit, they are decoded a few rows at a time, and counted.

Private to the package: `refuse_parquet_flood`.

>>> import pyarrow.parquet, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "entities.parquet"
...     table = pa.table({"id": pa.DictionaryArray.from_arrays([0] * 1900, ["x" * 10**6])})
...     pyarrow.parquet.write_table(table, path)
...     refuse_parquet_flood(path)
Traceback (most recent call last):
reldp.errors.GraphError: entities.parquet must decode to at most 100 times its size, ...
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from reldp.graph.column_count import refuse_columns
from reldp.graph.decoded_size import WIDTH, DecodedSize, text_bytes, text_lengths
from reldp.graph.parquet_footer import Chunk, read_footer
from reldp.graph.thrift import read_struct

__all__ = ["refuse_parquet_flood"]

_BATCH_BYTES = 2**26  # of texts that are decoded to be counted
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3  # kinds of pages
_HEADER = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}  # the field of a page's header by its kind
_ENCODING = {_DATA: 2, _DATA_V2: 4}
_IN_FULL = frozenset({0, 6})  # PLAIN, DELTA_LENGTH_BYTE_ARRAY
_BY_DICTIONARY = frozenset({2, 8})  # PLAIN_DICTIONARY, RLE_DICTIONARY
_SLACK = 100  # bytes by which old writers understate the size of a column, as Arrow allows for


@dataclass(kw_only=True)
class _Texts:
    """The texts of one column in one group of rows, as its pages abbreviate them.

    Attributes:
        group: Number of the group of rows.
        path: Name of the column.
        nested: Whether a row can hold several of them.
        by_dictionary: Texts given by a dictionary.
        num_words: Number of texts of the dictionary.
        longest_word: Bytes of its longest text at most: of its page, until it is read.
        other: Texts given otherwise, such as by the prefix that they share with the text before.
        longest_other: Bytes of the longest of these at most: of the largest page.
    """

    group: int
    path: str
    nested: bool
    by_dictionary: int = 0
    num_words: int = 0
    longest_word: int = 0
    other: int = 0
    longest_other: int = 0

    @property
    def bound(self) -> int:
        """Bytes that the abbreviated texts take at most."""
        return self.by_dictionary * self.longest_word + self.other * self.longest_other


def refuse_parquet_flood(path: Path, *, num_files: int = 1) -> None:
    """Refuse a file that would decode to more than its size allows.

    Args:
        path: The file.
        num_files: Number of files that share the allowance for small ones.

    Raises:
        GraphError: It would decode to too much.
        pa.ArrowInvalid: It is damaged; other errors of pyarrow are possible.
    """
    import pyarrow.parquet as pq

    size = DecodedSize(path, num_files)
    try:
        with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            refuse_columns(path.name, file.metadata.num_columns)
            columns = list(_abbreviated(path, file, size))
            if not size.fits(sum(texts.bound for texts in columns)):
                _count_longest(file, path, columns, size)
    except (IndexError, OverflowError, RecursionError):
        raise pa.ArrowInvalid("its footer is damaged") from None


def _count_longest(file: Any, path: Path, columns: list[_Texts], size: DecodedSize) -> None:
    """Count texts that dictionaries abbreviate, those of the loosest bounds first, until bounds suffice."""
    import pyarrow.parquet as pq

    names = sorted({texts.path for texts in columns if texts.by_dictionary})
    with pq.ParquetFile(path, memory_map=True, pre_buffer=False, read_dictionary=names) as reader:
        for texts in columns:
            if texts.by_dictionary and not texts.other and not texts.nested:
                texts.longest_word = _longest(reader, texts)
    left = sum(texts.bound for texts in columns)
    for texts in sorted(columns, key=lambda texts: texts.bound, reverse=True):
        if size.fits(left):
            return
        left -= texts.bound
        _count(file, texts, size)


def _abbreviated(path: Path, file: Any, size: DecodedSize) -> Iterator[_Texts]:
    """Add what the pages say, and yield the columns of texts that they abbreviate."""
    metadata = file.metadata
    if not metadata.num_row_groups:
        return
    lists = {item.name: _list_size(item.type) for item in file.schema_arrow}
    lists = {name: per_row for name, per_row in lists.items() if per_row > 1}
    with path.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        groups = list(read_footer(data))
        if len(groups) != metadata.num_row_groups:
            raise pa.ArrowInvalid("its footer is damaged")
        for group, (num_rows, columns) in enumerate(groups):
            if len(columns) != len(metadata.schema):
                raise pa.ArrowInvalid("its footer is damaged")
            for number, column in enumerate(columns):
                leaf = metadata.schema.column(number)
                texts = _Texts(group=group, path=leaf.path, nested=leaf.max_repetition_level > 0)
                # What a value takes: itself, or where a text begins, and where the lists around it do.
                width = WIDTH * (1 + leaf.max_repetition_level) + max(0, leaf.length or 0)
                num_values = _add_pages(data, column, texts, width, size)
                per_row = max(
                    (n for top, n in lists.items() if f"{leaf.path}.".startswith(f"{top}.")),
                    default=1,
                )
                size.add((num_rows * per_row - num_values) * width)
                if texts.bound:
                    yield texts


def _add_pages(data: Any, column: Chunk, texts: _Texts, width: int, size: DecodedSize) -> int:
    """Add the pages of a column in a group of rows; return how many values they hold."""
    is_text, start = column.is_text, column.start
    end = min(len(data), start + column.size + _SLACK)
    seen = 0
    while seen < column.num_values and start < end:
        size.count_parts()
        header, start = read_struct(data, start)
        kind = header.get(1)
        page = max(_natural(header.get(2)), _natural(header.get(3)))
        size.add(page)
        start += _natural(header.get(3))
        if kind not in _HEADER:
            continue
        details = header.get(_HEADER[kind])
        details = details if isinstance(details, dict) else {}
        count = _natural(details.get(1))
        if kind == _DICTIONARY:
            texts.num_words += count
            texts.longest_word += page
        else:
            encoding = details.get(_ENCODING[kind])
            seen += count
            size.add(count * width)
            if is_text and encoding in _BY_DICTIONARY:
                texts.by_dictionary += count
            elif is_text and encoding not in _IN_FULL:
                texts.other += count
                texts.longest_other = max(texts.longest_other, page)
    return seen


def _natural(value: Any) -> int:
    """Return a number of a header; Arrow's are of 32 bits."""
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise pa.ArrowInvalid("the header of a page is damaged")
    return value


def _list_size(kind: Any) -> int:
    """Return how many values a row has where lists of one length say so, missing lists or not."""
    inner = max((_list_size(kind.field(i).type) for i in range(kind.num_fields)), default=1)
    return inner * (max(1, kind.list_size) if pa.types.is_fixed_size_list(kind) else 1)


def _longest(reader: Any, texts: _Texts) -> int:
    """Return the length of the longest text of a dictionary, or a bound of it."""
    try:
        # A row, and with it the dictionary.
        batch = next(
            reader.iter_batches(
                1, row_groups=[texts.group], columns=[texts.path], use_threads=False
            )
        )
    except (pa.ArrowException, OSError, StopIteration):
        return texts.longest_word
    column = batch.column(0)
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) != texts.num_words:
        return texts.longest_word
    lengths = text_lengths(column.dictionary)
    return texts.longest_word if lengths is None else int(lengths.max(initial=0))


def _count(file: Any, texts: _Texts, size: DecodedSize) -> None:
    """Decode the texts of a column in a group of rows, few at a time, and add their bytes."""
    if texts.nested:
        size.add(texts.bound)  # a row can hold any number of them
    num_rows = max(1, _BATCH_BYTES // max(1, texts.longest_word, texts.longest_other))
    for batch in file.iter_batches(
        num_rows, row_groups=[texts.group], columns=[texts.path], use_threads=False
    ):
        for column in batch.columns:
            size.add(text_bytes(column))
