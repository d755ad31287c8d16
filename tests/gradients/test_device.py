"""The engine on a GPU: products in TF32 and bfloat16, and steps captured as a CUDA graph."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from reldp.gradients import GradientSettings, PerUnitGradients
from tests.gradients.models import Case, clipped, oracle, relative, token_rows, transformer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
KEEP = GradientSettings(direct_rank=1, direct_size=1, direct_table=1, fuse_lora=False)
MODELS = [
    ("bert", "lora"),
    ("bert", "full"),
    ("mpnet", "full"),
    ("llama", "lora"),
    ("llama", "full"),
]


@pytest.fixture(params=["highest", "high"])
def matmul(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


def _numbers() -> Tensor:
    return torch.arange(24, device="cuda").view(6, 4)


@pytest.mark.parametrize("settings", [GradientSettings(), KEEP])
@pytest.mark.parametrize(("kind", "train"), MODELS)
def test_the_oracle_is_met_in_every_precision(
    kind: str, train: str, settings: GradientSettings, matmul: str
) -> None:
    case, numbers = transformer(kind, train, device="cuda"), _numbers()
    norms, grads = oracle(case, numbers)
    thresholds = torch.full((6,), float(norms.median()) * 1.01, device="cuda")
    truth = clipped(norms, grads, thresholds)
    engine = PerUnitGradients(case.model, settings)
    for autocast in (False, True):
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            found = engine.clipped_sum(lambda a, b: case.losses(numbers[a:b]), thresholds, 4)
        exact = matmul == "highest" and not autocast
        assert relative(found.sums, truth) < (2e-5 if exact else 0.05)
        assert all(total.dtype == torch.float64 for total in found.sums.values())


@pytest.mark.parametrize("settings", [GradientSettings(), KEEP])
@pytest.mark.parametrize(("kind", "train"), MODELS)
def test_no_unit_exceeds_its_threshold_in_any_precision(
    kind: str, train: str, settings: GradientSettings, matmul: str
) -> None:
    case = transformer(kind, train, device="cuda")
    engine = PerUnitGradients(case.model, settings)
    for row in _numbers():
        for autocast in (False, True):
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
                found = engine.clipped_sum(lambda a, b, row=row: case.losses(row[None]), [1e-3], 4)
            length = torch.stack([s.double().norm() for s in found.sums.values()]).norm()
            assert float(length) <= 1e-3


@pytest.mark.parametrize(("kind", "train"), [("bert", "lora"), ("bert", "full")])
def test_a_captured_step_replays_to_the_same_sum(kind: str, train: str) -> None:
    model: Any = transformer(kind, train, device="cuda").model
    ids = token_rows(1)[0].cuda()
    # Without an attention mask, which transformers would read back from the device.
    case = Case(model, lambda rows: model(input_ids=ids[rows]).last_hidden_state.mean(1))
    numbers = _numbers()
    engine = PerUnitGradients(model, GradientSettings(check_isolation=False))
    thresholds = torch.full((6,), 0.1, dtype=torch.float64, device="cuda")

    def step() -> Any:
        return engine.clipped_sum(lambda a, b: case.losses(numbers[a:b]), thresholds, 4)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        eager = [step() for _ in range(3)][-1]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    torch.cuda.synchronize()
    assert relative(captured.sums, eager.sums) < 1e-5
