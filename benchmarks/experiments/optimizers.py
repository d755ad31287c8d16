"""Adam whose second moments exclude the known variance of the noise: post-processing only.

DP-AdamBC (Tang et al. 2024): without the correction, noise makes every coordinate's step alike.
reldp's trainer takes optimizers from ``torch.optim`` by name, so `registered` lends it this one.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class NoiseAwareAdam(torch.optim.Optimizer):
    """Adam with ``v - noise_variance`` under the root; with 0 it is Adam.

    Args:
        parameters: Trained parameters.
        lr: Learning rate.
        betas: Decay of the first and of the second moments.
        eps: Added to the root.
        noise_variance: Variance that noise adds to every coordinate of the mean gradient.
        floor: Minimum of the corrected moment, as a share of the noise variance.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        noise_variance: float = 0.0,
        floor: float = 0.05,
    ) -> None:
        super().__init__(list(parameters), {"lr": lr})
        self._betas, self._eps = betas, eps
        self._variance, self._minimum = noise_variance, floor * noise_variance

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # there is no closure
        """Take one step from the gradients of the parameters."""
        beta1, beta2 = self._betas
        rate = self.param_groups[0]["lr"]
        for parameter in (p for group in self.param_groups for p in group["params"]):
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros(())
                state["first"] = torch.zeros_like(parameter)
                state["second"] = torch.zeros_like(parameter)
            first, second, gradient = state["first"], state["second"], parameter.grad
            state["step"] += 1
            count = int(state["step"])
            first.lerp_(gradient, 1 - beta1)
            second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            moment = second / (1 - beta2**count) - self._variance
            root = moment.clamp_(min=self._minimum).sqrt_().add_(self._eps)
            parameter.addcdiv_(first, root, value=-rate / (1 - beta1**count))


@contextmanager
def registered() -> Iterator[str]:
    """Add the optimizer to ``torch.optim`` for a while; yields its name there."""
    name = NoiseAwareAdam.__name__
    setattr(torch.optim, name, NoiseAwareAdam)
    try:
        yield name
    finally:
        delattr(torch.optim, name)


def freeze_first_halves(module: nn.Module) -> None:
    """Freeze the A matrix of every adapter, the half that is initialized at random."""
    for name, parameter in module.named_parameters():
        if ".lora_A." in name:
            parameter.requires_grad_(False)
