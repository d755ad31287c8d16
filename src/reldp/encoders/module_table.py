"""Which inputs each argument of a module gets, and the table of their rows.

Private to the package: `ModuleTable`, `named_inputs`.

>>> from torch import nn
>>> sorted(named_inputs(nn.Bilinear(2, 2, 1), {"input1": ["a", "b"], "input2": ["c", "d"]}))
['input1', 'input2']
>>> named_inputs(nn.Linear(2, 1), ["a", "b"])["input"].shape
(2,)
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import nn

from reldp._validate import did_you_mean
from reldp.encoders.input_rows import Input, Rows
from reldp.encoders.inputs import as_input
from reldp.errors import EncoderError

if TYPE_CHECKING:
    from reldp.graph import EntityGraph

__all__ = ["ModuleTable", "named_inputs"]

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleTable:
    """Rows of all inputs of many entities. Sensitive.

    Attributes:
        names: Argument of the module that each input is for.
        values: See `reldp.encoders.input_rows.Rows`; so are `places`.
    """

    names: tuple[str, ...]
    values: tuple[npt.NDArray[Any], ...] = field(repr=False)
    places: tuple[npt.NDArray[np.int64], ...] = field(repr=False)

    @classmethod
    def of(
        cls, inputs: Mapping[str, Input], entities: "EntityGraph", indices: npt.NDArray[np.int64]
    ) -> "ModuleTable":
        """Return the rows of some entities of a graph."""
        rows = [given.rows(entities, indices) for given in inputs.values()]
        return cls._of(tuple(inputs), rows)

    @classmethod
    def _of(cls, names: tuple[str, ...], rows: list[Rows]) -> "ModuleTable":
        values, places = tuple(r.values for r in rows), tuple(r.places for r in rows)
        return cls(names=names, values=values, places=places)

    def __len__(self) -> int:
        return len(self.places[0])

    def rows(self) -> dict[str, Rows]:
        """Return the rows of each input."""
        parts = zip(self.names, self.values, self.places, strict=True)
        return {name: Rows(values, places) for name, values, places in parts}

    def join(self, other: "ModuleTable") -> "ModuleTable":
        """Return this table with the entities of the other after it."""
        pairs = zip(self.rows().values(), other.rows().values(), strict=True)
        return self._of(self.names, [mine.join(theirs) for mine, theirs in pairs])


def named_inputs(module: nn.Module, inputs: Any) -> dict[str, Input]:
    """Return the input of each argument, checked against what ``module.forward`` takes.

    Args:
        module: The module.
        inputs: Inputs by the name of the argument; or one input, for the first argument.

    Raises:
        EncoderError: An argument is unknown, or one without a default has no input.
    """
    parameters = inspect.signature(module.forward).parameters
    names = [name for name, p in parameters.items() if p.kind in _BY_NAME]
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    kind = type(module).__name__
    if not isinstance(inputs, Mapping):
        if not names:
            raise EncoderError(f"`module` must take an argument by name, got {kind} without one.")
        inputs = {names[0]: inputs}
    if not inputs:
        raise EncoderError("`inputs` must say what the module gets, got nothing.")
    for name in inputs:
        if not isinstance(name, str) or not (name in names or takes_any):
            raise EncoderError(
                f"`inputs` must name arguments of the module's forward ({', '.join(names)}), got "
                f"{name!r}. {did_you_mean(name, names)}".rstrip()
            )
    needed = [n for n in names if parameters[n].default is inspect.Parameter.empty]
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise EncoderError(
            f"`inputs` must say what the argument {missing[0]!r} of {kind} gets, got nothing for it."
        )
    return {name: as_input(given, name) for name, given in inputs.items()}
