"""Settings of torch that a caller may have switched on, switched off while reldp computes.

A notebook may compute in float64 or on another device by default, and a training loop of somebody's own runs in
mixed precision, or without gradients. What reldp makes and computes must not depend on this: embeddings have the
precision that their settings say, steps the one that was checked, and steps need gradients.

Private to the package: `plain_torch`, `float32_by_default`.

>>> import torch
>>> with torch.inference_mode(), torch.autocast("cpu"), plain_torch():
...     torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
(True, False, False)
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

__all__ = ["float32_by_default", "plain_torch"]


@contextmanager
def plain_torch() -> Iterator[None]:
    """Gradients, no autocast, no inference mode, and tensors on the CPU unless a device is named.

    Also a decorator. The calling thread alone is affected.
    """
    with ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        if not torch.is_grad_enabled():
            stack.enter_context(torch.enable_grad())
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextmanager
def float32_by_default() -> Iterator[None]:
    """As `plain_torch`, and new tensors have float32 unless a type is named, in all threads: for making modules."""
    before = torch.get_default_dtype()
    with plain_torch():
        if before == torch.float32:
            yield
            return
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)
