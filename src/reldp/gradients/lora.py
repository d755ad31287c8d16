"""PEFT's LoRA linear layer as one fused node, where that is exactly what the layer computes.

The fused node is used when one adapter is active, nothing is merged or disabled, dropout does
nothing, no adapter variant (DoRA and the like) is in play and the base layer is a frozen linear.
In every other case the layer runs as PEFT wrote it, over the sites of its own linear layers. PEFT
itself is never imported. Private to the package.

>>> is_lora_linear(nn.Linear(2, 2))
False
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from reldp.gradients.linear import lora_linear
from reldp.gradients.sites import FrozenLinearSite, Site, autocast_dtype

__all__ = ["LoraSite", "adapter_name", "is_lora_linear", "lora_names"]


def is_lora_linear(module: nn.Module) -> bool:
    """Whether this is PEFT's LoRA wrapper of a plain linear layer."""
    kind = type(module)
    if not (kind.__module__ == "peft.tuners.lora.layer" and kind.__name__ == "Linear"):
        return False
    base = getattr(module, "base_layer", None)
    frozen = base is not None and not any(p.requires_grad for p in base.parameters())
    return frozen and type(base) is nn.Linear and not getattr(module, "fan_in_fan_out", False)


def adapter_name(module: Any) -> str | None:
    """Return the one active adapter if the layer is plain LoRA at this moment, else None."""
    active = [name for name in module.active_adapters if name in module.lora_A]
    if len(active) != 1 or module.merged or module.disable_adapters:
        return None
    name = str(active[0])
    if name in getattr(module, "lora_variant", {}):
        return None
    dropout = module.lora_dropout[name]
    quiet = isinstance(dropout, nn.Identity) or not dropout.training or dropout.p == 0.0
    plain = type(module.lora_A[name]) is nn.Linear and type(module.lora_B[name]) is nn.Linear
    biased = module.lora_A[name].bias is not None or module.lora_B[name].bias is not None
    return name if quiet and plain and not biased else None


class LoraSite(Site):
    """Site that runs base layer and adapter together; per-unit gradients of both matrices go to probes."""

    def __init__(self, module: nn.Module, names: Mapping[str, str]) -> None:
        super().__init__(module, names)
        self.base = FrozenLinearSite(module.get_submodule("base_layer"))

    def __call__(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Compute x W^T + b + s (x A^T) B^T."""
        layer: Any = self.module
        name = None if args or kwargs else adapter_name(layer)
        keys = [self.names.get(f"lora_{side}.{name}.weight") for side in "AB"]
        if name is None or None in keys:
            result: Tensor = self.original(x, *args, **kwargs)
            return result
        self.recorder.check_rows(str(keys[0]), x)
        a, b = layer.lora_A[name].weight.detach(), layer.lora_B[name].weight.detach()
        dtype = autocast_dtype(x)
        weight, bias = self.base.weights(dtype)
        if dtype is None and x.dtype == weight.dtype != a.dtype:
            dtype = x.dtype  # a low-precision layer: its adapter computes as under autocast
        if dtype is not None:
            x, a, b = x.to(dtype), a.to(dtype), b.to(dtype)
        a_probe, b_probe = (self.recorder.probe(str(key)) for key in keys)
        scaling = float(layer.scaling[name])
        units, apart = self.recorder.units, self.recorder.apart
        return lora_linear(x, weight, bias, a, b, a_probe, b_probe, scaling, units, apart)


def lora_names(module: nn.Module, known: Mapping[int, str]) -> dict[str, str]:
    """Return the engine's names of the adapter matrices below a LoRA layer, by their local names."""
    return {
        local: known[id(parameter)]
        for local, parameter in module.named_parameters(remove_duplicate=False)
        if id(parameter) in known
    }
