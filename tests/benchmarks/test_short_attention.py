"""The kernel for short texts, on the devices that have one."""

import importlib

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_are_torch_s(dtype):
    kernel = importlib.import_module("benchmarks.experiments.short_attention")
    assert kernel.agrees(torch.device("cuda"), dtype)


def test_a_wrong_scale_would_be_seen(monkeypatch):
    kernel = importlib.import_module("benchmarks.experiments.short_attention")
    plain = kernel._plain
    monkeypatch.setattr(kernel, "_plain", lambda q, *rest: plain(1.1 * q, *rest))
    assert not kernel.agrees(torch.device("cuda"))
