"""Any Python value as plain JSON, so that values which compute different results differ.

Numbers and texts stay as they are, arrays become hashes, functions and classes their name and the
hash of their byte code, other objects their class and attributes. The JSON contains no address in
memory, so equal values give equal JSON in every process.

Public inside the package: `plain`, `digest_of`, `name_of`, `code_of`,
`code_sha256`, `counts`.

>>> plain({"b": (1, 2.5), "a": None})
{'b': [1, '2.5'], 'a': None}
>>> plain(lambda x: x + 1) == plain(lambda x: x + 2)
False
"""

import enum
import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import CodeType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reldp.encoders.folders import state_hash

__all__ = ["code_of", "code_sha256", "counts", "digest_of", "name_of", "plain"]

# transformers adds hooks that are idle otherwise to a model whose hidden states somebody asks for.
CAPTURES, CAPTURING = "_output_capturing_hooks_installed", "transformers.utils.output_capturing"
# Paths and versions do not change what is computed; the attention implementation changes bits only.
_NOT_COMPUTED = frozenset(
    {"transformers_version", "_commit_hash", "_hash", "_is_hf_initialized", CAPTURES}
)
_PLACES = ("name_or_path", "attn_implementation")
# transformers caches on the class whether a model can switch its attention implementation, once
# somebody has asked: it depends on the history of the process.
_CACHES = "_cached_value"
# What Python itself adds to a class: `copyreg` when an object of it is copied, and others when annotations are read.
_ADDED = frozenset({"__slotnames__", "__annotations_cache__"})
_CONSTANTS = (bool, int, float, str, tuple)
_DEPTH = 6


def plain(value: Any, depth: int = _DEPTH) -> Any:
    """Return a value as JSON; beyond `depth` levels, only the name of its class."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return digest_of(value).hex()
    if isinstance(value, torch.dtype | enum.Enum):
        return str(value)
    if isinstance(value, nn.Module | torch.device) or depth == 0:
        return type(value).__name__
    return _container(value, depth - 1)


def digest_of(value: Any) -> bytes:
    """Return the hash of an array, a tensor or any other value."""
    if isinstance(value, Tensor):
        return bytes.fromhex(state_hash({"": value}))
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject:  # whose bytes are addresses
            return digest_of([str(array.dtype), array.shape, array.tolist()])
        digest = hashlib.sha256(f"{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.digest()
    return hashlib.sha256(json.dumps(plain(value), sort_keys=True).encode()).digest()


def name_of(value: Any) -> str:
    """Return where a class or function comes from."""
    inner = value.func if isinstance(value, functools.partial) else value
    kind = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{kind.__module__}.{kind.__qualname__}"


def counts(name: str) -> bool:
    """Return whether an attribute of this name can change what is computed."""
    return name not in _NOT_COMPUTED and not any(place in name for place in _PLACES)


def code_of(kind: type) -> str:
    """Return the hash of a class's methods and constants, inherited ones included."""
    digest = hashlib.sha256()
    for base in kind.__mro__:
        if base in (object, nn.Module):
            break
        for name, value in sorted(vars(base).items()):
            # Annotations of a class without any are made when somebody looks for them.
            is_empty = name == "__annotations__" and not value
            if name.endswith(_CACHES) or name in _ADDED or is_empty:
                continue
            digest.update(f"{base.__qualname__}.{name}\0".encode())
            for function in _functions(value):
                digest.update(_code_bytes(function.__code__))
            if isinstance(value, _CONSTANTS) and not name.startswith("__"):
                digest.update(json.dumps(plain(value), sort_keys=True).encode())
    return digest.hexdigest()


def code_sha256(code: CodeType) -> str:
    """Return the hash of byte code, with names and constants, without line numbers."""
    return hashlib.sha256(_code_bytes(code)).hexdigest()


def _container(value: Any, depth: int) -> Any:
    """Return a collection, a function or an object as JSON."""
    if isinstance(value, Mapping):
        return {str(k): plain(v, depth) for k, v in value.items() if counts(str(k))}
    if isinstance(value, list | tuple):
        return [plain(item, depth) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(plain(item, depth), sort_keys=True) for item in value)
    if isinstance(value, functools.partial):
        return [
            _function(value.func, depth),
            plain(value.args, depth),
            plain(value.keywords, depth),
        ]
    if isinstance(value, type):
        return [name_of(value), code_of(value)]
    if callable(value):
        return _function(value, depth)
    return [name_of(type(value)), dict(_attributes(value, depth))]


def _attributes(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    for name, item in getattr(value, "__dict__", {}).items():
        if counts(name):
            yield name, plain(item, depth)


def _function(value: Callable[..., Any], depth: int) -> list[Any]:
    """Return a function's name, code, defaults and the values that it closes over."""
    parts: list[Any] = [name_of(value)]
    for function in _functions(value):
        values = [function.__defaults__, function.__kwdefaults__, list(_closed_over(function))]
        parts.append([code_sha256(function.__code__), plain(values, depth)])
    return parts


def _closed_over(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a name that is not bound yet
            yield cell.cell_contents


def _functions(value: Any) -> Iterator[Any]:
    """Yield the functions with byte code behind an attribute: methods, properties, wrappers."""
    if isinstance(value, property):
        inner: tuple[Any, ...] = (value.fget,)
    elif isinstance(value, classmethod | staticmethod | functools.cached_property):
        inner = (getattr(value, "__func__", None) or getattr(value, "func", None),)
    else:
        inner = (value, getattr(value, "__wrapped__", None))
    for function in inner:
        if isinstance(getattr(function, "__code__", None), CodeType):
            yield function


@functools.lru_cache(maxsize=1 << 14)  # steps ask again and again, and code objects never change
def _code_bytes(code: CodeType) -> bytes:
    """Return instructions, names and constants as bytes, but no line numbers."""
    parts = [code.co_code, repr(code.co_names).encode()]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            parts.append(_code_bytes(constant))
        elif isinstance(constant, frozenset):
            parts.append(repr(sorted(map(repr, constant))).encode())
        else:
            parts.append(repr(constant).encode())
    return b"".join(parts)
