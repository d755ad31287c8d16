import json

import numpy as np
import pytest
import torch
from peft import PeftModel
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from reldp.encoders.pooling import pool
from reldp.encoders.saving import merged_state
from reldp.encoders.text import TextEncoder
from tests.encoders.tiny import TEXTS, suited


def shaken(encoder, seed=0):
    """The encoder after something like training: every trainable parameter moved."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in encoder.trainable().values():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return encoder


@pytest.mark.parametrize("train", ["lora", "full", "last:1", "head", "none"])
@pytest.mark.parametrize("pooling", ["mean", "last", "cls or last"])
def test_sentence_transformers_gives_the_same_embeddings(folder, tmp_path, train, pooling):
    pooling = suited(pooling, folder)
    encoder = shaken(TextEncoder.load(folder, train=train, pooling=pooling, max_length=9))
    base = TextEncoder.load(folder, train="none", pooling=pooling, max_length=9)
    ours = encoder.encode(TEXTS)
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    if train != "none":
        assert np.abs(ours - base.encode(TEXTS)).max() > 0.05


@pytest.mark.parametrize("settings", [{"head_hidden": (12, 7), "head_dim": 5}, {"head_dim": 4}, {}])
@pytest.mark.parametrize("normalize", [True, False])
def test_a_head_is_saved_as_dense_modules(folder, tmp_path, settings, normalize):
    loaded = TextEncoder.load(folder, train="head", normalize=normalize, **settings)
    encoder = shaken(loaded)
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, encoder.encode(TEXTS), atol=1e-5)
    again = TextEncoder.load(tmp_path / "model", train="none")
    np.testing.assert_allclose(again.encode(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    assert again.dim == encoder.dim


def test_transformers_alone_gives_the_same_token_embeddings(folder, tmp_path):
    encoder = shaken(TextEncoder.load(folder, pooling="mean"))
    encoder.save(tmp_path / "model")
    model = AutoModel.from_pretrained(tmp_path / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt", padding_side="right")
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    pooled = pool(hidden, inputs["attention_mask"], "mean").numpy()
    np.testing.assert_allclose(pooled, encoder.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("layers", [None, 1])
def test_peft_on_the_base_model_gives_the_same_embeddings(folder, tmp_path, layers):
    encoder = shaken(TextEncoder.load(folder, pooling="mean", lora_rank=3, lora_layers=layers))
    encoder.save(tmp_path / "model")
    base = AutoModel.from_pretrained(folder)
    adapted = PeftModel.from_pretrained(base, tmp_path / "model" / "adapter").eval()
    table = encoder.tokenize(TEXTS)
    ids, mask = (torch.from_numpy(rows) for rows in table.rows(np.arange(len(TEXTS))))
    with torch.no_grad():
        hidden = adapted(input_ids=ids, attention_mask=mask).last_hidden_state
    theirs = pool(hidden, mask, "mean").numpy()
    np.testing.assert_allclose(theirs, encoder.encode(table), atol=1e-5)


@pytest.mark.parametrize("train", ["lora", "full", "head"])
def test_saving_does_not_change_the_encoder_by_a_bit(folder, tmp_path, train):
    encoder = shaken(TextEncoder.load(folder, train=train))
    before = {name: value.clone() for name, value in encoder.module.state_dict().items()}
    embeddings = encoder.encode(TEXTS)
    encoder.save(tmp_path / "model")
    assert np.array_equal(encoder.encode(TEXTS), embeddings)
    for name, value in encoder.module.state_dict().items():
        assert torch.equal(value, before[name])


def test_merged_weights_are_the_base_plus_the_adapters(folder):
    encoder = shaken(TextEncoder.load(folder, lora_rank=2))
    base = AutoModel.from_pretrained(folder).state_dict()
    merged = merged_state(encoder.module.backbone)
    assert set(merged) == set(base)
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert len(changed) == len(encoder.trainable()) // 2  # A and B make one change
    for name, module in encoder.module.backbone.get_base_model().named_modules():
        if hasattr(module, "lora_A"):
            low, high = module.lora_A["default"].weight, module.lora_B["default"].weight
            expected = base[f"{name}.weight"] + 2.0 * high @ low
            torch.testing.assert_close(merged[f"{name}.weight"], expected.detach())


def test_a_half_precision_encoder_is_saved_in_single_precision(folders, tmp_path):
    encoder = shaken(TextEncoder.load(folders["bert"], dtype="bfloat16"))
    encoder.save(tmp_path / "model")
    loaded = AutoModel.from_pretrained(tmp_path / "model")
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert {p.dtype for p in encoder.module.backbone.get_base_model().parameters()} == {
        torch.float32,
        torch.bfloat16,
    }


def test_nothing_about_this_machine_and_no_pickle_is_written(folder, tmp_path):
    TextEncoder.load(folder).save(tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        assert path.suffix not in {".bin", ".pt", ".pkl"}
        if path.suffix in {".json", ".md", ".txt"}:
            text = path.read_text()
            assert str(folder.parent) not in text
            assert str(tmp_path) not in text
    described = json.loads((tmp_path / "model" / "encoder.json").read_text())
    assert described["adaptation"]["train"] == "lora"


def test_a_gguf_model_is_saved_as_an_ordinary_one(folders, tmp_path):
    encoder = shaken(TextEncoder.load(folders["packed"], lora_rank=2))
    encoder.save(tmp_path / "model")
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, encoder.encode(TEXTS), atol=1e-5)
