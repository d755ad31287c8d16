import numpy as np
import pytest
import torch
from transformers import AutoModel, GPT2Config, GPT2Model, MistralConfig, MistralModel

from reldp.encoders import TextEncoder
from reldp.encoders.attention import attention_options, use_short_attention
from reldp.errors import EncoderError
from reldp.gradients import short_attention
from reldp.training.identity import attention_of
from tests.encoders.tiny import TEXTS

KINDS = ["bert", "llama"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("train", ["lora", "full", "head", "last:1"])
def test_embeddings_are_those_of_the_default_attention(folders, kind, train):
    ours = TextEncoder.load(folders[kind], train=train, max_length=32, attention="short")
    default = TextEncoder.load(folders[kind], train=train, max_length=32)
    np.testing.assert_allclose(ours.encode(TEXTS), default.encode(TEXTS), atol=5e-6)
    assert (attention_of(ours), attention_of(default)) == ("short", "sdpa")


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_default_attention(folders, kind):
    gradients = []
    for attention in ("short", None):
        encoder = TextEncoder.load(folders[kind], train="full", max_length=32, attention=attention)
        table = encoder.tokenize(TEXTS)
        encoder.embed(encoder.rows(table, np.arange(len(TEXTS)))).square().sum().backward()
        gradients.append({n: p.grad for n, p in encoder.trainable().items() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], atol=1e-4, rtol=1e-4)


def test_bfloat16_weights_agree_to_their_rounding(folders):
    ours, default = (
        TextEncoder.load(folders["bert"], dtype="bfloat16", max_length=32, attention=attention)
        for attention in ("short", None)
    )
    expected = default.encode(TEXTS)
    assert np.linalg.norm(ours.encode(TEXTS) - expected) < 0.02 * np.linalg.norm(expected)


def test_the_default_stays_the_choice_of_transformers(folders):
    assert attention_options(None) == {}
    assert attention_of(TextEncoder.load(folders["bert"], attention="eager")) == "eager"


@pytest.mark.parametrize(
    "name", ["evil/kernel", "evil/kernel:function", "paged|eager", "kernels-community/flash-attn2", "", "nothing",
             "flash_attention_99"]
)  # fmt: skip
def test_code_from_elsewhere_is_refused_by_name(name):
    with pytest.raises(
        EncoderError, match=f"`attention` must be one of eager, .*, got '{name[:9]}"
    ):
        attention_options(name)


@pytest.mark.parametrize("is_installed", [True, False])
def test_flash_attention_needs_its_package(monkeypatch, is_installed):
    monkeypatch.setattr("transformers.utils.is_flash_attn_2_available", lambda: is_installed)
    if is_installed:
        options = attention_options("flash_attention_2")
        assert options == {"attn_implementation": "flash_attention_2"}
    else:
        with pytest.raises(EncoderError, match="need a package that is not installed"):
            attention_options("flash_attention_2")


def test_a_registered_implementation_is_known():
    from transformers import AttentionInterface

    AttentionInterface.register("my_own", len)
    try:
        assert attention_options("my_own") == {"attn_implementation": "my_own"}
    finally:
        del AttentionInterface._global_mapping["my_own"]


def test_a_saved_encoder_loads_without_reldp(folders, tmp_path):
    encoder = TextEncoder.load(folders["bert"], max_length=32, attention="short")
    encoder.save(tmp_path / "saved")
    model = AutoModel.from_pretrained(tmp_path / "saved")
    assert model.config._attn_implementation == "sdpa"


def test_long_texts_are_refused(folders):
    model = AutoModel.from_pretrained(folders["bert"])
    with pytest.raises(EncoderError, match=r"`max_length` must be at most 64 .* got 65"):
        use_short_attention(model, lambda: np.ones((1, 1)), max_length=65, dtype="float32")


def test_a_model_with_its_own_attention_code_is_refused(folders):
    with pytest.raises(EncoderError, match="got 'short' for MPNetModel"):
        TextEncoder.load(folders["mpnet"], max_length=16, attention="short")


def embedder(model):
    ids = torch.arange(24)[None] % model.config.vocab_size
    return lambda: model(input_ids=ids).last_hidden_state.detach().numpy()


def test_a_window_shorter_than_the_texts_is_refused():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 40}
    config = MistralConfig(**sizes, num_key_value_heads=1, intermediate_size=48, sliding_window=8)
    model = MistralModel(config).eval()
    with pytest.raises(EncoderError, match="got sliding_window from MistralAttention"):
        use_short_attention(model, embedder(model), max_length=24, dtype="float32")


def test_a_model_that_gives_other_embeddings_is_refused(monkeypatch):
    config = GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=40, n_positions=32)
    model = GPT2Model(config).eval()
    use_short_attention(model, embedder(model), max_length=24, dtype="float32")
    model.set_attn_implementation("sdpa")
    honest = short_attention.short_attention
    monkeypatch.setattr(
        short_attention,
        "short_attention",
        lambda q, *rest, **options: honest(3 * q, *rest, **options),
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    with pytest.raises(EncoderError, match="must give GPT2Model's own embeddings"):
        use_short_attention(model, embedder(model), max_length=24, dtype="float32")
