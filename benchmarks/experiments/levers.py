"""What training may change without changing the promise: all of it is post-processing or public.

`NoiseAwareAdam` is Adam whose second moments are freed of the noise's known variance (DP-AdamBC,
Tang et al. 2024): without that, noise makes every coordinate's step alike.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn


class NoiseAwareAdam(torch.optim.Optimizer):
    """Adam with ``v - noise_variance`` under the root; with 0 it is Adam.

    Args:
        parameters: What is trained.
        lr: Learning rate.
        betas: Decays of first and second moments.
        eps: Added to the root.
        noise_variance: Variance that noise adds to every coordinate of the mean gradient.
        floor: The corrected moment is at least this share of the variance.
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
        self._variance, self._least = noise_variance, floor * noise_variance
        self._count = 0
        every = [p for group in self.param_groups for p in group["params"]]
        self._first = [torch.zeros_like(p) for p in every]
        self._second = [torch.zeros_like(p) for p in every]

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override] # there is no closure
        """One step from the gradients at hand."""
        beta1, beta2 = self._betas
        self._count += 1
        every = [p for group in self.param_groups for p in group["params"]]
        rate = self.param_groups[0]["lr"]
        for p, first, second in zip(every, self._first, self._second, strict=True):
            first.lerp_(p.grad, 1 - beta1)
            second.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
            moment = second / (1 - beta2**self._count) - self._variance
            root = moment.clamp_(min=self._least).sqrt_().add_(self._eps)
            p.addcdiv_(first, root, value=-rate / (1 - beta1**self._count))


def freeze_first_halves(module: nn.Module) -> None:
    """Freezes every adapter's A, the half that starts random."""
    for name, parameter in module.named_parameters():
        if ".lora_A." in name:
            parameter.requires_grad_(False)
