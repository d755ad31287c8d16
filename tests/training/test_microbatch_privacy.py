"""Who else is there must not be seen: in tables, in the cutting of batches, in what fills frames."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import reldp
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.gradients.microbatches import MicrobatchShapes
from reldp.graph import EntityGraph
from reldp.noise import Streams
from reldp.runs.changes import newest_branch
from reldp.runs.ledger import read_ledger
from reldp.training import Trainer
from reldp.training.step import PrivateStep
from tests.encoders.tiny import SENTENCE, write_model
from tests.training.small import make_step, small_parts, small_plan

torch.set_num_threads(1)


def ring(texts):
    count = len(texts)
    return EntityGraph.from_lists(
        list(range(count)), [(i, (i + 1) % count) for i in range(count)], text=texts
    )


def vectors(encoder, texts):
    """What a table holds of each text."""
    table = encoder.table(ring(texts), keep_states=True)
    if hasattr(table, "features"):
        return list(table.features)
    return np.split(table.states, table.offsets[1:-1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("train", ["head", "last:1", "pooling"])
@pytest.mark.parametrize("kind", ["bert", "mpnet", "llama"])
def test_a_text_that_leaves_a_graph_changes_no_other_text_s_vectors(tmp_path, kind, train, dtype):
    words = SENTENCE.split()
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(words, 1 + i % 20)) for i in range(150)]
    folder = write_model(kind, tmp_path / kind)
    pooling = "mean" if train == "pooling" else None
    encoder = TextEncoder.load(folder, train=train, dtype=dtype, max_length=16, pooling=pooling)
    whole = vectors(encoder, texts)
    for leaves in (0, 7, 40):
        rest = vectors(encoder, texts[:leaves] + texts[leaves + 1 :])
        others = whole[:leaves] + whole[leaves + 1 :]
        assert all(np.array_equal(a, b) for a, b in zip(others, rest, strict=True))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("units", [None, 1, 3])
def test_every_unit_is_in_one_microbatch_whatever_the_order(kind, units):
    generator = np.random.default_rng(0)
    shapes = MicrobatchShapes(
        rows_per_unit=6, typical_units=8, max_length=200, device_type=kind, units=units
    )
    for _ in range(50):
        longest = generator.integers(1, 260, generator.integers(1, 60))  # some longer than all
        microbatches = shapes.split(longest)
        met = [unit for part, _ in microbatches for unit in range(part.start, part.stop)]
        assert met == list(range(len(longest)))
        for part, shape in microbatches:
            assert 0 < part.stop - part.start <= shape.capacity
            assert longest[part].max() <= shape.length


def test_padding_that_repeats_a_unit_that_is_not_finite_leave_no_trace_in_a_large_layer():
    """Its weights are summed by a matrix product, where zero times infinity would spread."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(300, 96)).astype(np.float32)
    graph = EntityGraph.from_lists(
        list(range(300)), [(i, (i + 1) % 300) for i in range(300)], features=features
    )
    capped = graph.promise_degrees(2)
    parts = FeatureEncoder(96), capped, small_plan(capped, noise_multiplier=0.0)
    step = make_step(*parts, score="dot")
    step.open(Streams(bytes(range(32))))
    units = step.clip_units(step.draw(1, 0))
    bad = units.entities[0, 0]
    hit = (units.entities == bad).any(1)
    whole = step.clipped_sum(units)
    spoilt = step._rows.table.features.copy()
    spoilt[bad] = np.inf
    step._rows.table = replace(step._rows.table, features=spoilt)
    found = step.clipped_sum(units)
    assert len(found.norms) == units.num_units < step._shapes.units_of(1)
    assert torch.isfinite(found.total).all()
    assert found.factors[hit].tolist() == [0.0] * int(hit.sum())
    assert torch.equal(found.norms[~hit], whole.norms[~hit])
    assert torch.equal(found.factors[~hit], whole.factors[~hit])


def test_a_run_of_another_version_goes_on_with_fresh_noise(tmp_path, monkeypatch):
    """Bits differ between versions: the same noise must not meet the sums of both."""

    def stop(*_args):
        raise KeyboardInterrupt

    with monkeypatch.context() as older:
        older.setattr(reldp, "__version__", "0.1.0")
        older.setattr(PrivateStep, "draw", stop)
        with pytest.raises(KeyboardInterrupt):
            Trainer(*small_parts()).fit(tmp_path / "run")
    Trainer(*small_parts()).fit(tmp_path / "run")
    opened = newest_branch(read_ledger(tmp_path / "run" / "ledger.jsonl"))
    assert "versions.reldp was '0.1.0'" in opened["reason"]
    assert opened["stream_number"] > 0
