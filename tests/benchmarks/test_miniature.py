"""All experiments on tiny graphs: every method and setting, from cells to stored results."""

import json

import numpy as np
import pytest
import torch
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.levels import Levels
from benchmarks.experiments.runner import RunSettings, run_cells
from benchmarks.experiments.store import Store, read_lines
from benchmarks.experiments.training import Laboratory

import reldp
from reldp.errors import ConfigError
from tests.benchmarks.miniature import prepare_place, private, start

CELLS = [
    start(),
    start(method="nonprivate", steps=40, learning_rate=1e-2),
    start(method="nonprivate", max_degree=0),
    private(epsilon=8.0, noise=0.0, accountant="rdp", analysis="replacement"),
    private(clipping="frequency"),
    private(clipping="pair", loss="logistic"),
    private(negatives="public", pool="little-test"),
    private(method="noise-only"),
    private(average=0.9, schedule="cosine", warmup=2, clip_norm=0.1),
    private(lora_layers=1),
    private(freeze_a=True, lora_targets=("query", "key", "value", "dense"), lora_rank=4),
    private(bias_correction=True, beta2=0.99),
    private(warm_graph="little-test", warm_steps=3),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    torch.set_num_threads(1)
    return prepare_place(tmp_path_factory.mktemp("laboratory"), CELLS)


@pytest.fixture(scope="module")
def results(place, tmp_path_factory):
    output = tmp_path_factory.mktemp("results") / "cells.jsonl"
    settings = RunSettings(workers=1, seconds=3000.0, output=output, command="a test")
    assert run_cells(CELLS, place, settings) == 0
    return output


def of(results, cell: Cell):
    return next(r for r in read_lines(results) if r["id"] == cell.id)


def test_every_cell_has_one_result_with_everything_needed_to_repeat_it(results):
    available = read_lines(results)
    assert [r["id"] for r in available] == [cell.id for cell in CELLS]
    for result, cell in zip(available, CELLS, strict=True):
        assert Cell.from_dict(result["cell"]) == cell
        assert 0 < result["evaluations"]["little-test"]["mrr"] <= 1
        assert {"date", "versions", "command", "workers", "device"} <= set(result)
        if cell.method != "base":
            assert result["seconds_per_step"] > 0


def test_training_without_privacy_learns(results):
    trace = of(results, CELLS[1])["trace"]["loss"]
    assert np.mean(trace[-5:]) < np.mean(trace[:5])


def test_noise_is_calibrated_to_the_target_and_never_above_it(results):
    result = of(results, CELLS[3])
    assert 7.9 < result["epsilon"] <= 8.0
    assert result["noise_multiplier"] > 0


def test_a_run_without_capping_trains_on_all_relations(results):
    assert of(results, CELLS[2])["num_relations"] > of(results, CELLS[1])["num_relations"]


def test_noise_alone_moves_the_weights_and_learns_nothing(place):
    cell = private(method="noise-only", steps=60, learning_rate=1e-2)
    laboratory = Laboratory(place)
    laboratory.levels.calibrate([cell], laboratory.inputs)
    encoder = laboratory.encoder(cell)
    before = {n: p.detach().clone() for n, p in encoder.trainable().items()}
    result = laboratory.train(cell, laboratory.levels.plan(cell, laboratory.inputs), encoder)
    after = encoder.trainable()
    assert all(not torch.equal(before[n], p) for n, p in after.items())
    # Adam's steps from noise alone: their mean over a thousand coordinates is no direction.
    moves = torch.cat([((p - before[n]) / 1e-2).flatten() for n, p in after.items()]).detach()
    assert abs(float(moves.mean())) < 5 * float(moves.std()) / len(moves) ** 0.5
    assert result["seconds_per_step"] > 0


def test_a_warm_start_begins_with_the_weights_of_the_public_graph(place, monkeypatch):
    encoders, starts = [], []

    class Recorded(reldp.Trainer):
        def __init__(self, encoder, *args, **settings):
            encoders.append(encoder)
            starts.append({n: p.detach().clone() for n, p in encoder.trainable().items()})
            super().__init__(encoder, *args, **settings)

    monkeypatch.setattr(reldp, "Trainer", Recorded)
    cell = private(warm_graph="little-test", warm_steps=3)
    Laboratory(place).run(cell)
    assert len(starts) == 2
    warmed = encoders[0].trainable()
    assert all(torch.equal(starts[1][name], value) for name, value in warmed.items())
    assert any(not torch.equal(starts[0][name], value) for name, value in warmed.items())


def test_a_cell_whose_noise_was_never_calibrated_does_not_run(place):
    with pytest.raises(ConfigError, match="calibrated first"):
        Levels(place.levels).plan(private(noise=1.2345), Inputs(place.data))


def test_a_stored_result_stays_and_lines_cut_short_are_left_out(results, tmp_path):
    store = Store(tmp_path / "cells")
    assert store.merge(read_lines(results)) == len(CELLS)
    cut = tmp_path / "cut.jsonl"
    lines = results.read_text().splitlines()
    changed = json.loads(lines[0]) | {"seconds": -1}
    cut.write_text(json.dumps(changed) + "\n" + lines[1][:50])
    again = Store(tmp_path / "cells")
    assert again.merge(read_lines(cut)) == 0
    assert again.get(CELLS[0])["seconds"] > 0


def test_nothing_is_started_that_would_not_end_in_time(place, tmp_path):
    output = tmp_path / "cells.jsonl"
    settings = RunSettings(workers=1, seconds=0.0, output=output, command="a test")
    assert run_cells(CELLS, place, settings) == 0
    assert not output.exists()


def test_workers_run_every_cell_once(place, results, tmp_path):
    output = tmp_path / "cells.jsonl"
    cells = [CELLS[0], CELLS[8]]
    settings = RunSettings(workers=2, seconds=3000.0, output=output, command="a test")
    assert run_cells(cells, place, settings) == 0
    assert {r["id"] for r in read_lines(output)} == {cell.id for cell in cells}
    assert of(output, CELLS[0])["evaluations"] == of(results, CELLS[0])["evaluations"]


def test_an_encoder_without_a_folder_is_refused(place):
    with pytest.raises(ConfigError, match="must be a folder below --models, got 'unknown'"):
        Laboratory(place).run(start(encoder="unknown"))
