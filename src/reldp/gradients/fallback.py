"""Per-unit gradients of small modules of any kind, by running them once per unit under vmap.

The module gets a separate copy of its parameters for each unit; the copies are the parameters plus
probes, so their gradients are the per-unit gradients. That costs units times parameters of memory,
so only small modules are run like this; larger ones are refused by name. What cannot be mapped
(data-dependent control flow, layers without a batching rule) is refused by name as well. Private to
the package.

>>> FallbackSite(nn.Bilinear(2, 2, 1), {"weight": "w", "bias": "b"}).names
{'weight': 'w', 'bias': 'b'}
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from reldp.errors import UnsupportedParameter
from reldp.gradients.products import outside_graphs
from reldp.gradients.sites import Site

__all__ = ["FallbackSite", "without_fast_path"]


class FallbackSite(Site):
    """Site that runs a module under vmap over units."""

    def __init__(self, module: nn.Module, names: Mapping[str, str]) -> None:
        super().__init__(module, names)
        self._inside = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module once per unit, on that unit's rows."""
        if self._inside:
            return self.original(*args, **kwargs)
        return self._mapped(args, kwargs)

    @outside_graphs
    def _mapped(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the module under vmap, outside of compiled graphs."""
        keys = [*range(len(args)), *kwargs]
        values = [*args, *kwargs.values()]
        mapped = [
            key for key, value in zip(keys, values, strict=True) if self._has_rows(key, value)
        ]
        fixed = {k: v for k, v in zip(keys, values, strict=True) if k not in mapped}
        if not mapped:
            raise self._refusal("must see the rows of the batch, got an input without them")
        tensors = [self._by_unit(v) for k, v in zip(keys, values, strict=True) if k in mapped]

        absent: set[int] = set()  # places of None among several outputs, which vmap cannot return

        def one_unit(copies: dict[str, Tensor], *rows: Tensor) -> Any:
            arguments: dict[Any, Any] = {**fixed, **dict(zip(mapped, rows, strict=True))}
            positional = tuple(arguments[i] for i in range(len(args)))
            named = {k: arguments[k] for k in kwargs}
            out = torch.func.functional_call(
                self.module, copies, positional, named, tie_weights=False
            )
            if type(out) not in (tuple, list):
                return out
            absent.update(place for place, value in enumerate(out) if value is None)
            return tuple(value for value in out if value is not None)

        self._inside = True
        try:
            with without_fast_path(), self._padded_tables(), warnings.catch_warnings():
                # Some operations are run unit by unit: slower, with the same result.
                warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
                out = torch.vmap(one_unit, randomness="different")(self._copies(), *tensors)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise self._refusal(f"must be in a layer that vmap can run, got: {reason}") from error
        finally:
            self._inside = False
        if absent:
            rest = iter(out)
            out = tuple(None if i in absent else next(rest) for i in range(len(out) + len(absent)))
        return self._flat(out)

    @contextmanager
    def _padded_tables(self) -> Iterator[None]:
        """Let embeddings inside have no gradient at their padding index, which vmap forgets."""
        tables = [m for m in self.module.modules() if type(m) is nn.Embedding]
        padded = [m for m in tables if m.padding_idx is not None and "forward" not in m.__dict__]
        try:
            for table in padded:
                table.__dict__["forward"] = partial(_look_up, table)
            yield
        finally:
            for table in padded:
                del table.__dict__["forward"]

    def _copies(self) -> dict[str, Tensor]:
        """One copy of the parameters per unit, (U, *shape) each.

        A parameter that several layers have gets a copy in each, with one probe; a layer that has several
        names is named once.
        """
        copies = {}
        for path, layer in self.module.named_modules():
            for last, parameter in layer._parameters.items():
                local = f"{path}.{last}" if path else last
                if local in self.names and parameter is not None:
                    value = parameter.detach()
                    copies[local] = (value + self.recorder.probe(self.names[local])).to(value.dtype)
        return copies

    def _has_rows(self, key: int | str, value: Any) -> bool:
        """Whether an argument is split over units; refuses what could be either."""
        if key == "attn_mask" and isinstance(self.module, nn.MultiheadAttention):
            return isinstance(value, Tensor) and value.dim() > 2  # (T, T) is for all rows
        if not isinstance(value, Tensor):
            inner = [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
            if any(leaf.requires_grad or (leaf.dim() and leaf.shape[0] != 1) for leaf in inner):
                raise self._refusal("must see rows as tensors, got some in a collection")
            return False
        if value.dim() and value.shape[0] == self.recorder.rows:
            return True
        if value.requires_grad or (value.dim() and value.shape[0] != 1):
            raise self._refusal(
                f"must see {self.recorder.rows} rows in the first dimension of every tensor, "
                f"got an input of shape {tuple(value.shape)}"
            )
        return False

    def _by_unit(self, value: Tensor) -> Tensor:
        """(rows, ...) -> (U, rows per unit, ...)."""
        return value.reshape(self.recorder.units, -1, *value.shape[1:])

    def _flat(self, out: Any) -> Any:
        """Return the mapped output with units and rows joined again."""
        if isinstance(out, Tensor) and out.dim() >= 2:
            return out.flatten(0, 1)
        if isinstance(out, tuple | list):
            return type(out)(None if value is None else self._flat(value) for value in out)
        raise self._refusal(f"must be in a layer that returns tensors, got {type(out).__name__}")

    def _refusal(self, what: str) -> UnsupportedParameter:
        return UnsupportedParameter(
            f"`{self._label()}` {what}. Freeze it, or train another part of the model."
        )


def _look_up(table: nn.Embedding, input: Tensor) -> Tensor:
    """Return rows of a table, without a gradient at the padding index."""
    rows = functional.embedding(input, table.weight)
    is_padding = torch.eq(input, -1 if table.padding_idx is None else table.padding_idx)
    return torch.where(is_padding.unsqueeze(-1), rows.detach(), rows)


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Switch off torch's fused attention for inference, which has no gradient and drops padded positions."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
