"""The encoder and the model are one: the same numbers before, during and after training."""

import numpy as np
import pytest
import torch
from peft import LoraConfig
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    LayerNorm,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)

from reldp.encoders.adaptation import Adaptation
from reldp.errors import EncoderError
from reldp.integrations.sentence_transformers.models import SharedEncoder
from tests.integrations.sentence_transformers.small import DIM, TEXTS, tiny

torch.set_num_threads(1)
FULL, LORA = Adaptation(train="full"), Adaptation()


def move(shared):
    """Change what is trained, as a step would."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in shared.encoder.trainable().values():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))


@pytest.mark.parametrize("keep", [False, True], ids=["merged", "kept"])
@pytest.mark.parametrize("how", [LORA, FULL, Adaptation(train="last:1"), Adaptation(lora_layers=1)])
def test_what_is_trained_is_the_model_itself(tmp_path, how, keep):
    model = tiny(tmp_path, Dense(DIM, 16), Normalize())
    before, names = model.encode(TEXTS), list(model.state_dict())
    flags = [p.requires_grad for p in model.parameters()]
    shared = SharedEncoder(model, how)
    np.testing.assert_array_equal(model.encode(TEXTS), before)
    move(shared)
    live = model.encode(TEXTS)
    assert np.abs(live - before).max() > 0.01
    np.testing.assert_allclose(shared.encoder.encode(TEXTS), live, atol=1e-6)
    shared.encoder.save(tmp_path / "saved")
    shared.finish(keep_adapters=keep)
    shared.finish(keep_adapters=keep)
    after = model.encode(TEXTS)
    np.testing.assert_allclose(after, live, atol=2e-6)
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXTS)
    if keep and how.train == "lora":
        assert model.active_adapters() == ["default"]
        np.testing.assert_allclose(saved, after, atol=2e-6)
        model.disable_adapters()
        np.testing.assert_array_equal(model.encode(TEXTS), before)
    else:
        np.testing.assert_array_equal(saved, after)
        assert list(model.state_dict()) == names
        assert [p.requires_grad for p in model.parameters()] == flags
        assert "forward" not in vars(model[0].auto_model.encoder.layer[0])


@pytest.mark.parametrize(
    ("kind", "pooling"), [("bert", "cls"), ("mpnet", "mean"), ("llama", "lasttoken")]
)
def test_pooling_and_length_are_the_models(tmp_path, kind, pooling):
    model = tiny(tmp_path, kind=kind, pooling=pooling)
    model.max_seq_length = 7
    model.tokenizer.padding_side = "left" if kind == "llama" else "right"
    side = model.tokenizer.padding_side
    shared = SharedEncoder(model, LORA)
    described = shared.encoder.describe()
    assert described["max_length"] == 7
    assert described["pooling"] == {"cls": "cls", "mean": "mean", "lasttoken": "last"}[pooling]
    np.testing.assert_allclose(shared.encoder.encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    assert model.tokenizer.padding_side == side


def test_a_model_in_bfloat16_is_merged_in_float32(tmp_path):
    model = tiny(tmp_path, model_kwargs={"dtype": torch.bfloat16})
    shared = SharedEncoder(model, LORA)
    move(shared)
    shared.encoder.save(tmp_path / "saved")
    shared.finish(keep_adapters=False)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_array_equal(saved.encode(TEXTS), model.encode(TEXTS))


def test_no_path_of_this_machine_is_described(tmp_path):
    shared = SharedEncoder(tiny(tmp_path), LORA)
    assert shared.encoder.describe()["base_model"] == "bert"
    assert str(tmp_path) not in str(shared.encoder.describe())


def test_a_name_of_the_hub_is_described():
    from types import SimpleNamespace

    from reldp.integrations.sentence_transformers.models import _name

    cached = "hub/models--owner--some-model/snapshots/0123"
    assert _name(SimpleNamespace(name_or_path=cached)) == "owner/some-model"
    assert _name(SimpleNamespace(name_or_path="owner/some-model")) == "owner/some-model"


def test_a_model_is_trained_by_one_trainer(tmp_path):
    model = tiny(tmp_path)
    shared = SharedEncoder(model, LORA)
    with pytest.raises(
        EncoderError, match="`model` must be as it was loaded, got one that another"
    ):
        SharedEncoder(model, LORA)
    shared.finish(keep_adapters=False)
    for again in (model, type(model)(modules=list(model))):
        with pytest.raises(EncoderError, match="the epsilons of two runs"):
            SharedEncoder(again, LORA)


def test_a_released_model_is_as_it_was(tmp_path):
    model = tiny(tmp_path)
    before, names = model.encode(TEXTS), list(model.state_dict())
    shared = SharedEncoder(model, Adaptation(lora_layers=1))
    move(shared)
    shared.release()
    np.testing.assert_array_equal(model.encode(TEXTS), before)
    assert list(model.state_dict()) == names
    assert "forward" not in vars(model[0].auto_model.encoder.layer[0])
    SharedEncoder(model, LORA)


def with_adapters(home):
    model = tiny(home)
    model.add_adapter(LoraConfig(task_type="FEATURE_EXTRACTION", target_modules=["query"]))
    return model


def with_a_hook(home):
    model = tiny(home)

    def double(module, inputs, output):
        output["sentence_embedding"] = 2 * output["sentence_embedding"]
        return output

    model[1].register_forward_hook(double)
    return model


def quantized(home):
    model = tiny(home)
    model[0].auto_model.hf_quantizer = object()
    return model


def without_padding(home):
    model = tiny(home, kind="llama", pooling="lasttoken")
    model.tokenizer.pad_token = None
    return model


def not_finite(home):
    model = tiny(home)
    with torch.no_grad():
        next(model[0].auto_model.parameters()).view(-1)[0] = float("nan")
    return model


def static(home):
    return SentenceTransformer(modules=[StaticEmbedding(tiny(home).tokenizer, embedding_dim=8)])


REFUSED = {
    "LayerNorm": lambda home: tiny(home, LayerNorm(DIM)),
    "StaticEmbedding": static,
    "Normalize then Dense": lambda home: tiny(home, Normalize(), Dense(DIM, 8)),
    "pool by mean, cls or lasttoken, got max": lambda home: tiny(home, pooling="max"),
    "got mean, max": lambda home: tiny(home, pooling=("mean", "max")),
    "got another with Tanh": lambda home: tiny(home, Dense(DIM, DIM, use_residual=True)),
    "got another with Sigmoid": lambda home: tiny(
        home, Dense(DIM, 8, activation_function=torch.nn.Sigmoid())
    ),
    "float32 or bfloat16, got float16": lambda home: tiny(
        home, model_kwargs={"dtype": torch.float16}
    ),
    "no adapters, got some of PEFT": with_adapters,
    "embeddings of public sentences that differ": with_a_hook,
    "got quantized ones": quantized,
    "a tokenizer with a padding token": without_padding,
    "finite": not_finite,
    "must be a SentenceTransformer, got BertModel": lambda home: tiny(home)[0].auto_model,
    "with query_length None, got 8": lambda home: tiny(home, query_length=8),
    "Transformer then Normalize": lambda home: SentenceTransformer(
        modules=[tiny(home)[0], Normalize()]
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_model_that_cannot_be_represented_is_refused_by_name(tmp_path, words):
    model = REFUSED[words](tmp_path)
    with pytest.raises(EncoderError, match=words) as refused:
        SharedEncoder(model, LORA)
    assert "\n" not in str(refused.value)


def test_a_refused_model_has_no_adapters_left(tmp_path):
    model = with_a_hook(tmp_path)
    before, names = model.encode(TEXTS), list(model.state_dict())
    with pytest.raises(EncoderError):
        SharedEncoder(model, LORA)
    np.testing.assert_array_equal(model.encode(TEXTS), before)
    assert list(model.state_dict()) == names


def test_modules_of_the_right_kinds_can_be_joined_in_the_right_order(tmp_path):
    write = tiny(tmp_path)  # the folder
    assert isinstance(write[0], Transformer)
    assert isinstance(write[1], Pooling)
    SharedEncoder(tiny(tmp_path, Dense(DIM, 8), Dense(8, 4), Normalize()), FULL)
