"""Finds the layer that each trainable parameter lives in, or refuses the parameter by name.

Guarantee: every trainable parameter of the module ends up with at least one site, so none is ever
left out of norm or update; what no site can handle is an error before the first step
(`reldp.gradients.refusals`). Parameters that another module reads, as in a parameter list or in a
parametrization, count as that module's. Frozen parameters are not looked at, except that BatchNorm is
refused while it trains: it mixes units. Private to the package.

>>> linear = find_sites(nn.Linear(200, 100), Limits(direct_rank=64))
>>> sorted(linear.ghost_names), [type(site).__name__ for site in linear.sites]
(['weight'], ['LinearSite'])
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from reldp.errors import UnsupportedParameter
from reldp.gradients.fallback import FallbackSite
from reldp.gradients.lora import LoraSite, is_lora_linear, lora_names
from reldp.gradients.refusals import refuse_layer, refuse_parameter
from reldp.gradients.sites import (
    EmbeddingSite,
    FrozenLinearSite,
    LayerNormSite,
    LinearSite,
    RelativeBiasSite,
    RmsNormSite,
    Site,
)

__all__ = ["Limits", "Sites", "find_sites"]

# Classes of transformers whose forward is weight * x / sqrt(mean(x^2) + variance_epsilon).
_RMS_NORMS = frozenset({"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm"})

# Holders of parameters that a module above them reads: a site there would never be called.
_HOLDERS = (nn.ParameterList, nn.ParameterDict, nn.ModuleList, nn.ModuleDict)
_PARAMETRIZATIONS = "parametrizations"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes that decide how a parameter's gradients are taken; none changes the result.

    Attributes:
        direct_rank: A linear weight whose smaller side is at most this is taken directly.
        direct_size: And whose number of elements is at most this.
        direct_table: Largest embedding table that is taken directly.
        fallback_size: Most trainable elements of a module that is run under vmap.
        fuse_lora: Whether PEFT's LoRA layers run as one fused node.
        cast_frozen: Whether frozen weights are cast to autocast's type once and held.
    """

    direct_rank: int = 64
    direct_size: int = 1 << 19
    direct_table: int = 1 << 14
    fallback_size: int = 1 << 20
    fuse_lora: bool = True
    cast_frozen: bool = True


@dataclass(frozen=True, eq=False)
class Sites:
    """Sites of a module, in the order they are installed, and names of its ghost parameters."""

    sites: list[Site]
    ghost_names: frozenset[str]


def find_sites(root: nn.Module, limits: Limits) -> Sites:
    """Sites for every trainable parameter below the module.

    A module with a true ``runs_by_unit`` is run under vmap as a whole, whatever its layers are.
    """
    known = {id(p): name for name, p in root.named_parameters() if p.requires_grad}
    modules = dict(root.named_modules())
    plain: dict[str, tuple[nn.Module, dict[str, str], str]] = {}
    odd: dict[str, nn.Module] = {}
    for path, module in modules.items():
        local = _trainable(module, known)
        if getattr(module, "runs_by_unit", False):
            odd[path] = module
        elif local:
            kind, owner = _kind(module, local), _owner(path, modules)
            if kind == "other" or owner != path:
                refuse_layer(modules[owner], next(iter(local.values())))
                odd[owner] = modules[owner]
            else:
                plain[path] = (module, local, kind)
    for name, parameter in root.named_parameters():
        if parameter.requires_grad:
            refuse_parameter(parameter, name)
    roots = [(p, m) for p, m in odd.items() if not any(_below(p, q) for q in odd if q != p)]
    plain = {p: v for p, v in plain.items() if not any(_below(p, q) for q, _ in roots)}
    sites: list[Site] = [_fallback(module, known, limits) for _, module in roots]
    ghost_names = _ghost_names(plain, sites, limits, root)
    sites += [_site(*value, ghost_names) for value in plain.values()]
    free = [m for p, m in root.named_modules() if not any(_below(p, q) for q, _ in roots)]
    sites += list(_wrappers(free, known, sites, limits))
    if limits.cast_frozen:
        sites += list(_frozen(free))
    return Sites(sites, ghost_names)


def _below(path: str, ancestor: str) -> bool:
    """Whether a module path lies at or below another."""
    return ancestor == "" or path == ancestor or path.startswith(ancestor + ".")


def _trainable(module: nn.Module, known: dict[int, str]) -> dict[str, str]:
    """Return the trainable parameters of the module itself: local name -> engine's name."""
    layer_parameters = module.named_parameters(recurse=False, remove_duplicate=False)
    return {local: known[id(p)] for local, p in layer_parameters if id(p) in known}


def _kind(module: Any, local: dict[str, str]) -> str:
    """Which site can run this module; "other" if none is made for it."""
    kind = type(module)
    if "forward" in module.__dict__ or not set(local) <= {"weight", "bias"}:
        return "other"
    if kind.forward is nn.Linear.forward and _owns_weight(module):
        return "linear"
    if kind is nn.LayerNorm:
        return "layer_norm"
    if kind is nn.RMSNorm and len(module.normalized_shape) == 1:
        return "rms_norm"
    if kind.__name__ in _RMS_NORMS and kind.__module__.startswith("transformers."):
        return "rms_norm"
    if kind is nn.Embedding:
        odd = module.max_norm is not None or module.scale_grad_by_freq or module.sparse
        return "other" if odd else "embedding"
    return "other"


def _owns_weight(module: nn.Module) -> bool:
    """Whether the weight is a parameter, not computed from others (as weight norm does)."""
    return isinstance(module._parameters.get("weight"), nn.Parameter)


def _owner(path: str, modules: Mapping[str, nn.Module]) -> str:
    """Return the path of the module whose forward reads the parameters at a path."""
    parts = path.split(".") if path else []
    if _PARAMETRIZATIONS in parts:
        parts = parts[: parts.index(_PARAMETRIZATIONS)]
    while parts and isinstance(modules[".".join(parts)], _HOLDERS):
        parts = parts[:-1]
    above = ".".join(parts[:-1])
    # Attention reads the weight of its output projection itself.
    return above if isinstance(modules[above], nn.MultiheadAttention) else ".".join(parts)


def _fallback(module: nn.Module, known: dict[int, str], limits: Limits) -> FallbackSite:
    """Return a site that runs the module under vmap, if it is small."""
    names = {
        local: known[id(p)]
        for local, p in module.named_parameters(remove_duplicate=False)
        if id(p) in known
    }
    size = sum(p.numel() for p in module.parameters() if id(p) in known)
    if size > limits.fallback_size:
        raise UnsupportedParameter(
            f"`{next(iter(names.values()))}` must be in a supported layer, got "
            f"{type(module).__name__} with {size} trainable elements. Layers of an unknown kind "
            f"may have at most {limits.fallback_size}: move parameters that are not in a layer into a "
            "small module of their own, or freeze it."
        )
    return FallbackSite(module, names)


def _ghost_names(
    plain: dict[str, tuple[nn.Module, dict[str, str], str]],
    fallbacks: list[Site],
    limits: Limits,
    root: nn.Module,
) -> frozenset[str]:
    """Return the names of the weights whose uses are recorded: large, and used by one kind of layer only."""
    uses: dict[str, set[str]] = {}
    for _, local, kind in plain.values():
        if "weight" in local:
            uses.setdefault(local["weight"], set()).add(kind)
    for site in fallbacks:
        for name in site.names.values():
            uses.setdefault(name, set()).add("other")
    ghost_names = set()
    for name, kinds in uses.items():
        weight = root.get_parameter(name)
        large = _is_large(weight.shape, kinds, limits)
        if large and len(kinds) > 1:
            raise UnsupportedParameter(
                f"`{name}` must be used by one kind of layer, got {' and '.join(sorted(kinds))}. "
                "Tied weights have no gradient per unit here; untie or freeze them."
            )
        if large and kinds != {"other"}:
            ghost_names.add(name)
    return frozenset(ghost_names)


def _is_large(shape: tuple[int, ...], kinds: set[str], limits: Limits) -> bool:
    """Whether one copy of this weight per unit would be too much."""
    if len(shape) != 2:
        return False
    size = shape[0] * shape[1]
    if "embedding" in kinds:
        return size > limits.direct_table
    return min(shape) > limits.direct_rank or size > limits.direct_size


def _site(module: nn.Module, local: dict[str, str], kind: str, ghost_names: frozenset[str]) -> Site:
    """Return the site made for this kind of module."""
    keep = local.get("weight") in ghost_names
    if kind == "linear":
        return LinearSite(module, local, keep_weight=keep)
    if kind == "embedding":
        return EmbeddingSite(module, local, keep_weight=keep)
    return LayerNormSite(module, local) if kind == "layer_norm" else RmsNormSite(module, local)


def _wrappers(
    modules: list[nn.Module], known: dict[int, str], sites: list[Site], limits: Limits
) -> Iterator[Site]:
    """Sites of modules that hold others: fused LoRA layers, MPNet's relative bias."""
    tables = {id(site.module): site for site in sites if isinstance(site, EmbeddingSite)}
    for module in modules:
        if limits.fuse_lora and is_lora_linear(module) and "forward" not in module.__dict__:
            names = lora_names(module, known)
            if names:
                yield LoraSite(module, names)
        if type(module).__name__ == "MPNetEncoder" and _has_plain_bias(module):
            yield RelativeBiasSite(module, tables.get(id(module.relative_attention_bias)))


def _has_plain_bias(module: nn.Module) -> bool:
    """Whether an MPNet encoder has the table and the methods that `RelativeBiasSite` stands in for."""
    table = getattr(module, "relative_attention_bias", None)
    methods = "compute_position_bias", "relative_position_bucket"
    is_replaced = any(name in module.__dict__ for name in methods)
    return type(table) is nn.Embedding and "forward" not in table.__dict__ and not is_replaced


def _frozen(modules: list[nn.Module]) -> Iterator[Site]:
    """Sites of frozen plain linear layers."""
    for module in modules:
        plain = type(module) is nn.Linear and "forward" not in module.__dict__
        layer_parameters = module.parameters(recurse=False)
        if plain and _owns_weight(module) and not any(p.requires_grad for p in layer_parameters):
            yield FrozenLinearSite(module)
