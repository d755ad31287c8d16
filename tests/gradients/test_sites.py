"""Sites: what a module computes is unchanged, and it gets its own method back."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from reldp.errors import UnsupportedParameter
from reldp.gradients import PerUnitGradients
from reldp.gradients.discovery import Limits, find_sites
from reldp.gradients.recorder import Recorder
from reldp.gradients.sites import FrozenLinearSite, LinearSite, RmsNormSite


def _installed(module: nn.Module, units: int, rows: int, limits: Limits | None = None) -> Recorder:
    found = find_sites(module, Limits() if limits is None else limits)
    parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
    recorder = Recorder(parameters, found.ghost_names)
    recorder.start(units=units, rows_per_unit=rows)
    for site in found.sites:
        site.recorder = recorder
        site.install()
    return recorder


def _rms_norms() -> list[nn.Module]:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.mistral.modeling_mistral import MistralRMSNorm
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

    kinds: list[Any] = [LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm]
    return [*(kind(6) for kind in kinds), nn.RMSNorm(6), nn.RMSNorm(6, eps=1e-3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_norm_that_is_taken_over_computes_what_it_did(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for module in [*_rms_norms(), nn.LayerNorm(6), nn.LayerNorm(6, bias=False)]:
        for p in module.parameters():
            p.data = torch.randn(p.shape)
        module.to(dtype)
        x = torch.randn(4, 3, 6, dtype=dtype)
        before = module(x)
        recorder = _installed(module, 2, 2)
        out = module(x)
        assert out.dtype == before.dtype
        assert torch.allclose(out, before, atol=1e-6 if dtype == torch.float32 else 0.05)
        out.sum().backward()
        assert all(p.grad is not None for p in recorder.probes.values())


def test_all_known_rms_norms_get_their_own_site() -> None:
    for module in _rms_norms():
        assert [type(s) for s in find_sites(module, Limits()).sites] == [RmsNormSite]


def test_a_site_leaves_no_trace() -> None:
    layer = nn.Linear(3, 2)
    site = LinearSite(layer, {"weight": "w"}, keep_weight=False)
    site.install()
    assert "forward" in layer.__dict__
    site.remove()
    assert "forward" not in layer.__dict__
    site.remove()


@pytest.mark.parametrize("limits", [Limits(), Limits(direct_rank=1, direct_table=1)])
def test_rows_that_are_missing_are_refused_by_name(limits: Limits) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    _installed(model, 2, 3, limits)
    with pytest.raises(UnsupportedParameter, match=r"`0\.weight` must see 6 rows"):
        model(torch.ones(2, 3, 3))


def test_indices_of_a_single_row_stand_for_all_rows() -> None:
    table = nn.Embedding(4, 2)
    recorder = _installed(table, 3, 2)
    out = table(torch.tensor([[0, 1]]))
    assert out.shape == (6, 2, 2)
    out.sum().backward()
    grad = recorder.probe("weight").grad
    assert grad is not None
    assert grad[0].tolist() == [[2.0, 2.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


def test_frozen_weights_are_cast_once_and_again_when_they_change() -> None:
    layer = nn.Linear(3, 2).requires_grad_(False)
    site = FrozenLinearSite(layer)
    first = site.weights(torch.bfloat16)[0]
    assert site.weights(torch.bfloat16)[0] is first
    layer.weight.mul_(2.0)
    second = site.weights(torch.bfloat16)[0]
    assert torch.equal(second, layer.weight.bfloat16())
    layer.weight.data = torch.zeros(2, 3)
    assert not site.weights(torch.bfloat16)[0].any()
    assert site.weights(None)[0].dtype == torch.float32


def test_a_frozen_layer_under_autocast_computes_what_autocast_does() -> None:
    layer = nn.Linear(3, 2).requires_grad_(False)
    x = torch.randn(5, 3, requires_grad=True)
    site = FrozenLinearSite(layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain, ours = layer(x), site(x)
    assert ours.dtype == plain.dtype == torch.bfloat16
    assert torch.equal(ours, plain)
    assert torch.equal(site(x), layer(x))

    def grad(out: Tensor) -> Tensor:
        return torch.autograd.grad(out.sum(), [x])[0]

    assert torch.equal(grad(ours), grad(plain))


@pytest.mark.parametrize("trained", ["relative", "layer"])
def test_mpnet_gives_each_row_its_own_copy_of_the_shared_bias(trained: str) -> None:
    import transformers

    config = transformers.MPNetConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
    )
    encoder = transformers.MPNetModel(config).encoder
    for path, p in encoder.named_parameters():
        p.requires_grad_(trained in path)
    x = torch.randn(4, 5, 8)
    positions = torch.arange(5).flip(0).expand(4, -1)
    plain = encoder.compute_position_bias(x).detach()
    _installed(encoder, 2, 2)
    assert torch.equal(encoder.compute_position_bias(x), plain)
    # Given positions are honored; the reversed order mirrors both sides of the bias.
    turned = encoder.compute_position_bias(x, positions)
    assert torch.equal(turned, plain.flip(2, 3))
    assert "compute_position_bias" in vars(
        encoder
    )  # a frozen table too: on a GPU it must be capturable
    assert turned.requires_grad == (trained == "relative")


def test_layers_may_be_called_with_the_names_of_their_arguments() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm = nn.Embedding(5, 4), nn.LayerNorm(4)
            self.scale, self.layer = nn.RMSNorm(4), nn.Linear(4, 2)
            self.frozen = nn.Linear(2, 2).requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.norm(input=self.table(input=x))
            return self.frozen(input=self.layer(input=self.scale(x=hidden))).sum(1)

    model, x = Named(), torch.arange(3)[:, None]
    result = PerUnitGradients(model).clipped_sum(lambda a, b: model(x[a:b]).sum(1), [1e9] * 3, 1)
    gradients = torch.autograd.grad(model(x).sum(), [model.layer.weight])
    assert torch.allclose(result.sums["layer.weight"].float(), gradients[0], atol=1e-5)
