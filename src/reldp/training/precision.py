"""The precision of a forward pass: float32 throughout, or bfloat16 in matrix products.

Private to the package: `autocast`.

>>> from reldp.training.config import PerformanceSettings
>>> with autocast(torch.device("cpu"), PerformanceSettings(precision="bfloat16")):
...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
torch.bfloat16
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from reldp.training.config import PerformanceSettings

__all__ = ["autocast"]


def autocast(device: torch.device, performance: PerformanceSettings) -> AbstractContextManager[Any]:
    """Return the context of a forward pass; norms, factors and sums choose their types themselves."""
    if performance.precision == "float32":
        return nullcontext()
    # A CUDA graph must cast weights at every replay, not once.
    cached = not performance.cuda_graphs
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=cached)
