"""Inputs of a module: what one argument of its ``forward`` gets for each entity.

Three kinds: columns of the graph (`Column`), an array with a row for each of some ids (`Array`), and
a function that is called for one entity at a time (`PerEntity`). Shapes and numbers of values are
stated, never read from the data: they are public, and steps are checked on public random rows of
these shapes.

An entity's row depends on that entity alone: nothing is centered, scaled or counted over the graph.
That is why a function is called for one entity at a time.

Public: `Column`, `Array`, `PerEntity`. Public inside the package: `Input`, `Rows`, `as_input`.

>>> from reldp.graph import EntityGraph
>>> graph = EntityGraph.from_arrow({"id": [1, 2], "text": ["a", "bb"], "age": [30, 50]},
...                                {"source": [1], "target": [2]})
>>> Column("age").rows(graph, np.array([1, 0])).take([0, 1])
array([50., 30.], dtype=float32)
>>> PerEntity(lambda entity: len(entity["text"])).rows(graph, np.array([1])).take([0])
array([2.], dtype=float32)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reldp._validate import check_integer, is_integer
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import EntityGraph

__all__ = ["Array", "Column", "Input", "PerEntity", "Rows", "as_input"]

_Indices = npt.NDArray[np.int64]
_AT_ONCE = 4096  # entities that are read from Arrow, or rows that are checked, at a time
_REPEATED = 8  # entities for which a function is called a second time


@dataclass(frozen=True, eq=False)
class Rows:
    """One input of many entities: the row of entity i is ``values[places[i]]``. Sensitive.

    Attributes:
        values: Rows, (any number, *shape): float32, uint8, int32 or int64.
        places: (entities,) int64.
    """

    values: npt.NDArray[Any] = field(repr=False)
    places: _Indices = field(repr=False)

    def take(self, indices: Any) -> npt.NDArray[Any]:
        """Return a copy of the rows of some entities."""
        rows: npt.NDArray[Any] = self.values[self.places[indices]]
        return rows

    def join(self, other: "Rows") -> "Rows":
        """Return these rows, then those of other entities."""
        if self.values is other.values:
            return Rows(self.values, np.concatenate([self.places, other.places]))
        places = np.concatenate([self.places, other.places + len(self.values)])
        return Rows(np.concatenate([self.values, other.values]), places)


class Input(ABC):
    """What one argument of a module gets for each entity.

    Attributes:
        shape: Dimensions of one row.
        num_values: Integers lie in 0..num_values - 1; None for an input of floating-point numbers.
    """

    shape: tuple[int, ...]
    num_values: int | None
    _is_byte = (
        False  # whether values are whole numbers below 256 that become floating-point numbers
    )

    def _state(self, shape: Any, num_values: int | None) -> None:
        """Check and set what every input states."""
        sizes = (shape,) if is_integer(shape) else shape
        if not isinstance(sizes, Sequence) or not all(is_integer(s) and s > 0 for s in sizes):
            raise EncoderError(f"`shape` must be positive whole numbers, got {shape!r}.")
        if num_values is not None:
            check_integer("num_values", num_values, low=1, error=EncoderError)
        self.shape, self.num_values = tuple(int(size) for size in sizes), num_values

    @abstractmethod
    def rows(self, entities: "EntityGraph", indices: _Indices) -> Rows:
        """Return the rows of some entities, checked.

        Raises:
            EncoderError: The graph has no such rows.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the input's settings, which are public, as plain JSON values."""

    def tensor(self, values: npt.NDArray[Any]) -> Tensor:
        """Return rows as the module gets them: int64 with `num_values`, float32 without."""
        made = torch.from_numpy(np.ascontiguousarray(values))
        return made.float() if self.num_values is None else made.long()

    def random(self, count: int, generator: torch.Generator) -> Tensor:
        """Return public random rows, (count, *shape), on the CPU."""
        size = (count, *self.shape)
        if self.num_values is not None:
            return torch.randint(self.num_values, size, generator=generator)
        if self._is_byte:
            return torch.randint(256, size, generator=generator).float()
        return torch.randn(size, generator=generator)

    def _described(self, kind: str, **settings: Any) -> dict[str, Any]:
        stated = {"shape": list(self.shape), "num_values": self.num_values}
        return {"kind": kind, **settings, **stated}

    def _checked(self, values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
        """Return values in the type that is stored, if they are whole numbers in range, or finite."""
        if self.num_values is None:
            return _finite(values, name)
        if not np.issubdtype(values.dtype, np.integer) and values.dtype != np.bool_:
            raise EncoderError(
                f"`num_values` must be left out for {name}, which holds no whole numbers, got "
                f"{self.num_values}."
            )
        stored = values.astype(np.int32 if self.num_values <= 1 << 31 else np.int64, copy=False)
        outside = (values < 0) | (values >= self.num_values)
        if outside.any():
            raise EncoderError(
                f"`num_values` must be above every value of {name}, got {self.num_values} and a value "
                f"outside of 0..{self.num_values - 1} in row {_first_row(outside)}."
            )
        return stored


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
            raise EncoderError(f"`columns` must be names of columns, got {columns!r}.")
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
        import pyarrow as pa

        array = values.detach().numpy() if isinstance(values, Tensor) else np.asanyarray(values)
        if array.ndim < 1 or array.dtype.kind not in "biuf":
            raise EncoderError(
                f"`values` must be an array of numbers with one row per id, got {array.dtype} of shape "
                f"{array.shape}."
            )
        self._ids = pa.array(ids) if not hasattr(ids, "combine_chunks") else ids.combine_chunks()
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

    for start in range(0, len(indices), _AT_ONCE):
        some = indices[start : start + _AT_ONCE]
        for entity in entities.entities.take(pa.array(some)).to_pylist():
            if "features" in entity:
                entity["features"] = np.asarray(entity["features"], np.float32)
            yield entity


def _finite(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return numbers as float32, bytes as they are; refuse what is not finite."""
    if values.dtype == np.uint8:
        return values
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        stored = values.astype(np.float32, copy=False)
    for start in range(0, len(stored), _AT_ONCE):
        bad = ~np.isfinite(stored[start : start + _AT_ONCE])
        if bad.any():
            raise EncoderError(
                f"`inputs` must be finite, got NaN or infinity in row {start + _first_row(bad)} of {name}."
            )
    return stored


def _first_row(mask: npt.NDArray[np.bool_]) -> int:
    """Return the first row in which a mask is true anywhere."""
    return int(np.flatnonzero(mask.reshape(len(mask), -1).any(axis=1))[0])
