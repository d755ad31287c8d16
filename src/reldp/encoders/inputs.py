"""Inputs of a module: what one argument of its ``forward`` gets for each entity.

Three kinds: columns of the graph (`Column`), an array with a row for each of some ids (`Array`), and
a function that is called for one entity at a time (`PerEntity`). Shapes and numbers of values are
stated, never read from the data: they are public, and steps are checked on public random rows of
these shapes.

An entity's row depends on that entity alone: nothing is centered, scaled or counted over the graph.
That is why a function is called for one entity at a time.

Public: `Column`, `Array`, `PerEntity`. Public inside the package: `as_input`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_arrow({"id": [1, 2], "text": ["a", "bb"], "age": [30, 50]},
...                                {"source": [1], "target": [2]})
>>> Column("age").rows(graph, np.array([1, 0])).take([0, 1])
array([50., 30.], dtype=float32)
>>> PerEntity(lambda entity: len(entity["text"])).rows(graph, np.array([1])).take([0])
array([2.], dtype=float32)
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from reldp._validate import shown
from reldp.encoders.input_rows import Input, Rows
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import EntityGraph

__all__ = ["Array", "Column", "PerEntity", "as_input"]

_Indices = npt.NDArray[np.int64]
_AT_ONCE = 4096  # entities that are read from Arrow at a time
_REPEATED = 8  # entities for which a function is called a second time


class Column(Input):
    """One column of the graph, or several columns of numbers side by side."""

    def __init__(
        self,
        *columns: str,
        shape: int | Sequence[int] | None = None,
        num_values: int | None = None,
    ) -> None:
        """State which columns a module gets.

        Args:
            *columns: Names of columns: numbers, true or false, or one column of vectors (``features``).
            shape: Dimensions of one entity's row (default: none for one column, the number of columns for
                several). Vectors need it: ``Column("features", shape=(1, 28, 28))`` for images.
            num_values: For whole numbers that stand for categories or tokens: how many there can be, a
                public number. They are then given as int64, for an embedding; otherwise as float32.
        """
        if not columns or not all(isinstance(name, str) and name for name in columns):
            raise EncoderError(f"`columns` must be names of columns, got {shown(columns)}.")
        self.columns = columns
        default = () if len(columns) == 1 else (len(columns),)
        self._state(default if shape is None else shape, num_values)
        if len(columns) > 1 and math.prod(self.shape) != len(columns):
            raise EncoderError(
                f"`shape` must hold the {len(columns)} columns, got {self.shape}. Leave it out."
            )

    def rows(self, entities: "EntityGraph", indices: _Indices) -> Rows:
        """Return the columns' values."""
        parts = [
            self._checked(self._values(entities, n, indices), _column(n)) for n in self.columns
        ]
        values = parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
        return Rows(values.reshape(len(indices), *self.shape), np.arange(len(indices)))

    def describe(self) -> dict[str, Any]:
        """Return the names of the columns, and the shape."""
        return self._described("column", columns=list(self.columns))

    def _values(self, entities: "EntityGraph", name: str, indices: _Indices) -> npt.NDArray[Any]:
        """Return one column as numbers, (entities,) or (entities, length of a vector)."""
        import pyarrow as pa

        if name not in entities.columns:
            raise EncoderError(f"`graph` must have a {_column(name)} for the module, got none.")
        column = entities.entities.column(name).take(pa.array(indices)).combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        if column.null_count:
            raise EncoderError(
                f"`graph` must have a value for every entity in {_column(name)}, got "
                f"{column.null_count} missing ones. Fill them in; a mean over private data would leak."
            )
        vector = pa.types.is_fixed_size_list(column.type)
        kind = column.type.value_type if vector else column.type
        if not _is_number(kind):
            raise EncoderError(
                f"`graph` must have numbers in {_column(name)}, got {kind}. Turn other values into "
                "numbers with reldp.encoders.PerEntity."
            )
        length = column.type.list_size if vector else 1
        one = 1 if len(self.columns) > 1 else math.prod(self.shape)
        if length != one or (vector and len(self.columns) > 1):
            raise EncoderError(
                f"`shape` must hold the {length} numbers per entity of {_column(name)}, got "
                f"{self.shape}. Pass Column({name!r}, shape=({length},)), or other dimensions."
            )
        values: npt.NDArray[Any] = (column.flatten() if vector else column).to_numpy(
            zero_copy_only=False
        )
        return values.reshape(len(indices), length) if vector else values


class Array(Input):
    """An array with one row for each of some ids, such as images from a file."""

    def __init__(self, values: Any, ids: Any, *, num_values: int | None = None) -> None:
        """Keep the array, which may be mapped from a file, and find rows by id.

        Args:
            values: Rows, (ids, ...): a numpy array or a tensor on the CPU. Bytes (uint8) stay bytes in
                memory and are given to the module as floating-point numbers from 0 to 255.
            ids: Id of each row, as in the graph. All graphs that are trained on, evaluated or encoded must
                have their entities here; further ids are allowed.
            num_values: See `Column`.
        """
        array = values.detach().numpy() if isinstance(values, Tensor) else np.asanyarray(values)
        if array.ndim < 1 or array.dtype.kind not in "biuf":
            raise EncoderError(
                f"`values` must be an array of numbers with one row per id, got {array.dtype} of shape "
                f"{array.shape}."
            )
        self._ids = _id_array(ids)
        if len(self._ids) != len(array) or self._ids.null_count:
            raise EncoderError(
                f"`ids` must name every row of the array, got {len(self._ids)} for {len(array)} rows."
            )
        if len(self._ids.unique()) != len(array):
            raise EncoderError("`ids` must not repeat an id, got a repeated one.")
        self._state(array.shape[1:], num_values)
        self._is_byte = array.dtype == np.uint8 and num_values is None
        self._array = self._checked(array, "the array")

    def rows(self, entities: "EntityGraph", indices: _Indices) -> Rows:
        """Return the rows of the entities' ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = entities.ids.take(pa.array(indices))
        try:
            matches = pc.index_in(wanted, value_set=self._ids.cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # it would quote an id
            raise EncoderError(
                f"`ids` of the array must be {wanted.type} as in the graph, got {self._ids.type}."
            ) from None
        if matches.null_count:
            raise EncoderError(
                f"`ids` of the array must name every entity of the graph, got none for "
                f"{matches.null_count} of {len(indices)} entities."
            )
        return Rows(self._array, matches.to_numpy(zero_copy_only=False).astype(np.int64))

    def describe(self) -> dict[str, Any]:
        """Return the shape; the rows are sensitive."""
        return self._described("array")


class PerEntity(Input):
    """A function of one entity: reads an image, counts, hashes or tokenizes a text."""

    def __init__(
        self,
        function: Callable[[Mapping[str, Any]], Any],
        *,
        shape: int | Sequence[int] = (),
        num_values: int | None = None,
    ) -> None:
        """State what a function makes of an entity.

        Args:
            function: Called once for every entity with the values of its columns by name, such as
                ``{"id": 7, "text": "a tent"}``; returns numbers of the given shape. It must draw no random
                numbers, keep no state and look at nothing that was computed from other entities.
            shape: Dimensions of one entity's row.
            num_values: See `Column`.
        """
        if not callable(function):
            raise EncoderError(f"`function` must be callable, got {type(function).__name__}.")
        self._function = function
        self._state(shape, num_values)

    def rows(self, entities: "EntityGraph", indices: _Indices) -> Rows:
        """Call the function for every entity; for some of them twice, to find a state."""
        made = [self._row(entity) for entity in _entities(entities, indices)]
        empty = np.zeros((0, *self.shape), np.int64)
        values = self._checked(np.stack(made) if made else empty, "the function's rows")
        again = [self._row(entity) for entity in _entities(entities, indices[:_REPEATED][::-1])]
        if not all(map(np.array_equal, made, again[::-1])):
            raise EncoderError(
                f"`function` must give an entity the same row whenever it is called, got {self._name}, "
                "which does not. Draw no random numbers, and keep no state between calls."
            )
        return Rows(values, np.arange(len(indices)))

    def describe(self) -> dict[str, Any]:
        """Return the name of the function, and the shape."""
        return self._described("function", function=self._name)

    @property
    def _name(self) -> str:
        return str(getattr(self._function, "__qualname__", type(self._function).__qualname__))

    def _row(self, entity: Mapping[str, Any]) -> npt.NDArray[Any]:
        """Return one entity's row, in the type that the function gave it."""
        try:
            given = self._function(entity)
        except KeyError as error:
            if not error.args or error.args[0] in entity:
                raise
            raise EncoderError(
                f"`graph` must have a column {error.args[0]!r} for {self._name}, got none."
            ) from error
        row = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
        if row.shape != self.shape or row.dtype.kind not in "biuf":
            raise EncoderError(
                f"`function` must return numbers of shape {self.shape}, got {row.dtype} of shape "
                f"{row.shape} from {self._name}."
            )
        return row


def as_input(given: Any, argument: str) -> Input:
    """Return an input, from an input, the name of a column, or a list of names.

    Raises:
        EncoderError: It is something else.
    """
    if isinstance(given, Input):
        return given
    if isinstance(given, str):
        return Column(given)
    if isinstance(given, list | tuple) and given and all(isinstance(name, str) for name in given):
        return Column(*given)
    fix = "Use the name of a column, or a Column, Array or PerEntity of reldp.encoders."
    if isinstance(given, np.ndarray | Tensor):
        fix = "Use reldp.encoders.Array(values, ids=ids), which finds an entity's row by its id."
    elif callable(given):
        fix = "Use reldp.encoders.PerEntity(function, shape=...)."
    raise EncoderError(
        f"`inputs` must say where {argument!r} comes from, got {type(given).__name__}. {fix}"
    )


def _column(name: str) -> str:
    return f"column {name!r}"


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    )


def _entities(entities: "EntityGraph", indices: _Indices) -> Iterator[dict[str, Any]]:
    """Yield the columns of entities, a bounded number at a time; vectors as arrays."""
    import pyarrow as pa

    features = entities.features
    plain = entities.entities if features is None else entities.entities.drop_columns(["features"])
    for start in range(0, len(indices), _AT_ONCE):
        some = indices[start : start + _AT_ONCE]
        for index, entity in zip(some, plain.take(pa.array(some)).to_pylist(), strict=True):
            yield entity if features is None else {**entity, "features": features[index]}


def _id_array(ids: Any) -> Any:
    """Return ids as one Arrow array of texts or whole numbers; errors never quote one."""
    import pyarrow as pa

    try:
        made = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else pa.array(ids)
        made = pa.concat_arrays(made.chunks) if isinstance(made, pa.ChunkedArray) else made
    except (pa.ArrowException, TypeError, ValueError):
        made = pa.array([], pa.null())
    if not (_is_text(made.type) or pa.types.is_integer(made.type)):
        raise EncoderError(
            "`ids` must be a list of texts or of whole numbers, as in the graph, got other values."
        )
    return made


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
