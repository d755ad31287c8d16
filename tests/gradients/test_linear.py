"""Linear layers: the usual output and input gradient, and one weight gradient per unit."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from reldp.gradients.linear import direct_linear, kept_linear, lora_linear
from reldp.gradients.recorder import KeptLinear, Recorder

UNITS, ROWS, LENGTH, IN, OUT, RANK = 3, 2, 4, 5, 6, 2


def _inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(UNITS * ROWS, LENGTH, IN, dtype=torch.float64, requires_grad=True)
    return (
        x,
        torch.randn(OUT, IN, dtype=torch.float64),
        torch.randn(OUT, dtype=torch.float64),
        torch.randn(UNITS * ROWS, LENGTH, OUT, dtype=torch.float64),
    )


def _probe(*shape: int) -> Tensor:
    return torch.zeros(UNITS, *shape, dtype=torch.float64, requires_grad=True)


def _loop(out_of: object, params: list[Tensor], x: Tensor, g: Tensor) -> list[list[Tensor]]:
    """Gradients by unit, from plain autograd on each unit's rows."""
    found = []
    for u in range(UNITS):
        rows = slice(u * ROWS, (u + 1) * ROWS)
        leaves = [p.clone().requires_grad_() for p in params]
        out = out_of(x.detach()[rows], *leaves)  # type: ignore[operator] # a function
        found.append(list(torch.autograd.grad((out * g[rows]).sum(), leaves)))
    return found


def test_direct_gradients_equal_a_loop_over_units() -> None:
    x, weight, bias, g = _inputs()
    probes = _probe(OUT, IN), _probe(OUT)
    out = direct_linear(x, weight, bias, *probes, UNITS)
    assert torch.equal(out, F.linear(x, weight, bias))
    out.backward(g)
    loop = _loop(F.linear, [weight, bias], x, g)
    for i, probe in enumerate(probes):
        assert probe.grad is not None
        assert torch.allclose(probe.grad, torch.stack([row[i] for row in loop]))
    assert x.grad is not None
    assert torch.allclose(x.grad, g @ weight)


def test_a_frozen_bias_or_input_gets_nothing() -> None:
    x, weight, bias, g = _inputs()
    probe = _probe(OUT, IN)
    direct_linear(x.detach(), weight, bias, probe, None, UNITS).backward(g)
    assert probe.grad is not None
    assert x.grad is None


def test_kept_uses_hold_inputs_and_output_gradients_by_unit() -> None:
    x, weight, bias, g = _inputs()
    recorder = Recorder({"w": weight}, ghost_names={"w"})
    recorder.start(units=UNITS, rows_per_unit=ROWS)
    bias_probe = _probe(OUT)
    kept_linear(x, weight, bias, bias_probe, recorder, "w").backward(g)
    (use,) = recorder.uses["w"]
    assert isinstance(use, KeptLinear)
    assert torch.equal(use.inputs, x.detach().view(UNITS, ROWS * LENGTH, IN))
    assert torch.equal(use.grads, g.view(UNITS, ROWS * LENGTH, OUT))
    assert x.grad is not None
    assert torch.allclose(x.grad, g @ weight)
    assert bias_probe.grad is not None
    assert torch.allclose(bias_probe.grad, g.view(UNITS, -1, OUT).sum(1))


@pytest.mark.parametrize("adapter", [torch.float64, torch.float32])
def test_the_fused_adapter_equals_three_linear_layers(adapter: torch.dtype) -> None:
    x, weight, bias, g = _inputs()
    a, b = torch.randn(RANK, IN, dtype=adapter), torch.randn(OUT, RANK, dtype=adapter)

    def plain(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return F.linear(x, weight, bias) + F.linear(F.linear(x.to(a.dtype), a), b) * 1.5

    probes = [torch.zeros(UNITS, *p.shape, dtype=adapter, requires_grad=True) for p in (a, b)]
    out = lora_linear(x, weight, bias, a, b, *probes, 1.5, UNITS)
    exact = 1e-10 if adapter == torch.float64 else 1e-5
    assert torch.allclose(out, plain(x, a, b).to(out.dtype), atol=exact)
    (truth,) = torch.autograd.grad((plain(x, a, b) * g).sum(), [x])
    out.backward(g)
    assert x.grad is not None
    assert torch.allclose(x.grad, truth, atol=10 * exact)
    loop = _loop(plain, [a, b], x, g)
    for i, probe in enumerate(probes):
        assert probe.grad is not None
        assert torch.allclose(probe.grad, torch.stack([row[i] for row in loop]), atol=10 * exact)
