"""Attention for short texts: the formula on a CPU, the kernels on a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from reldp.errors import EncoderError
from reldp.gradients import short_attention as module
from reldp.gradients.short_attention import MAX_TOKENS, agrees, short_attention

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CPU = torch.device("cpu")


def positional(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float, causal: bool) -> Tensor:
    return short_attention(q, k, v, mask, scale=scale, causal=causal)


def inputs(rows: int = 3, length: int = 7, heads: int = 4, kv_heads: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn((rows, length, count, 5), generator=generator)
        for count in (heads, kv_heads, kv_heads)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_and_gradients_are_torch_s(dtype: torch.dtype) -> None:
    assert agrees(positional, CPU, dtype)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda q, k, v, mask, scale, causal: positional(1.1 * q, k, v, mask, scale, causal),
        lambda q, k, v, mask, scale, causal: positional(q, k, v, mask, scale, not causal),
        lambda q, k, v, mask, scale, causal: positional(q, k, v, ~mask, scale, causal),
        lambda q, k, v, mask, scale, causal: (
            positional(q, k, v.detach(), mask, scale, causal) + 0 * v.sum()
        ),
    ],
    ids=["scale", "causal", "mask", "gradient of the values"],
)
def test_a_mistake_would_be_seen(mistake: Callable[..., Tensor]) -> None:
    assert not agrees(mistake, CPU, torch.float32)


@pytest.mark.parametrize("causal", [False, True])
def test_a_loop_over_rows_heads_and_queries_gives_the_same(causal: bool) -> None:
    q, k, v = inputs()
    mask = torch.arange(7) < torch.tensor([[7], [4], [1]])
    found = short_attention(q, k, v, mask, scale=0.3, causal=causal)
    for row in range(3):
        for head in range(4):
            for query in range(7):
                last = min(int(mask[row].sum()), query + 1 if causal else 7)
                keys, values = k[row, :last, head // 2], v[row, :last, head // 2]
                weights = (0.3 * keys @ q[row, query, head]).softmax(0)
                torch.testing.assert_close(found[row, query, head], weights @ values)


def test_padding_changes_neither_values_nor_gradients() -> None:
    q, k, v = (part.requires_grad_() for part in inputs())
    mask = torch.arange(7) < torch.tensor([[5], [5], [5]])
    short = short_attention(q[:, :5], k[:, :5], v[:, :5], mask[:, :5], scale=1.0, causal=False)
    padded = short_attention(q, k, v, mask, scale=1.0, causal=False)[:, :5]
    torch.testing.assert_close(padded, short)
    for ours, expected in zip(
        torch.autograd.grad(padded.square().sum(), (q, k, v)),
        torch.autograd.grad(short.square().sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected)
        assert not ours[:, 5:].any()


def test_what_stands_in_padding_is_never_read() -> None:
    q, k, v = inputs()
    mask = torch.arange(7) < torch.tensor([[5], [5], [5]])
    before = short_attention(q, k, v, mask, scale=1.0, causal=False)[:, :5]
    k[:, 5:], v[:, 5:] = 1e4, 1e4
    after = short_attention(q, k, v, mask, scale=1.0, causal=False)[:, :5]
    assert torch.equal(before, after)


def test_a_row_without_tokens_gives_zeros() -> None:
    q, k, v = inputs()
    mask = torch.zeros((3, 7), dtype=torch.bool)
    assert not short_attention(q, k, v, mask, scale=1.0, causal=False).any()


class Layer:
    is_causal = False


def called(length: int = 7, **options: Any) -> Tensor:
    q, k, v = (part.transpose(1, 2) for part in inputs(length=length))
    return module._transformers_attention(Layer(), q, k, v, None, **options)[0]


def test_transformers_gets_heads_in_the_third_place() -> None:
    assert called().shape == (3, 7, 4, 5)
    assert not torch.equal(called(), called(is_causal=True))
    assert torch.equal(called(), called(position_ids=torch.arange(7), softcap=None))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"softcap": 30.0}, "got softcap from Layer"),
        ({"s_aux": torch.ones(4)}, "got s_aux from Layer"),
        ({"position_bias": torch.ones(1)}, "got position_bias from Layer"),
        ({"sliding_window": 4}, "got sliding_window from Layer"),
        ({"dropout": 0.1}, "got dropout from Layer"),
        ({"length": MAX_TOKENS + 1}, "at most 64 queries"),
    ],
)
def test_what_it_does_not_compute_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncoderError, match=reason):
        called(**options)


@pytest.mark.gpu
@needs_gpu
def test_kernels_agree_with_torch() -> None:
    assert agrees(module._by_kernels, torch.device("cuda"), torch.bfloat16)


@pytest.mark.gpu
@needs_gpu
def test_float32_on_a_gpu_is_exact() -> None:
    assert agrees(positional, torch.device("cuda"), torch.float32)


@pytest.mark.gpu
@needs_gpu
def test_a_wrong_scale_of_the_kernels_would_be_seen() -> None:
    def wrong(q: Tensor, *rest: Any) -> Tensor:
        return module._by_kernels(1.1 * q, *rest)

    assert not agrees(wrong, torch.device("cuda"), torch.bfloat16)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize(
    ("dim", "length", "causal"), [(5, 7, False), (16, 64, True), (80, 33, True), (128, 1, False)]
)
def test_kernels_take_every_head_size_and_length(dim: int, length: int, causal: bool) -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    parts = [
        torch.randn((3, length, heads, dim), generator=generator, device="cuda").bfloat16()
        for heads in (4, 2, 2)
    ]
    mask = torch.arange(length, device="cuda") < torch.tensor([[length], [4], [1]], device="cuda")
    results = []
    for function in (module._by_kernels, module._by_torch):
        leaves = [part.clone().requires_grad_() for part in parts]
        out = function(*leaves, mask, dim**-0.5, causal).float() * mask[:, :, None, None]
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for value, expected in zip(*results, strict=True):
        error = (value - expected).float().norm()
        assert error <= 0.02 * expected.float().norm() + 1e-6


@pytest.mark.gpu
@needs_gpu
def test_a_row_s_bits_depend_on_that_row_alone() -> None:
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = (
        torch.randn((9, 32, 4, 32), generator=generator, device="cuda").bfloat16() for _ in range(3)
    )
    mask = torch.ones((9, 32), dtype=torch.bool, device="cuda")
    together = module._by_kernels(q, k, v, mask, 0.2, False)
    for row in range(9):
        own = slice(row, row + 1)
        alone = module._by_kernels(q[own], k[own], v[own], mask[own], 0.2, False)
        assert torch.equal(alone, together[own])
