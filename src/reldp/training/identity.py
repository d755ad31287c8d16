"""Hashes of everything that a training step computes with: rows, public pool, module.

A resumed run draws the noise of its steps again, so it must compute the same sums again (theory.md
6). The hashes therefore cover the state in memory when training begins, not the description
from loading: a module whose pooling, normalization or frozen weights were changed since then is a
different module. So is one whose code was changed: the byte code of every class counts, and public
inputs are run through the encoder with public weights, which also reveals a change in a function that
it calls.

The hash of the rows is sensitive and belongs in sensitive.json; the others are public, because the
pool and the module before training are.

Public inside the package: `table_sha256`, `pool_sha256`, `encoder_sha256`, `module_sha256`,
`outputs_sha256`, `attention_of`, `stated_hash`.

>>> import torch
>>> one, two = torch.nn.Dropout(0.1), torch.nn.Dropout(0.2)
>>> module_sha256(one) == module_sha256(two)
False
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from reldp.encoders.folders import state_hash
from reldp.errors import ConfigError
from reldp.training.plain_values import CAPTURING, code_of, counts, digest_of, name_of, plain

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.graph import CappedGraph

__all__ = [
    "attention_of",
    "encoder_sha256",
    "module_sha256",
    "outputs_sha256",
    "pool_sha256",
    "stated_hash",
    "table_sha256",
]

# What torch keeps in every module: parameters, hooks and the mode, which are looked at apart.
_OF_TORCH = frozenset(vars(nn.Module()))
_NO_PART = frozenset({"source"})  # where weights were, not what they are
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def table_sha256(table: Any, capped: "CappedGraph") -> str:
    """Return the hash of the rows, relations, types, owners and protection that steps draw from."""
    drawn: dict[str, Any] = {"relations": capped.relations, "protected": capped.protected}
    if capped.relation_types is not None:
        drawn |= {"relation_types": capped.relation_types, "type_names": list(capped.type_names)}
    if capped.owners is not None:
        drawn["owners"] = capped.owners
    digest = hashlib.sha256(b"reldp table 1\n")
    for name, value in sorted({**_contents(table), **drawn}.items()):
        digest.update(f"{name}\0".encode())
        digest.update(digest_of(value))
    return digest.hexdigest()


def stated_hash(table: Any, name: str) -> Any:
    """Return a hash that a table of reldp states of itself, if it does; tables of others are not asked."""
    return getattr(table, name, None) if type(table).__module__.startswith("reldp.") else None


def _contents(table: Any) -> dict[str, Any]:
    """Return an array, or all attributes of a table; refuse one that cannot be hashed to the last bit."""
    if isinstance(table, np.ndarray | Tensor):
        return {"table": table}
    content = stated_hash(table, "content_sha256")
    if isinstance(content, str):
        # Files that are checked when they are read: the hash stands for what is in them.
        return {"content_sha256": content}
    names = [n for base in type(table).__mro__ for n in getattr(base, "__slots__", ())]
    attributes = {name: getattr(table, name) for name in names if hasattr(table, name)}
    attributes |= getattr(table, "__dict__", {})
    unknown = sorted(name for name, value in attributes.items() if not _is_hashable(value))
    if unknown or not attributes:
        raise ConfigError(
            "`encoder` must make tables of arrays, tensors, numbers and texts, got "
            f"{unknown[0] if unknown else type(table).__name__!r}. Their content is hashed, so that "
            "a resumed run is known to use the same."
        )
    return attributes


def _is_hashable(value: Any) -> bool:
    """Return whether `digest_of` covers all of a value."""
    if isinstance(value, Mapping):
        return all(map(_is_hashable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_hashable, value))
    known = bool | int | float | str | Tensor | np.ndarray | np.generic | torch.dtype
    return value is None or isinstance(value, known)


def pool_sha256(pool: Any) -> str | None:
    """Return the hash of a public pool: another graph, texts or features."""
    if pool is None:
        return None
    fingerprint = getattr(pool, "fingerprint", None)
    if isinstance(fingerprint, str):
        return fingerprint
    if isinstance(pool, Sequence) and not isinstance(pool, str):
        return hashlib.sha256(json.dumps([str(text) for text in pool]).encode()).hexdigest()
    return digest_of(np.asarray(pool)).hex()


def encoder_sha256(encoder: "Encoder") -> str:
    """Return the hash of what an encoder computes, apart from the weights that training changes."""
    settings = {
        name: plain(value)
        for name, value in vars(encoder).items()
        if name not in _NO_PART
        and (value is None or isinstance(value, bool | int | float | str | Mapping | list | tuple))
    }
    hashes = [module_sha256(module) for module in _modules_of(encoder)]
    kind = [name_of(type(encoder)), code_of(type(encoder))]
    text = json.dumps([kind, settings, hashes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def module_sha256(module: nn.Module) -> str:
    """Return the hash of what a module computes, apart from the weights that training changes.

    Covers the class, its code and every plain attribute of every submodule, its forward hooks, names and
    shapes of the trained parameters, and the values of all frozen parameters and buffers. The mode
    is left out, because the trainer sets it.
    """
    digest = hashlib.sha256(b"reldp module 1\n")
    known: dict[int, str] = {}  # by identity: the submodules of a model share its configuration
    for name, child in module.named_modules():
        kind = [name_of(type(child)), code_of(type(child))]
        parts = [name, kind, _attributes(child, known), _hooks(child)]
        digest.update(json.dumps(parts, sort_keys=True).encode())
    values: dict[str, Tensor] = dict(module.named_buffers())
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            digest.update(f"{name}\0{tuple(parameter.shape)}\0{parameter.dtype}\0".encode())
        else:
            values[name] = parameter
    digest.update(state_hash(values).encode())
    return digest.hexdigest()


def outputs_sha256(encoder: "Encoder") -> str:
    """Return the hash of an encoder's embeddings of public inputs, with public weights.

    The weights are put back. The bits are those of this machine.
    """
    parameters = encoder.trainable()
    original = {name: value.detach().clone() for name, value in parameters.items()}
    try:
        with torch.no_grad():
            for value in parameters.values():
                steps = torch.arange(value.numel(), dtype=torch.float32, device=value.device)
                value.copy_(0.1 * steps.sin_().view(value.shape))
        return digest_of(encoder.public_embeddings()).hex()
    finally:
        encoder.load_trainable(original)


def attention_of(encoder: "Encoder") -> str | None:
    """Return the attention implementations of a transformers model; None without one."""
    children = (child for module in _modules_of(encoder) for child in module.modules())
    configs = (getattr(child, "config", None) for child in children)
    names = {getattr(config, "_attn_implementation", None) for config in configs}
    return ", ".join(sorted(map(str, names - {None}))) or None


def _modules_of(encoder: "Encoder") -> list[nn.Module]:
    """Return each torch module of an encoder once: a head has a frozen model beside its module."""
    modules = {id(value): value for value in vars(encoder).values() if isinstance(value, nn.Module)}
    return list(modules.values())


def _attributes(child: nn.Module, known: dict[int, str]) -> dict[str, Any]:
    """Return the attributes that a module adds to those of `nn.Module`, as plain values."""
    added = {name: value for name, value in vars(child).items() if name not in _OF_TORCH}
    config = added.pop("config", None)
    values = {name: plain(value) for name, value in added.items() if counts(name)}
    if config is None:
        return values
    text = known.setdefault(id(config), known.get(id(config)) or _config_text(config))
    return {**values, "config": text}


def _hooks(child: nn.Module) -> list[Any]:
    """Return the hooks that change a module's inputs or outputs."""
    hooks = [hook for kind in _HOOKS for hook in vars(child)[kind].values()]
    idle = ("reldp.gradients.", f"{CAPTURING}.")
    return [plain(hook) for hook in hooks if not name_of(hook).startswith(idle)]


def _config_text(config: Any) -> str:
    """Return a transformers configuration as text."""
    values = config.to_dict() if hasattr(config, "to_dict") else vars(config)
    return json.dumps(plain(values), sort_keys=True)
