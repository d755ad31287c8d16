"""Directions in which a public graph's relations would move an encoder: bases for its adapters.

An adapter adds ``B A`` to a linear layer. Its A is random at first, so most of what B can learn through it is
not what the relations ask for, while every coordinate gets the same noise. Public relations of another
kind show which inputs of a layer matter: the eigenvectors of ``sum |d|^2 x x^T`` over tokens, where x is the
layer's input and d the gradient of its output. Public texts alone give those of ``sum x x^T``. Both cost no privacy.

`ProjectedAdam` keeps the part of a noisy gradient that lies in such a basis: post-processing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import reldp

KINDS = ("orthogonal", "activations", "gradients")
_BATCHES, _BATCH, _TEMPERATURE = 24, 128, 0.05
_ROW_NORM = 3**-0.5  # of a random A, in the mean

Bases = dict[str, tuple[Tensor, Tensor]]


def adapters(module: nn.Module) -> dict[str, Any]:
    """Return the layers with adapters by name."""
    return {name: layer for name, layer in module.named_modules() if hasattr(layer, "lora_A")}


def start_adapters(encoder: reldp.TextEncoder, kind: str, bases: Bases, scale: float = 1.0) -> None:
    """Replace every A by a basis of its layer's inputs, with rows as long as random ones times `scale`."""
    for name, layer in adapters(encoder.module).items():
        first = layer.lora_A["default"].weight
        if kind == "orthogonal":
            rows = torch.linalg.qr(first.detach().double().T)[0].T
        else:
            rows = bases[name][0][:, : first.shape[0]].T
        with torch.no_grad():
            first.copy_(rows.to(first) * (_ROW_NORM * scale))


def scale_change(encoder: reldp.TextEncoder, factor: float) -> None:
    """Multiply the change that the adapters make."""
    with torch.no_grad():
        for layer in adapters(encoder.module).values():
            layer.lora_B["default"].weight.mul_(factor)


def public_bases(
    encoder: reldp.TextEncoder, graph: reldp.EntityGraph, *, weighted: bool, seed: int = 0
) -> Bases:
    """Return, per adapter, orthonormal bases of inputs and of outputs, most important first."""
    layers = adapters(encoder.module)
    inputs: dict[str, Tensor] = {}
    sums: dict[str, list[Tensor]] = {}

    def note(name: str, x: Tensor, d: Tensor | None) -> None:
        x = x.reshape(-1, x.shape[-1]).float()
        d = None if d is None else d.reshape(-1, d.shape[-1]).float()
        share = (
            (d * d).sum(1, keepdim=True)
            if weighted and d is not None
            else torch.ones_like(x[:, :1])
        )
        parts = [x.T @ (x * share)]
        if d is not None:
            parts.append(d.T @ (d * (x * x).sum(1, keepdim=True)))
        if name in sums:
            for total, part in zip(sums[name], parts, strict=True):
                total += part
        else:
            sums[name] = parts

    def forward_hook(name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
            inputs[name] = given[0].detach()
            output.register_hook(lambda d: note(name, inputs[name], d.detach()))

        return hook

    handles = [layer.register_forward_hook(forward_hook(name)) for name, layer in layers.items()]
    table = encoder.table(graph)
    chosen = np.random.default_rng(seed).permutation(graph.num_relations)[: _BATCHES * _BATCH]
    try:
        for rows in np.array_split(chosen, max(1, len(chosen) // _BATCH)):
            endpoints = graph.relations[rows]
            both = np.concatenate([endpoints[:, 0], endpoints[:, 1]])
            vectors = nn.functional.normalize(
                encoder.embed(encoder.rows(table, both)).float(), dim=1
            )
            scores = vectors[: len(rows)] @ vectors[len(rows) :].T / _TEMPERATURE
            right = torch.arange(len(rows), device=scores.device)
            loss = nn.functional.cross_entropy(scores, right)
            (loss + nn.functional.cross_entropy(scores.T, right)).backward()
    finally:
        for handle in handles:
            handle.remove()
        encoder.module.zero_grad(set_to_none=True)
    return {name: (_basis(parts[0]), _basis(parts[1])) for name, parts in sums.items()}


def _basis(moments: Tensor) -> Tensor:
    """Return the eigenvectors of a matrix of second moments, largest first, as columns."""
    return torch.linalg.eigh(moments.double().cpu())[1].flip(1).to(moments.device)


class ProjectedAdam(torch.optim.Adam):
    """Adam on the part of each adapter's gradient that lies in public bases."""

    bases: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # there is no closure
        """Project the gradients, then take a step."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        if len(parameters) == len(self.bases):
            for parameter, basis in zip(parameters, self.bases, strict=True):
                gradient = parameter.grad
                if gradient is None:
                    continue
                if gradient.shape[0] == basis.shape[0]:  # B: outputs, rank
                    gradient.copy_(basis @ (basis.T @ gradient))
                else:  # A: rank, inputs
                    gradient.copy_((gradient @ basis) @ basis.T)
        super().step(closure)


@contextmanager
def projected(encoder: reldp.TextEncoder, bases: Bases, rank: int) -> Iterator[str]:
    """Add `ProjectedAdam` with bases of `rank` columns to ``torch.optim`` for a while; yields its name."""
    known = {}
    for name, (left, right) in bases.items():
        known[f"{name}.lora_A.default.weight"] = left[:, :rank].float()
        known[f"{name}.lora_B.default.weight"] = right[:, :rank].float()
    ProjectedAdam.bases = tuple(known[name] for name in encoder.trainable())
    torch.optim.ProjectedAdam = ProjectedAdam  # type: ignore[attr-defined] # looked up by name
    try:
        yield "ProjectedAdam"
    finally:
        del torch.optim.ProjectedAdam  # type: ignore[attr-defined]
        ProjectedAdam.bases = ()
