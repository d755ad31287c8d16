import pytest
import torch

from reldp.encoders.device import default_device


@pytest.mark.parametrize(("has_gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_the_gpu_is_the_default_where_there_is_one(monkeypatch, has_gpu, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert default_device() == device
