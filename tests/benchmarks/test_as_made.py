"""Encoders as they were made: splits, starts of adapters, the choice of settings, table and figure."""

import pytest
import torch
from benchmarks.as_made import COMBINED, ENTITIES, GAP, NOUNS, SELECTED, START
from benchmarks.experiments.as_made_figure import panels, write_figure
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.store import Store
from benchmarks.experiments.subspaces import (
    adapters,
    projected,
    public_bases,
    scale_change,
    start_adapters,
)
from benchmarks.experiments.tables.as_made import section
from benchmarks.experiments.tuning import VALIDATION

from reldp import TextEncoder
from reldp.graph import EntityGraph
from tests.benchmarks.made_up import store_of
from tests.benchmarks.miniature import write_graph
from tests.encoders.tiny import write_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("little")
    write_graph(folder, "little", 0)
    write_model("bert", folder / "tiny")
    return folder


@pytest.fixture
def encoder(place):
    return TextEncoder.load(place / "tiny", lora_rank=2, max_length=16, seed=0)


def test_parts_share_no_entity_and_no_text(place):
    inputs = Inputs(place)
    seen, unseen = inputs.graph("little-seen"), inputs.graph("little-unseen")
    assert not set(seen.ids) & set(unseen.ids)
    texts = [set(part.entities.column("text").to_pylist()) for part in (seen, unseen)]
    assert not texts[0] & texts[1]
    assert seen.num_entities + unseen.num_entities == inputs.graph("little").num_entities
    assert 0.1 < unseen.num_entities / inputs.graph("little").num_entities < 0.3


def test_an_orthogonal_start_has_rows_as_long_as_random_ones(encoder):
    start_adapters(encoder, "orthogonal", {}, 2.0)
    for layer in adapters(encoder.module).values():
        rows = layer.lora_A["default"].weight
        torch.testing.assert_close(rows @ rows.T, 4 / 3 * torch.eye(2))


def test_bases_are_orthonormal_and_lead_with_what_gradients_weigh(place, encoder):
    graph = EntityGraph.read(place / "little")
    weighted = public_bases(encoder, graph, weighted=True)
    plain = public_bases(encoder, graph, weighted=False)
    assert weighted.keys() == adapters(encoder.module).keys()
    for name, (left, right) in weighted.items():
        for basis in (left, right):
            identity = torch.eye(len(basis), dtype=basis.dtype)
            torch.testing.assert_close(basis.T @ basis, identity)
        assert not torch.allclose(left[:, 0].abs(), plain[name][0][:, 0].abs(), atol=1e-3)
    assert all(p.grad is None for p in encoder.trainable().values())


def test_a_projected_step_stays_in_the_bases(place, encoder):
    bases = public_bases(encoder, EntityGraph.read(place / "little"), weighted=True)
    parameters = list(encoder.trainable().values())
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    with projected(encoder, bases, 3) as name:
        optimizer = getattr(torch.optim, name)(parameters, lr=1e-3)
        optimizer.step()
        for basis, parameter in zip(optimizer.bases, parameters, strict=True):
            outside = torch.eye(len(basis)) - basis @ basis.T
            left = parameter.shape[0] == len(basis)
            rest = outside @ parameter.grad if left else parameter.grad @ outside
            assert rest.abs().max() < 1e-5
            assert parameter.grad.abs().max() > 1e-3
    assert not hasattr(torch.optim, name)


def test_half_of_a_change_is_half(encoder):
    layer = next(iter(adapters(encoder.module).values()))
    with torch.no_grad():
        layer.lora_B["default"].weight.fill_(2.0)
    scale_change(encoder, 0.5)
    assert layer.lora_B["default"].weight.unique().tolist() == [1.0]


def test_the_selected_settings_are_the_best_on_the_validation_graph():
    store = Store()
    known, entities = {}, {}
    for name, changes in (GAP | COMBINED).items():
        results = [store.get(START.but(epsilon=e, **changes)) for e in (4.0, 1.0)]
        scores = [r["evaluations"][VALIDATION]["mrr"] for r in results if r]
        if len(scores) == 2:
            known[name] = sum(scores)
        if scores and "negatives" not in changes:
            entities[name] = scores[0]
    assert len(known) > 5
    assert COMBINED[max(known, key=known.__getitem__)] is SELECTED
    assert COMBINED[max(entities, key=entities.__getitem__)] is ENTITIES
    assert VALIDATION not in NOUNS.base.tests


def made_up(tmp_path, ours):
    cells = {NOUNS.base: 0.5} | {NOUNS.nonprivate(seed): 0.6 for seed in range(3)}
    cells |= {NOUNS.private(4.0, seed): value for seed, value in enumerate(ours)}
    return store_of(tmp_path, cells)


@pytest.mark.parametrize(
    ("ours", "kept", "said"),
    [
        ((0.57, 0.58, 0.59), "80 %", "**reached**"),
        ((0.53, 0.54, 0.55), "40 %", "**missed** by 30 points"),
    ],
)
def test_the_table_says_what_was_kept(tmp_path, ours, kept, said):
    text = section(made_up(tmp_path, ours))
    row = next(line for line in text.splitlines() if line.startswith("| WordNet nouns | unseen"))
    cells = row.strip("| ").split(" | ")
    assert cells[3:5] == ["50.0", "60.0 ± 0.0"]
    assert cells[-2] == kept
    assert said in text


def test_a_loss_is_named(tmp_path):
    text = " ".join(section(made_up(tmp_path, (0.49, 0.49, 0.49))).split())
    assert "2 are below it: WordNet nouns to unseen (-1.0)" in text


def test_the_figure_shows_scores_and_levels(tmp_path):
    store = made_up(tmp_path, (0.57, 0.58, 0.59))
    levels, points = panels(store)["wordnet-nouns-unseen"]
    assert [round(level.mean, 6) for level in levels] == [50.0, 60.0]
    assert {e: [round(v, 6) for v in values] for e, values in points.items()} == {
        4.0: [57.0, 58.0, 59.0]
    }
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_figure(store, tmp_path / name)
    first, second = ((tmp_path / name / "as_made.svg").read_bytes() for name in "ab")
    assert first == second
    write_figure(Store(tmp_path / "none"), tmp_path / "a")
    assert not (tmp_path / "a" / "as_made.svg").exists()
