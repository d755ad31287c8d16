"""Hashes of everything that a training step computes with: rows, public pool, module.

A resumed run draws the noise of its steps again, so it must compute the same sums again (theory.md
section 6). What a step computes with is therefore hashed as it is in memory when training begins,
not as it was described when it was loaded: a module whose pooling, normalization or frozen weights
were changed since then is another module.

The hash of the rows is sensitive and belongs in private.json; the others are public, because the
pool and the module before training are.

Public inside the package: `table_sha256`, `pool_sha256`, `encoder_sha256`, `module_sha256`,
`attention_of`.

>>> import torch
>>> one, two = torch.nn.Dropout(0.1), torch.nn.Dropout(0.2)
>>> module_sha256(one) == module_sha256(two)
False
"""

import enum
import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from reldp.encoders.folders import state_hash

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph

__all__ = ["attention_of", "encoder_sha256", "module_sha256", "pool_sha256", "table_sha256"]

# What torch keeps in every module: parameters, hooks and the mode, which are looked at apart.
_OF_TORCH = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
# Names of places and versions, which do not change what is computed, and the attention
# implementation, which changes the bits only.
_NOT_COMPUTED = frozenset({"transformers_version", "_commit_hash", "_hash", "_is_hf_initialized"})
_PLACES = ("name_or_path", "attn_implementation")
_DEPTH = 6


def table_sha256(table: Any, capped: "CappedGraph") -> str:
    """Return the hash of the rows, relations and protected entities that steps draw from."""
    arrays = {"relations": capped.relations, "protected": capped.protected}
    digest = hashlib.sha256(b"reldp table 1\n")
    for name, value in sorted({**vars(table), **arrays}.items()):
        digest.update(f"{name}\0".encode())
        digest.update(_digest_of(value))
    return digest.hexdigest()


def pool_sha256(pool: Any) -> str | None:
    """Return the hash of a public pool: another graph, texts or features."""
    if pool is None:
        return None
    found = getattr(pool, "fingerprint", None)
    if isinstance(found, str):
        return found
    if isinstance(pool, Sequence) and not isinstance(pool, str):
        return hashlib.sha256(json.dumps([str(text) for text in pool]).encode()).hexdigest()
    return _digest_of(np.asarray(pool)).hex()


def encoder_sha256(encoder: "Encoder") -> str:
    """Return the hash of what an encoder computes, apart from the weights that training changes."""
    plain = {
        name: _plain(value, _DEPTH)
        for name, value in vars(encoder).items()
        if value is None or isinstance(value, bool | int | float | str | Mapping | list | tuple)
    }
    hashes = [module_sha256(module) for module in _modules_of(encoder)]
    text = json.dumps([_name_of(type(encoder)), plain, hashes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def module_sha256(module: nn.Module) -> str:
    """Return the hash of what a module computes, apart from the weights that training changes.

    Covers the class and every plain attribute of every submodule, its forward hooks, names and
    shapes of the trained parameters, and the values of all frozen parameters and buffers. The mode
    is left out, because the trainer sets it.
    """
    digest = hashlib.sha256(b"reldp module 1\n")
    known: dict[int, str] = {}  # by identity: the submodules of a model share its configuration
    for name, child in module.named_modules():
        parts = [name, _name_of(type(child)), _attributes(child, known), _hooks(child)]
        digest.update(json.dumps(parts, sort_keys=True).encode())
    values: dict[str, Tensor] = dict(module.named_buffers())
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            digest.update(f"{name}\0{tuple(parameter.shape)}\0{parameter.dtype}\0".encode())
        else:
            values[name] = parameter
    digest.update(state_hash(values).encode())
    return digest.hexdigest()


def attention_of(encoder: "Encoder") -> str | None:
    """Return the attention implementations of a transformers model; None where there is none."""
    children = (child for module in _modules_of(encoder) for child in module.modules())
    configs = (getattr(child, "config", None) for child in children)
    found = {getattr(config, "_attn_implementation", None) for config in configs}
    return ", ".join(sorted(map(str, found - {None}))) or None


def _modules_of(encoder: "Encoder") -> list[nn.Module]:
    """Every torch module of an encoder, once: a head's frozen model is beside its own module."""
    own = {id(value): value for value in vars(encoder).values() if isinstance(value, nn.Module)}
    return list(own.values())


def _attributes(child: nn.Module, known: dict[int, str]) -> dict[str, Any]:
    """A module's own attributes as plain values."""
    own = {name: value for name, value in vars(child).items() if name not in _OF_TORCH}
    config = own.pop("config", None)
    plain = {name: _plain(value, _DEPTH) for name, value in own.items() if _counts(name)}
    if config is None:
        return plain
    text = known.setdefault(id(config), known.get(id(config)) or _config_text(config))
    return {**plain, "config": text}


def _hooks(child: nn.Module) -> list[str]:
    """Names of the functions that change what a module is given or gives."""
    found = [hook for kind in _HOOKS for hook in vars(child)[kind].values()]
    names = [_name_of(hook) for hook in found]
    return [name for name in names if not name.startswith("reldp.gradients.")]


def _config_text(config: Any) -> str:
    """A transformers configuration as text."""
    values = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    return json.dumps(_plain(values, _DEPTH), sort_keys=True)


def _plain(value: Any, depth: int) -> Any:
    """A value as JSON: numbers and texts as they are, objects by their class and attributes."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _digest_of(value).hex()
    if isinstance(value, torch.dtype | enum.Enum):
        return str(value)
    if isinstance(value, nn.Module | torch.device) or depth == 0:
        return type(value).__name__
    return _container(value, depth - 1)


def _container(value: Any, depth: int) -> Any:
    """A collection, a function or an object as JSON."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v, depth) for k, v in value.items() if _counts(str(k))}
    if isinstance(value, list | tuple):
        return [_plain(item, depth) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(json.dumps(_plain(item, depth), sort_keys=True) for item in value)
    if isinstance(value, functools.partial):
        return [_name_of(value.func), _plain(value.args, depth), _plain(value.keywords, depth)]
    if callable(value):
        return _name_of(value)
    return [_name_of(type(value)), dict(_own_attributes(value, depth))]


def _own_attributes(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    for name, item in getattr(value, "__dict__", {}).items():
        if _counts(name):
            yield name, _plain(item, depth)


def _counts(name: str) -> bool:
    """Whether an attribute of this name can change what is computed."""
    return name not in _NOT_COMPUTED and not any(place in name for place in _PLACES)


def _name_of(value: Any) -> str:
    """Where a class or function comes from."""
    inner = value.func if isinstance(value, functools.partial) else value
    kind = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{kind.__module__}.{kind.__qualname__}"


def _digest_of(value: Any) -> bytes:
    """The hash of an array, a tensor or a plain value."""
    if isinstance(value, Tensor):
        return bytes.fromhex(state_hash({"": value}))
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        digest = hashlib.sha256(f"{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.digest()
    return hashlib.sha256(json.dumps(_plain(value, _DEPTH), sort_keys=True).encode()).digest()
