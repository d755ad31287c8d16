import warnings

import pytest
import torch
from torch import nn
from transformers import (
    AutoModel,
    GPT2Config,
    GPT2Model,
    MambaConfig,
    MambaModel,
    OPTConfig,
    OPTModel,
    PreTrainedModel,
)

from reldp.encoders.adaptation import Adaptation, adapt, transformer_layers
from reldp.errors import EncoderError

EXPECTED_TARGETS = {
    "BertModel": {"query", "value"},
    "MPNetModel": {"q", "v"},
    "LlamaModel": {"q_proj", "v_proj"},
}


def trained(model, how):
    adapted, described = adapt(model, how, "base")
    return [n for n, p in adapted.named_parameters() if p.requires_grad], adapted, described


@pytest.fixture
def model(folder):
    return AutoModel.from_pretrained(folder).eval()


def test_query_value_trains_adapters_on_query_and_value_of_every_layer(model):
    expected = EXPECTED_TARGETS[type(model).__name__]
    names, _, described = trained(model, Adaptation(lora_rank=2, lora_targets="query-value"))
    assert set(described["lora_targets"]) == expected
    assert len(names) == 3 * 2 * len(expected)
    assert all(".lora_A." in name or ".lora_B." in name for name in names)


def test_lora_starts_as_no_change_and_from_its_seed(model, folder):
    inputs = {"input_ids": torch.tensor([[4, 5, 6]])}
    with torch.no_grad():
        before = model(**inputs).last_hidden_state
        _, adapted, _ = trained(model, Adaptation(seed=3))
        assert torch.equal(adapted(**inputs).last_hidden_state, before)

    def first_adapter(seed):
        again = AutoModel.from_pretrained(folder)
        adapted, _ = adapt(again, Adaptation(seed=seed), "base")
        return next(p for p in adapted.parameters() if p.requires_grad)

    assert torch.equal(first_adapter(3), first_adapter(3))
    assert not torch.equal(first_adapter(3), first_adapter(4))


def test_lora_in_the_last_layers_leaves_the_others_alone(model):
    path, _ = transformer_layers(model)
    names, _, _ = trained(model, Adaptation(lora_rank=2, lora_layers=1))
    assert names
    assert all(f"{path}.2." in name for name in names)


def test_by_default_all_linear_covers_the_layers_and_not_the_pooler(model):
    path, layers = transformer_layers(model)
    inside = [m for m in layers.modules() if isinstance(m, nn.Linear)]
    names, _, _ = trained(model, Adaptation(lora_rank=2))
    assert len(names) == 2 * len(inside)
    assert all(f"{path}." in name for name in names)


def test_layers_with_more_than_attention_and_feed_forward_get_query_and_value():
    """OPT's feed-forward sees rows of all texts at once; a state space has no such layers at all."""
    small = {"hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 32}
    opt = OPTModel(OPTConfig(**small, ffn_dim=24, num_attention_heads=2, word_embed_proj_dim=16))
    assert trained(opt, Adaptation())[2]["lora_targets"] == ["q_proj", "v_proj"]
    mamba = MambaModel(MambaConfig(**small, state_size=4))
    assert trained(mamba, Adaptation())[2]["lora_targets"] == ["in_proj"]
    mamba = MambaModel(MambaConfig(**small, state_size=4))
    with pytest.raises(EncoderError, match=r"layers that take adapters.*Use query-value"):
        adapt(mamba, Adaptation(lora_targets="all-linear"), "base")


def test_weights_of_inputs_by_outputs_are_adapted_as_such():
    gpt2 = GPT2Model(GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=32, n_positions=16))
    names, adapted, described = trained(gpt2, Adaptation(lora_rank=2))
    assert described["lora_targets"] == ["c_attn", "c_fc", "c_proj"]
    assert len(names) == 2 * 2 * 4  # c_proj is in attention and in the feed-forward
    assert adapted.peft_config["default"].fan_in_fan_out


def test_no_target_at_all_is_refused():
    with pytest.raises(EncoderError, match="must name a linear layer, got none"):
        Adaptation(lora_targets=[])


def test_named_targets_are_used_and_unknown_ones_refused(model):
    target = sorted(EXPECTED_TARGETS[type(model).__name__])[0]
    names, _, described = trained(model, Adaptation(lora_targets=[target]))
    assert described["lora_targets"] == [target]
    assert len(names) == 6
    with pytest.raises(EncoderError, match=r"'attention'.*This model has: "):
        adapt(model, Adaptation(lora_targets=["attention"]), "base")


def test_full_trains_everything_but_the_pooler(model):
    names, _, _ = trained(model, Adaptation(train="full"))
    everything = {name for name, _ in model.named_parameters()}
    assert everything - set(names) == {n for n in everything if "pooler" in n}


def test_last_layers_are_trained_with_the_norm_after_them(model):
    path, _ = transformer_layers(model)
    names, _, _ = trained(model, Adaptation(train="last:2"))
    expected = {
        n for n, _ in model.named_parameters() if n.startswith((f"{path}.1.", f"{path}.2."))
    }
    if type(model).__name__ == "LlamaModel":
        expected.add("norm.weight")
    assert set(names) == expected


def test_none_trains_nothing(model):
    assert trained(model, Adaptation(train="none"))[0] == []


@pytest.mark.parametrize(
    "how", [Adaptation(), Adaptation(train="full"), Adaptation(train="last:1")]
)
def test_what_is_trained_is_in_single_precision(folders, how):
    half = AutoModel.from_pretrained(folders["llama"], dtype=torch.bfloat16)
    adapted, _ = adapt(half, how, "base")
    kinds = {p.dtype for p in adapted.parameters() if p.requires_grad}
    assert kinds == {torch.float32}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"train": "last:0"}, "train"),
        ({"train": "LORA"}, "train"),
        ({"train": None}, "train"),
        ({"lora_rank": 0}, "lora_rank"),
        ({"lora_rank": 2.5}, "lora_rank"),
        ({"lora_alpha": -1.0}, "lora_alpha"),
        ({"lora_layers": 0}, "lora_layers"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(settings, named):
    with pytest.raises(EncoderError, match=f"`{named}`"):
        Adaptation(**settings)


def test_more_layers_than_there_are_is_refused(model):
    with pytest.raises(EncoderError, match="at most last:3"):
        adapt(model, Adaptation(train="last:4"), "base")
    with pytest.raises(EncoderError, match="`lora_layers` must be at most 3"):
        adapt(model, Adaptation(lora_layers=4), "base")


def test_a_rank_beyond_every_width_is_refused(model):
    _, layers = transformer_layers(model)
    linears = [m for m in layers.modules() if isinstance(m, nn.Linear)]
    widest = max(max(m.weight.shape) for m in linears)
    with pytest.raises(EncoderError, match=f"`lora_rank` must be at most {widest}, the width"):
        adapt(model, Adaptation(lora_rank=widest + 1, lora_targets="all-linear"), "base")
    trained(model, Adaptation(lora_rank=widest, lora_targets="all-linear"))


def test_a_model_without_a_stack_of_layers_is_refused():
    with pytest.raises(EncoderError, match="stack of layers"):
        transformer_layers(nn.Linear(2, 2))


def test_the_description_names_only_what_matters():
    assert Adaptation(train="full", lora_rank=3).to_json() == {"train": "full"}
    values = Adaptation(lora_rank=3, lora_targets=("q", "v")).to_json()
    assert values["lora_alpha"] == 6.0
    assert values["lora_targets"] == ["q", "v"]


def test_what_peft_asks_of_newer_transformers_warns_nobody(model, monkeypatch):
    def deprecated(model):
        text = "`is_gradient_checkpointing` is deprecated and will be removed in v6. Use another."
        warnings.warn(text, FutureWarning, stacklevel=2)
        return False

    monkeypatch.setattr(PreTrainedModel, "is_gradient_checkpointing", property(deprecated))
    trained(model, Adaptation(train="lora", lora_rank=2))
