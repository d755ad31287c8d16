"""An adversary searches for units that move others: near null spaces, at all scales, in odd widths.

theory.md section 2: with all other random draws the same, one tuple less moves the sum by at most
the clip norm, and every other tuple's share of it not at all. The search makes what breaks this in
floating point: inputs that the starting weights nearly map to zero, so that scores divide rounding
errors; equal rows; huge and tiny values; widths whose kernels depend on a row's place. Its control,
the fast layout forced on every encoder, must be refuted.
"""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoTokenizer, ConvBertConfig, ConvBertModel

from reldp._validate import TYPED_LOSSES
from reldp.clipping import ClipUnits
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.training.step import PrivateStep
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import make_step, small_plan, small_types, some_units

torch.set_num_threads(1)

COUNT = 40
CLIP = 1.0
KINDS = ["null", "equal", "huge", "tiny", "mixed"]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]


def hostile_features(encoder, kind, generator):
    """Features (COUNT, width) of one kind."""
    width = encoder.settings["in_dim"]
    plain = generator.normal(size=(COUNT, width))
    if kind == "equal":
        return np.repeat(plain[:1], COUNT, axis=0)
    if kind == "huge":
        return plain * 1e15
    if kind == "tiny":
        return plain * 1e-15
    weight = encoder.layers[0].weight.detach().double().cpu().numpy()
    _, values, directions = np.linalg.svd(weight)
    null = directions[int((values > 1e-9).sum()) :] if weight.shape[0] < width else directions[-1:]
    near = generator.normal(size=(COUNT, len(null))) @ null
    return near if kind == "null" else near + plain * (generator.random((COUNT, 1)) < 0.3) * 1e-4


def prepared(widths, kind, score, seed, device="cpu", negatives=3, **loss):
    """A step on hostile features, and a batch of tuples; with types if there is a typed loss."""
    generator = np.random.default_rng(seed)
    encoder = FeatureEncoder(widths[0], hidden=widths[1:-1], dim=widths[-1], bias=False, seed=seed)
    features = hostile_features(encoder, kind, generator).astype(np.float32)
    graph = EntityGraph.from_lists(
        list(range(COUNT)),
        [(i, (i + 1) % COUNT) for i in range(COUNT)],
        features=features,
        types=small_types(COUNT) if loss else None,
    )
    capped = graph.promise_degrees(2)
    plan = small_plan(
        capped,
        num_negatives=negatives,
        expected_batch_size=4.0,
        noise_multiplier=1.0,
        clip_norm=CLIP,
    )
    encoder.to(device)
    step = make_step(encoder, capped, plan, score=score, device=device, **loss)
    step.open(Streams(bytes([seed]) * 32))
    rows = 2 + negatives
    entities = np.stack([generator.permutation(COUNT)[:rows] for _ in range(12)])
    units = ClipUnits(
        entities=entities,
        endpoints=generator.integers(0, 2, (12, negatives)).astype(np.int8),
        mask=np.zeros((12, negatives), dtype=bool),
        thresholds=np.full(12, CLIP),
        tuple_index=np.arange(12),
        types=np.arange(12) % 3 if loss else None,
    )
    return step, units


def moves(step, units):
    """By how much each tuple that leaves moves the sum, and all others, in clip norms."""

    def total(places):
        return step.clipped_sum(some_units(units, places)).total

    places = np.arange(units.num_units)
    whole = total(places)
    found = []
    for place in places:
        less, alone = total(np.delete(places, place)), total(places[place : place + 1])
        moved = float((whole - less).norm()) * step._plan.grid / CLIP
        found.append((moved, float((whole - less - alone).abs().max())))
    return np.array(found)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("score", ["cosine", "dot"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_tuple_moves_another_and_none_moves_the_sum_by_more_than_the_clip_norm(
    kind, score, device
):
    """Widths 1 to 40; exact zeros: sums are whole numbers."""
    generator = np.random.default_rng(len(kind) + len(score))
    shapes = [(w, int(generator.integers(1, 12))) for w in range(1, 41, 3)]
    shapes += [(7, 5), (33, 8), (7, 5, 5), (9, 1), (65, 3), (13, 7, 2)]
    for seed, widths in enumerate(shapes):
        step, units = prepared(widths, kind, score, seed, device, negatives=1 + seed % 4)
        found = moves(step, units)
        assert found[:, 0].max() <= 1.0, (widths, step._shapes.layouts)
        assert found[:, 1].max() == 0.0, (widths, step._shapes.layouts)
        step.close()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", TYPED_LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_typed_losses_keep_tuples_apart_as_well(kind, name, device):
    for seed, widths in enumerate([(7, 4), (33, 8), (13, 7, 2), (5, 6), (17, 12)]):
        for score, objective in (("cosine", "infonce"), ("dot", "hinge")):
            loss = {"loss": name, "objective": objective}
            step, units = prepared(widths, kind, score, seed, device, 1 + seed % 4, **loss)
            with torch.no_grad():
                noise = torch.randn(3, widths[-1], generator=torch.Generator().manual_seed(seed))
                step.parameters["loss.relations.weight"].add_(noise.to(device))
            found = moves(step, units)
            assert found[:, 0].max() <= 1.0, (widths, step._shapes.layouts)
            assert found[:, 1].max() == 0.0, (widths, step._shapes.layouts)
            step.close()


def by_place(linear):
    """Matrix products whose every second row is rounded otherwise, within the error that products have."""

    def product(rows, weight, bias=None):
        error = 2.0**-24 * linear(rows.abs(), weight.abs())
        odd = torch.arange(len(rows), device=rows.device) % 2
        return linear(rows, weight, bias) + odd.reshape(-1, *[1] * (rows.dim() - 1)) * error

    return product


def worst_moves():
    """The largest moves of the sum and of other tuples, on inputs that show what rounding may do."""
    worst = []
    for seed, widths in enumerate([(7, 5), (9, 3), (11, 5), (33, 8), (7, 5, 5), (15, 9), (13, 7)]):
        for kind in ("null", "mixed"):
            step, units = prepared(widths, kind, "cosine", seed)
            worst.append(moves(step, units).max(axis=0))
            step.close()
    return np.array(worst).max(axis=0)


def test_the_search_refutes_a_step_whose_layout_was_not_verified(monkeypatch):
    """The control: products over all rows that depend on a row's place, as those of many CPUs do."""
    monkeypatch.setattr(F, "linear", by_place(F.linear))
    monkeypatch.setattr(PrivateStep, "prepare", lambda self: None)
    monkeypatch.setattr(PrivateStep, "_check_again", lambda self, step, branch: None)
    sums, others = worst_moves()
    assert others > 0
    assert sums > 1.0


def test_a_step_finds_such_products_out_and_keeps_tuples_apart(monkeypatch):
    monkeypatch.setattr(F, "linear", by_place(F.linear))
    sums, others = worst_moves()
    assert others == 0
    assert sums <= 1.0


def test_padding_has_no_weight_whatever_the_clip_norm():
    """A threshold of 1 for padding let one tuple contribute more than twice the clip norm."""
    for clip in (0.05, 1e-3, 7.0):
        generator = np.random.default_rng(0)
        features = generator.normal(size=(COUNT, 6)).astype(np.float32)
        graph = EntityGraph.from_lists(
            list(range(COUNT)), [(i, (i + 1) % COUNT) for i in range(COUNT)], features=features
        )
        capped = graph.promise_degrees(2)
        plan = small_plan(
            capped, num_negatives=2, expected_batch_size=8.0, clip_norm=clip, noise_multiplier=0.5
        )
        step = make_step(FeatureEncoder(6), capped, plan)
        step.open(Streams(bytes(32)))
        entities = np.array([[0, 1, 5, 9]])
        flags = np.zeros((1, 2))
        units = ClipUnits(
            entities=entities,
            endpoints=flags.astype(np.int8),
            mask=flags.astype(bool),
            thresholds=np.full(1, clip),
            tuple_index=np.zeros(1, dtype=np.int64),
        )
        total = step.clipped_sum(units).total
        assert 0 < float(total.norm()) * step._plan.grid <= clip
        step.close()


def test_no_text_moves_another_in_a_model_that_looks_at_padding(tmp_path):
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 32, "vocab_size": 40, "embedding_size": 32}
    config = ConvBertConfig(**sizes, pad_token_id=1, initializer_range=0.3)
    ConvBertModel(config).save_pretrained(tmp_path)
    mpnet = write_model("mpnet", tmp_path / "mpnet")  # whose padding token is not 0
    AutoTokenizer.from_pretrained(mpnet).save_pretrained(tmp_path)
    texts = [" ".join(SENTENCE.split()[: 1 + i % 6]) for i in range(COUNT)]
    pairs = [(i, (i + 1) % COUNT) for i in range(COUNT)]
    capped = EntityGraph.from_lists(list(range(COUNT)), pairs, text=texts).promise_degrees(2)
    plan = small_plan(capped, num_negatives=3, expected_batch_size=4.0, noise_multiplier=1.0)
    encoder = TextEncoder.load(tmp_path, lora_rank=2, max_length=8, pooling="mean")
    step = make_step(encoder, capped, plan)
    step.open(Streams(bytes(32)))
    units = ClipUnits(
        entities=np.array([[0, 1, 2, 6, 7], [1, 0, 8, 2, 6], [5, 4, 3, 10, 9]]),  # the last is long
        endpoints=np.zeros((3, 3), np.int8),
        mask=np.zeros((3, 3), dtype=bool),
        thresholds=np.ones(3),
        tuple_index=np.arange(3),
    )
    found = moves(step, units)
    assert 0.5 < found[:, 0].max() <= 1.0
    assert found[:, 1].max() == 0.0
