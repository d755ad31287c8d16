"""The engine against one plain autograd call per unit."""

from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from reldp.clipping import get_rule
from reldp.errors import InputError
from reldp.gradients import ClippedSum, GradientSettings, PerUnitGradients
from tests.gradients.models import Case, clipped, mlp, oracle, relative, transformer

MODELS = [
    ("mlp", "full"),
    ("bert", "lora"),
    ("bert", "full"),
    ("mpnet", "lora"),
    ("mpnet", "full"),
    ("llama", "lora"),
    ("llama", "full"),
]
# Tiny models have tiny weights: these limits send them down the path of large ones.
KEEP = GradientSettings(direct_rank=1, direct_size=1, direct_table=1, fuse_lora=False)
DIRECT = GradientSettings(direct_rank=1000, direct_table=1 << 20)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _case(kind: str, train: str, dtype: torch.dtype = torch.float32) -> Case:
    return mlp(dtype=dtype) if kind == "mlp" else transformer(kind, train, dtype=dtype)


def _units(rule: str, *, size: int = 5, k: int = 3, clip_norm: float = 1.0) -> Any:
    """Units over 64 rows with shared entities, so that frequency thresholds differ."""
    rng = np.random.default_rng(7)
    positives, negatives = rng.integers(0, 12, (size, 2)), rng.integers(0, 64, (size, k))
    return get_rule(rule).units(positives, negatives, clip_norm=clip_norm)


def _median_units(
    case: Case, rule: str, *, size: int = 5, k: int = 3
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Row numbers, thresholds at which about half of the units are clipped, and the true sum."""
    units = _units(rule, size=size, k=k)
    numbers = torch.as_tensor(units.entities)
    norms, grads = oracle(case, numbers)
    scale = float((norms / torch.as_tensor(units.thresholds)).median())
    thresholds = torch.as_tensor(units.thresholds) * scale * 1.001
    assert 0 < int((norms > thresholds).sum()) < len(norms)
    return numbers, thresholds, clipped(norms, grads, thresholds)


def _run(case: Case, numbers: Tensor, thresholds: Any, **settings: Any) -> Any:
    """The clipped sum, of all units at once or of consecutive parts of so many units."""
    engine = PerUnitGradients(case.model, settings.get("settings"))
    return sum_of_parts(engine, case, numbers, thresholds, settings.get("part"))


def sum_of_parts(
    engine: PerUnitGradients, case: Case, numbers: Tensor, thresholds: Any, part: int | None
) -> ClippedSum:
    size = len(numbers) if part is None else part
    sums = [
        engine.clipped_sum(
            lambda a, b, rows=numbers[start : start + size]: case.losses(rows[a:b]),
            thresholds[start : start + size],
            numbers.shape[1],
        )
        for start in range(0, len(numbers), size)
    ]
    return reduce(ClippedSum.plus, sums)


@pytest.mark.parametrize("rule", ["tuple", "pair", "frequency"])
@pytest.mark.parametrize(("kind", "train"), MODELS)
def test_norms_and_clipped_sum_equal_a_loop_of_autograd_calls(
    kind: str, train: str, rule: str
) -> None:
    case = _case(kind, train)
    numbers, thresholds, truth = _median_units(case, rule)
    norms, _ = oracle(case, numbers)
    for settings in (GradientSettings(), KEEP, DIRECT):
        engine = PerUnitGradients(case.model, settings)  # checks units at its first batch only
        for part in (None, 2, len(numbers) - 1):
            found = sum_of_parts(engine, case, numbers, thresholds, part)
            assert float(((found.norms - norms).abs() / norms).max()) < 1e-5
            assert relative(found.sums, truth) < 1e-5
            assert found.num_clipped == int((norms > thresholds).sum())


@pytest.mark.parametrize(("kind", "train"), MODELS)
def test_in_double_precision_only_the_stated_margin_is_left(kind: str, train: str) -> None:
    case = _case(kind, train, torch.float64)
    numbers, thresholds, _ = _median_units(case, "tuple")
    norms, grads = oracle(case, numbers)
    truth = clipped(norms, grads, thresholds * (1 - 1e-6))
    for settings in (KEEP, DIRECT):
        # Llama's norm rounds to float32 inside, whatever the type of the model.
        bound = 1e-6 if kind == "llama" else 1e-10
        assert relative(_run(case, numbers, thresholds, settings=settings).sums, truth) < bound


@pytest.mark.parametrize(("kind", "train"), [("bert", "lora"), ("bert", "full"), ("mlp", "full")])
def test_a_wrong_row_layout_is_caught_and_without_the_check_it_is_wrong(
    kind: str, train: str
) -> None:
    case = _case(kind, train)
    numbers, thresholds, truth = _median_units(case, "tuple")
    units, rows = numbers.shape

    def row_major(start: int, stop: int) -> Tensor:
        """Rows laid out role by role: all first ends, all second ends, ..."""
        chosen = numbers[start:stop]
        out = case.rows(chosen.t().reshape(-1)).view(rows, stop - start, -1).transpose(0, 1)
        positive = (out[:, 0] * out[:, 1]).sum(-1, keepdim=True)
        negative = (out[:, :1] * out[:, 2:]).sum(-1)
        return nn.functional.softplus(negative - positive).sum(1)

    assert torch.allclose(row_major(0, units), case.losses(numbers), atol=1e-5)
    with pytest.raises(InputError, match="keep units apart"):
        PerUnitGradients(case.model).clipped_sum(row_major, thresholds, rows)
    unchecked = GradientSettings(check_isolation=False)
    found = PerUnitGradients(case.model, unchecked).clipped_sum(row_major, thresholds, rows)
    assert relative(found.sums, truth) > 1e-2


@pytest.mark.parametrize("rule", ["tuple", "pair", "frequency"])
@pytest.mark.parametrize(("kind", "train"), [("bert", "lora"), ("bert", "full"), ("llama", "lora")])
def test_parts_autocast_and_checkpointing_together_change_only_rounding(
    kind: str, train: str, rule: str
) -> None:
    case = _case(kind, train)
    numbers, thresholds, truth = _median_units(case, rule)
    model: Any = case.model
    for reentrant in (False, True):
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": reentrant}
        )
        if reentrant:
            model.enable_input_require_grads()
        for settings in (GradientSettings(), KEEP):
            exact = _run(case, numbers, thresholds, settings=settings, part=2)
            assert relative(exact.sums, truth) < 1e-5
            with torch.autocast("cpu", dtype=torch.bfloat16):
                rough = _run(case, numbers, thresholds, settings=settings, part=2)
            assert relative(rough.sums, truth) < 0.05
            assert all(
                total.dtype in (torch.float32, torch.float64) for total in rough.sums.values()
            )
            assert rough.norms.dtype == torch.float64


# Both come from torch's own tracing.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(("kind", "train"), [("mlp", "full"), ("bert", "lora")])
def test_compiled_models_give_the_same_and_are_left_as_they_were(kind: str, train: str) -> None:
    # Few layers and few shapes: every shape is compiled anew.
    case = mlp() if kind == "mlp" else transformer(kind, train, layers=1)
    sizes = {"tuple": (8, 1), "frequency": (8, 1), "pair": (2, 4)}
    truths = {rule: _median_units(case, rule, size=n, k=k) for rule, (n, k) in sizes.items()}
    numbers = truths["tuple"][0]
    before = case.losses(numbers).detach()
    torch.compiler.reset()
    case.model.compile(backend="aot_eager", dynamic=False)
    assert torch.allclose(case.losses(numbers).detach(), before, atol=1e-6)
    engine = PerUnitGradients(case.model, GradientSettings(check_isolation=False))
    for numbers, thresholds, truth in truths.values():
        for autocast in (False, True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                found = sum_of_parts(engine, case, numbers, thresholds, len(numbers) // 2)
            assert relative(found.sums, truth) < (0.05 if autocast else 1e-5)
    case.losses(numbers).sum().backward()
    assert all(p.grad is not None for p in engine.parameters.values())


def test_a_wrapped_compiled_module_is_looked_into() -> None:
    case = _case("mlp", "full")
    wrapped: Any = torch.compile(case.model, backend="eager")
    assert set(PerUnitGradients(wrapped).parameters) == dict(case.model.named_parameters()).keys()


@pytest.mark.parametrize("settings", [KEEP, DIRECT, GradientSettings()])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(("kind", "train"), [("bert", "lora"), ("bert", "full"), ("mlp", "full")])
def test_no_unit_ever_exceeds_its_threshold(
    kind: str, train: str, autocast: bool, settings: GradientSettings
) -> None:
    case = _case(kind, train)
    numbers = torch.as_tensor(_units("tuple", size=12).entities)
    engine = PerUnitGradients(case.model, settings)
    for row in numbers:
        for threshold in (1e-3, 0.37):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                found = engine.clipped_sum(
                    lambda a, b, row=row: case.losses(row[None]), [threshold], numbers.shape[1]
                )
            length = torch.stack([s.double().norm() for s in found.sums.values()]).norm()
            assert float(length) <= threshold
            if found.num_clipped:
                assert float(length) >= threshold * (0.95 if autocast else 0.9999)


@pytest.mark.parametrize("settings", [KEEP, DIRECT])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_unit_that_is_not_finite_contributes_zero_and_is_counted(
    settings: GradientSettings, bad: float
) -> None:
    case = _case("mlp", "full")
    numbers, thresholds, _ = _median_units(case, "tuple")
    norms, grads = oracle(case, numbers)
    rest = clipped(
        norms,
        {n: g.clone().index_fill_(0, torch.tensor([2]), 0) for n, g in grads.items()},
        thresholds,
    )
    scale = torch.ones(len(numbers))
    scale[2] = bad

    def losses(start: int, stop: int) -> Tensor:
        return case.losses(numbers[start:stop]) * scale[start:stop]

    engine = PerUnitGradients(case.model, settings)
    found = engine.clipped_sum(losses, thresholds, numbers.shape[1])
    assert found.num_nonfinite == 1
    assert float(found.factors[2]) == 0.0
    assert relative(found.sums, rest) < 1e-5


def test_an_empty_batch_gives_zeros_for_every_parameter_without_a_forward() -> None:
    case = _case("bert", "lora")

    def never(start: int, stop: int) -> Tensor:
        raise AssertionError("no forward for no units")

    found = PerUnitGradients(case.model).clipped_sum(never, np.zeros(0), 4)
    assert found.num_units == 0
    trainable = {n: p for n, p in case.model.named_parameters() if p.requires_grad}
    assert {n: s.shape for n, s in found.sums.items()} == {n: p.shape for n, p in trainable.items()}
    assert all(not s.any() for s in found.sums.values())


@pytest.mark.parametrize(("kind", "train"), [("bert", "lora"), ("mlp", "full")])
def test_huge_thresholds_are_plain_sgd_for_twenty_steps(kind: str, train: str) -> None:
    private, plain = _case(kind, train), _case(kind, train)
    numbers = torch.as_tensor(_units("tuple", size=4).entities)
    engine = PerUnitGradients(private.model)
    optimizer = torch.optim.SGD([p for p in plain.model.parameters() if p.requires_grad], lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        plain.losses(numbers).mean().backward()
        optimizer.step()
        found = engine.clipped_sum(
            lambda a, b: private.losses(numbers[a:b]), np.full(4, 1e9), numbers.shape[1]
        )
        with torch.no_grad():
            for name, p in engine.parameters.items():
                p -= 0.05 * found.sums[name] / 4
    left = {n: p.detach() for n, p in engine.parameters.items()}
    right = {n: p.detach() for n, p in plain.model.named_parameters() if p.requires_grad}
    assert relative(left, right) < 1e-5


def test_pair_with_one_negative_is_tuple_with_one_negative() -> None:
    case = _case("bert", "lora")
    sums = []
    for rule in ("pair", "tuple"):
        units = _units(rule, k=1, clip_norm=0.1)
        sums.append(_run(case, torch.as_tensor(units.entities), units.thresholds).sums)
    assert all(torch.equal(sums[0][name], sums[1][name]) for name in sums[0])


def test_removing_a_unit_moves_the_sum_by_at_most_its_threshold() -> None:
    case = _case("bert", "full")
    numbers = torch.as_tensor(_units("tuple", size=6).entities)
    every = _run(case, numbers, np.full(6, 0.01))
    for gone in range(6):
        rest = [i for i in range(6) if i != gone]
        fewer = _run(case, numbers[rest], np.full(5, 0.01))
        moved = [(every.sums[n] - fewer.sums[n]).double().norm() for n in every.sums]
        assert float(torch.stack(moved).norm()) <= 0.01 * (1 + 1e-5)


def test_gradients_and_forwards_of_the_caller_are_left_alone_even_after_an_error() -> None:
    case = _case("mlp", "full")
    numbers = torch.as_tensor(_units("tuple").entities)
    marks = {n: torch.full_like(p, 3.0) for n, p in case.model.named_parameters()}
    for name, p in case.model.named_parameters():
        p.grad = marks[name]
    _run(case, numbers, np.ones(5))

    def failing(start: int, stop: int) -> Tensor:
        case.losses(numbers[start:stop])
        raise KeyError("stop")

    with pytest.raises(KeyError):
        PerUnitGradients(case.model).clipped_sum(failing, np.ones(5), numbers.shape[1])
    assert all(p.grad is marks[n] for n, p in case.model.named_parameters())
    assert all("forward" not in m.__dict__ for m in case.model.modules())


def test_a_parameter_the_loss_does_not_reach_is_in_the_sum_as_zeros() -> None:
    case = _case("bert", "full")
    numbers = torch.as_tensor(_units("tuple").entities)
    found = _run(case, numbers, np.ones(5))
    assert not found.sums["pooler.dense.weight"].any()
    assert set(found.sums) == dict(case.model.named_parameters()).keys()
