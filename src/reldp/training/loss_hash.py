"""The hash of a loss: its code, its settings, and everything that it can remember.

The ledger and the certificate name a loss by this hash, a resumed run must have the same one, and a
loss whose hash changes while it is trained with keeps a state (theory.md 2: a tuple's loss must not
depend on the tuples of earlier steps). So it covers what a careless loss would keep a state in: attributes
and slots of objects, of classes and of functions, what a function closes over, its defaults, buffers of
modules, and global variables and functions that the code names. Not covered are the weights that training
changes, what installed libraries keep, and private data in objects of reldp such as graphs, which are
named by their class only.

The same places are looked at in the layers of an encoder (`kept_state_sha256`) and in an encoder of a user's own class
(`kept_by_encoder_sha256`).

Public inside the package: `loss_sha256`, `kept_state_sha256`, `kept_by_encoder_sha256`.

>>> loss_sha256(functools.partial(max, 1)) == loss_sha256(functools.partial(max, 1))
True
>>> loss_sha256(functools.partial(max, 1)) == loss_sha256(functools.partial(max, 2))
False
"""

import argparse
import dis
import functools
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reldp.training.identity import module_sha256
from reldp.training.plain_values import code_of, code_sha256, name_of, plain

__all__ = ["kept_by_encoder_sha256", "kept_state_sha256", "loss_sha256"]

_DEPTH = 16
# What torch keeps in every module, which `module_sha256` looks at.
_OF_TORCH = frozenset(vars(nn.Module()))
_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
_LIBRARY_FOLDERS = frozenset({"site-packages", "dist-packages"})  # wherever they are
_PLAIN = bool | int | float | str | bytes | Tensor | np.ndarray | np.generic | torch.dtype


def loss_sha256(loss: Any) -> str:
    """Return the hash of a loss's code, settings and state, apart from the weights that training changes."""
    content = _Walk().describe(loss, _DEPTH)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def kept_state_sha256(module: nn.Module) -> str:
    """Return the hash of what layers outside of libraries keep besides parameters: also classes and globals do."""
    walk, parts = _Walk(), []
    for name, layer in module.named_modules():
        if _is_own(type(layer).__module__):
            buffers = {n: b for n, b in layer._buffers.items() if b is not None and _is_small(b)}
            held = [type(layer), buffers]
            parts += [name, walk.layer(layer), [walk.describe(value, _DEPTH) for value in held]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def kept_by_encoder_sha256(encoder: Any) -> str | None:
    """Return the hash of what an encoder of a user's own class keeps beside its modules; None for included ones."""
    home = type(encoder).__module__
    # A class that `type` made names the library that asked for it.
    if not _is_own(home) and home.partition(".")[0] not in sys.stdlib_module_names:
        return None
    held = {n: v for n, v in vars(encoder).items() if not isinstance(v, nn.Module)}
    walk = _Walk()
    modules = [v for v in vars(encoder).values() if isinstance(v, nn.Module)]
    parts = [
        list(map(kept_state_sha256, modules)),
        list(map(_kept_by_torch, modules)),
        walk.describe(type(encoder), _DEPTH),
        {n: walk.describe(held[n], _DEPTH) for n in sorted(held)},
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _kept_by_torch(module: nn.Module) -> list[Any]:
    """Return the attributes of layers of torch: names, and values that are plain. Others may hold weights."""
    return [
        [
            name,
            {n: plain(v) if isinstance(v, _PLAIN) else name_of(type(v)) for n, v in held.items()},
        ]
        for name, layer in module.named_modules()
        if type(layer).__module__.startswith("torch.nn.")
        and (held := {n: v for n, v in sorted(vars(layer).items()) if n not in _OF_TORCH})
    ]


class _Walk:
    """One walk through everything that a loss reaches; each object is described once."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no identity is used twice

    def describe(self, value: Any, depth: int) -> Any:
        """Return a value as plain JSON."""
        if value is None or isinstance(value, _PLAIN):
            return plain(value if not isinstance(value, bytes) else value.hex())
        if id(value) in self._numbers:
            return ["again", self._numbers[id(value)]]
        self._numbers[id(value)] = len(self._numbers)
        self._alive.append(value)
        if depth == 0:
            return name_of(type(value))
        return self._object(value, depth - 1)

    def _object(self, value: Any, depth: int) -> Any:
        """Return a container, a callable or an object as plain JSON."""
        if isinstance(value, nn.Module):
            return self._module(value, depth)
        if isinstance(value, Mapping):
            return [[self.describe(x, depth) for x in item] for item in value.items()]
        if isinstance(value, AbstractSet):
            return sorted(json.dumps(_Walk().describe(item, depth)) for item in value)
        if isinstance(value, Sequence) or type(value).__name__ == "deque":
            return [self.describe(item, depth) for item in value]
        if isinstance(value, functools.partial):
            return [self.describe(x, depth) for x in (value.func, value.args, value.keywords)]
        if isinstance(value, MethodType):
            return [self.describe(x, depth) for x in (value.__func__, value.__self__)]
        if isinstance(value, FunctionType):
            return self._function(value, depth)
        if isinstance(value, type):
            return self._class(value, depth)
        if isinstance(value, ModuleType) or hasattr(value, "__qualname__"):
            return str(getattr(value, "__name__", ""))
        if not _is_looked_at(value):
            return name_of(type(value))
        return [self.describe(type(value), depth), self._attributes(value, depth)]

    def _module(self, module: nn.Module, depth: int) -> list[Any]:
        """Return a module: layers, settings, buffers and frozen weights, and what its layers hold besides."""
        parts: list[Any] = [module_sha256(module)]
        for name, layer in module.named_modules():
            self._numbers.setdefault(id(layer), len(self._numbers))
            if not type(layer).__module__.startswith("torch."):
                parts += [name, self.describe(type(layer), depth), self._attributes(layer, depth)]
        return parts

    def layer(self, layer: nn.Module) -> dict[str, Any]:
        """Return what a layer holds besides parameters, buffers and other layers."""
        self._numbers.setdefault(id(layer), len(self._numbers))
        return self._attributes(layer, _DEPTH)

    def _attributes(self, value: Any, depth: int) -> dict[str, Any]:
        """Return attributes and slots of an object."""
        slots = [n for base in type(value).__mro__ for n in _names(getattr(base, "__slots__", ()))]
        held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        held |= getattr(value, "__dict__", {})
        return {n: self.describe(held[n], depth) for n in sorted(held) if n not in _OF_TORCH}

    def _class(self, kind: type, depth: int) -> list[Any]:
        """Return a class: its code, and of classes outside of libraries the attributes and what methods use."""
        parts: list[Any] = [name_of(kind), code_of(kind)]
        for base in kind.__mro__:
            if _is_own(base.__module__):
                members = vars(base).items()
                parts += [[n, self.describe(_inner(x), depth)] for n, x in members if _counts(n)]
        return parts

    def _function(self, function: FunctionType, depth: int) -> list[Any]:
        """Return a function: its code, defaults, attributes, what it closes over, and the globals it names."""
        parts: list[Any] = [name_of(function), code_sha256(function.__code__)]
        if not _is_own(function.__module__):
            return parts
        closed = []
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # a name that is not bound yet
                closed.append(cell.cell_contents)
        held = [function.__defaults__, function.__kwdefaults__, vars(function), closed]
        used = dict(_used_globals(function.__code__, function.__globals__))
        parts += [self.describe(value, depth) for value in held]
        return [*parts, {name: self.describe(used[name], depth) for name in sorted(used)}]


def _used_globals(code: CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the global values that code names, also as attributes of modules outside of libraries."""
    for name, attribute in _global_names(code):
        value = known.get(name)
        if not isinstance(value, ModuleType):
            yield name, value
        elif _is_own(value.__name__):
            yield f"{name}.{attribute}", getattr(value, attribute, None)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _used_globals(constant, known)


@functools.cache
def _global_names(code: CodeType) -> list[tuple[str, str]]:
    """Return the global names that code reads, each with what follows: the attribute of a module."""
    instructions = dis.get_instructions(code)
    return [
        (str(here.argval), str(following.argval))
        for here, following in pairwise(instructions)
        if here.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    ]


def _inner(value: Any) -> Any:
    """Return the function inside of a method or property of a class."""
    if isinstance(value, property):
        return value.fget
    return getattr(value, "__func__", getattr(value, "func", value))


def _counts(name: str) -> bool:
    """Return whether an attribute of a class can change what is computed."""
    return not name.startswith("__") or name in ("__call__", "__init__")


def _is_small(value: Tensor) -> bool:
    """Return whether a tensor can be hashed at every step."""
    return value.numel() <= 1 << 20


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_looked_at(value: Any) -> bool:
    """Return whether the attributes of an object count: of callables, and of objects outside of libraries."""
    is_plain = isinstance(value, SimpleNamespace | argparse.Namespace)
    return is_plain or callable(value) or _is_own(type(value).__module__)


@functools.cache
def _is_own(module: str) -> bool:
    """Return whether a module belongs to the user: no installed library, and no part of reldp."""
    if module.partition(".")[0] in (*sys.stdlib_module_names - {"__main__"}, "reldp"):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return True
    is_installed = not _LIBRARY_FOLDERS.isdisjoint(Path(file).parts)
    return not is_installed and not any(Path(file).is_relative_to(path) for path in _LIBRARIES)
