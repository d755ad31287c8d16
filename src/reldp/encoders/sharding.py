"""Frozen weights of a text model, sharded over the processes that torchrun started; activation checkpointing.

With FSDP2 (``fully_shard``) each process holds a part of every frozen weight, and a layer's weights are gathered where
they are needed, in the forward and again in the backward pass. Trained weights, the adapters, are whole in every
process: their gradients per clip unit are computed as ever. What is computed does not change.

Every process must run equally many forward and backward passes, which `reldp.training.distributed` sees to.

Public inside the package: `shard_weights`, `checkpoint_activations`, `is_sharded`, `is_split`, `WholeModule`.

>>> is_sharded(nn.Linear(2, 2))
False
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn

from reldp.encoders.adaptation import transformer_layers
from reldp.encoders.saving import base_model
from reldp.errors import ConfigError
from reldp.processes import new_uncounted_group

if TYPE_CHECKING:
    from reldp.encoders.encoder import Encoder
    from reldp.processes import Processes

__all__ = [
    "WholeModule",
    "checkpoint_activations",
    "is_sharded",
    "is_split",
    "shard_weights",
]


def shard_weights(encoder: "Encoder", processes: "Processes", device: str) -> None:
    """Shard the frozen weights of a text encoder; layers move to the device one by one.

    Args:
        encoder: The encoder, changed in place; whole in the memory of every process.
        processes: The processes.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        ConfigError: The encoder is no text model with adapters, is sharded, or there is one process.
    """
    model = _model(encoder, "shard_weights")
    if processes.is_alone:
        raise ConfigError(
            "`shard_weights` must be used with several processes, got one. Start the program with torchrun."
        )
    layers = transformer_layers(model)[1]
    trained = {p for p in model.parameters() if p.requires_grad}
    inside = {id(p) for p in layers.parameters()}
    if any(id(p) not in inside or p.dim() != 2 for p in trained) or _trains_base(model):
        raise ConfigError(
            "`shard_weights` must be used with train lora, got other trained weights. Full fine-tuning of sharded "
            "models is not supported."
        )
    if is_sharded(model):
        raise ConfigError(
            "`encoder` must be whole before it is sharded, got a sharded one. Load it again."
        )
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    # A group of its own: messages of any other kind have no place in a forward pass.
    mesh = DeviceMesh.from_group(new_uncounted_group(), device)
    settings: Any = {"mesh": mesh, "reshard_after_forward": True, "ignored_params": trained}
    for layer in layers:
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    encoder.to(device)


def is_sharded(module: nn.Module) -> bool:
    """Return whether weights of a module are sharded."""
    return any(map(is_split, module.parameters()))


class WholeModule:
    """A module as it was before its weights were sharded or its layers wrapped; `restore` brings it back.

    The frozen weights stay in the memory of the machine for it, once per process.
    """

    def __init__(self, module: nn.Module | None) -> None:
        """Take note of classes, hooks and frozen weights; of nothing without a module."""
        self._parts = [
            (
                child,
                type(child),
                {k: copy(v) if isinstance(v, dict) else v for k, v in vars(child).items()},
                {
                    n: p.detach()
                    for n, p in child.named_parameters(recurse=False)
                    if not p.requires_grad
                },
            )
            for child in ([] if module is None else module.modules())
        ]

    @property
    def is_changed(self) -> bool:
        """Whether there is something to undo."""
        return bool(self._parts)

    def restore(self) -> None:
        """Undo everything, once. Sharded weights are then whole, in the memory that they were loaded to."""
        for child, kind, attributes, frozen in self._parts:
            present = dict(child._parameters)
            child.__class__ = kind
            child.__dict__.clear()
            child.__dict__.update(attributes)
            child._parameters.update(
                (name, nn.Parameter(frozen[name], requires_grad=False) if is_split(p) else p)
                for name, p in present.items()
            )
        self._parts = []


def is_split(parameter: Any) -> bool:
    """Return whether this process holds only a part of a tensor."""
    return hasattr(parameter, "full_tensor")


def checkpoint_activations(
    encoder: "Encoder", context: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> None:
    """Let every layer of a text model compute its activations again in the backward pass, to save memory.

    Args:
        encoder: The encoder, changed in place.
        context: Makes the context of the second forward pass, which must compute what the first did.
    """
    from torch.utils.checkpoint import checkpoint

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), context()

    settings: Any = {"use_reentrant": False, "preserve_rng_state": False, "context_fn": contexts}
    for layer in transformer_layers(_model(encoder, "checkpoint_activations"))[1]:
        if "forward" not in vars(layer):
            layer.forward = partial(checkpoint, layer.forward, **settings)


def _model(encoder: Any, setting: str) -> nn.Module:
    """Return the transformers model of a text encoder."""
    text = getattr(encoder, "_text", None)
    if text is None or encoder.module is not text:
        raise ConfigError(
            f"`{setting}` must be used with a text model that is trained in its layers, got "
            f"{type(encoder).__name__}."
        )
    return base_model(text.backbone)


def _trains_base(model: nn.Module) -> bool:
    """Return whether weights other than adapters are trained."""
    return any(p.requires_grad and ".lora_" not in name for name, p in model.named_parameters())
