"""PEFT's LoRA layers: fused where that is exact, PEFT's own code otherwise, variants refused."""

from typing import Any

import peft
import pytest
import torch
from torch import Tensor, nn

from reldp.errors import UnsupportedParameter
from reldp.gradients import GradientSettings, PerUnitGradients
from reldp.gradients.lora import LoraSite, adapter_name, is_lora_linear, lora_names
from tests.gradients.models import Case, clipped, oracle, relative


def _model(**config: Any) -> nn.Module:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["0", "2"], r=2, **config))
    for name, p in model.named_parameters():
        if "lora_B" in name:
            p.data = torch.randn(p.shape)
    return model.train()


def _layer(model: nn.Module) -> Any:
    return next(m for m in model.modules() if is_lora_linear(m))


def _case(model: nn.Module) -> Case:
    features = torch.randn(64, 6, generator=torch.Generator().manual_seed(1))
    return Case(model, lambda numbers: model(features[numbers]))


def _agrees(model: nn.Module, settings: GradientSettings | None = None) -> bool:
    case = _case(model)
    numbers = torch.arange(20).view(5, 4)
    norms, grads = oracle(case, numbers)
    thresholds = torch.full((5,), float(norms.median()) * 1.01)
    engine = PerUnitGradients(model, settings)
    found = engine.clipped_sum(lambda a, b: case.losses(numbers[a:b]), thresholds, 4)
    return relative(found.sums, clipped(norms, grads, thresholds)) < 1e-5


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"use_rslora": True, "lora_alpha": 3},
        {"lora_bias": True},
        {"init_lora_weights": False},
        {"modules_to_save": ["0"], "target_modules": ["2"]},
    ],
)
@pytest.mark.parametrize("fuse", [True, False])
def test_flavours_of_plain_lora_equal_the_oracle(config: dict[str, Any], fuse: bool) -> None:
    if "target_modules" in config:
        base = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
        model = peft.get_peft_model(base, peft.LoraConfig(r=2, **config))
    else:
        model = _model(**config)
    assert _agrees(model, GradientSettings(fuse_lora=fuse))


def test_the_fused_node_is_used_for_plain_lora_and_given_up_for_everything_else() -> None:
    assert adapter_name(_layer(_model())) == "default"
    assert adapter_name(_layer(_model(lora_bias=True))) is None
    dropped = _model(lora_dropout=0.5)
    assert adapter_name(_layer(dropped)) is None
    assert adapter_name(_layer(dropped.eval())) == "default"
    merged: Any = _model()
    merged.merge_adapter()
    assert adapter_name(_layer(merged)) is None
    disabled: Any = _model()
    with disabled.disable_adapter():
        assert adapter_name(_layer(disabled)) is None


def test_two_active_adapters_run_as_peft_wrote_them() -> None:
    model: Any = _model()
    model.add_adapter(
        "other", peft.LoraConfig(target_modules=["0", "2"], r=3, init_lora_weights=False)
    )
    model.base_model.set_adapter(["default", "other"])
    assert adapter_name(_layer(model)) is None
    assert _agrees(model)


def test_adapter_dropout_gives_the_gradient_of_the_mask_that_was_drawn() -> None:
    model = _model(lora_dropout=0.5)
    case = _case(model)
    numbers = torch.arange(4)[None]
    params = {n: p for n, p in model.named_parameters() if p.requires_grad}
    torch.manual_seed(5)
    truth = torch.autograd.grad(case.losses(numbers)[0], list(params.values()))
    engine = PerUnitGradients(model)
    torch.manual_seed(5)
    found = engine.clipped_sum(lambda a, b: case.losses(numbers[a:b]), [1e9], 4)
    assert relative(found.sums, dict(zip(params, truth, strict=True))) < 1e-6


@pytest.mark.parametrize("config", [{"use_dora": True}])
def test_adapter_variants_are_refused_by_name(config: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedParameter, match="lora_magnitude_vector"):
        PerUnitGradients(_model(**config))


def test_embedding_adapters_and_other_methods_are_refused_by_name() -> None:
    table = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))
    model = peft.get_peft_model(table, peft.LoraConfig(target_modules=["0"], r=2))
    with pytest.raises(UnsupportedParameter, match="lora_embedding"):
        PerUnitGradients(model)
    base = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    scaled = peft.get_peft_model(base, peft.IA3Config(target_modules=["0"], feedforward_modules=[]))
    with pytest.raises(UnsupportedParameter, match="ia3"):
        PerUnitGradients(scaled)


def test_half_precision_base_with_single_precision_adapters_is_what_peft_computes() -> None:
    base = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)).bfloat16()
    model = peft.get_peft_model(
        base, peft.LoraConfig(target_modules=["0", "2"], r=2, init_lora_weights=False)
    )
    assert all(p.dtype == torch.float32 for p in model.parameters() if p.requires_grad)
    x = torch.randn(4, 6).bfloat16()
    plain = model(x)
    seen: list[Tensor] = []

    def losses(start: int, stop: int) -> Tensor:
        seen.append(model(x[start:stop]).detach())
        return model(x[start:stop]).float().sum(1)

    settings = GradientSettings(check_isolation=False)
    PerUnitGradients(model, settings).clipped_sum(losses, torch.ones(4), 1)
    assert seen[0].dtype == plain.dtype
    assert torch.allclose(seen[0].float(), plain.float(), atol=0.02)


def test_names_below_a_layer_are_those_of_the_whole_module() -> None:
    model = _model()
    known = {id(p): n for n, p in model.named_parameters() if p.requires_grad}
    names = lora_names(_layer(model), known)
    assert set(names) == {"lora_A.default.weight", "lora_B.default.weight"}
    assert all(name.startswith("base_model.model.0.") for name in names.values())


def test_a_trainable_base_layer_is_not_fused() -> None:
    model = _model()
    model.requires_grad_(True)
    assert not any(is_lora_linear(m) for m in model.modules())
    assert not any(isinstance(s, LoraSite) for s in PerUnitGradients(model)._sites)
    assert _agrees(model)
