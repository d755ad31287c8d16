"""The forward pass runs in the precision that is set."""

import pytest
import torch

from reldp.training.config import PerformanceSettings
from reldp.training.precision import autocast


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_have_the_precision_that_is_set(precision):
    with autocast(torch.device("cpu"), PerformanceSettings(precision=precision)):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == getattr(torch, precision)


def test_a_cuda_graph_casts_weights_at_every_replay():
    settings = PerformanceSettings(precision="bfloat16", device="cuda", cuda_graphs=True)
    with autocast(torch.device("cpu"), settings):
        assert not torch.is_autocast_cache_enabled()
