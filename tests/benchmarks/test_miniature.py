"""The whole harness on tiny graphs: every method and lever, from preparation to stored results."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.experiments.cells import Cell
from benchmarks.experiments.inputs import Inputs
from benchmarks.experiments.levels import Levels
from benchmarks.experiments.runner import RunSettings, run_cells
from benchmarks.experiments.store import Store, read_lines
from benchmarks.experiments.training import Laboratory, key_of, run_steps

from reldp.encoders import TextEncoder
from reldp.errors import ConfigError
from reldp.training import Trainer
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
    settings = RunSettings(workers=1, seconds=300.0, output=output, command="a test")
    assert run_cells(CELLS, place, settings) == 0
    return output


def of(results, cell: Cell):
    return next(r for r in read_lines(results) if r["id"] == cell.id)


def test_every_cell_has_one_result_with_everything_needed_to_repeat_it(results):
    found = read_lines(results)
    assert [r["id"] for r in found] == [cell.id for cell in CELLS]
    for result, cell in zip(found, CELLS, strict=True):
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


def test_noise_alone_draws_no_batch_and_moves_the_weights_all_the_same(place, results):
    cell = private(method="noise-only")
    assert set(of(results, cell)["trace"]["loss"]) == {-1.0}
    laboratory = Laboratory(place)
    encoder = laboratory._encoder(cell)
    before = {n: p.detach().clone() for n, p in encoder.trainable().items()}
    run_steps(cell, laboratory.levels.plan(cell, laboratory.inputs), encoder, laboratory.inputs)
    assert all(not torch.equal(before[n], p) for n, p in encoder.trainable().items())


def test_a_cell_whose_noise_was_never_calibrated_does_not_run(place):
    with pytest.raises(ConfigError, match="calibrated first"):
        Levels(place.levels).plan(private(noise=1.2345), Inputs(place.inputs))


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


def test_workers_give_the_same_numbers_as_one_process(place, results, tmp_path):
    output = tmp_path / "cells.jsonl"
    cells = [CELLS[0], CELLS[8]]
    settings = RunSettings(workers=2, seconds=300.0, output=output, command="a test")
    assert run_cells(cells, place, settings) == 0
    for cell in cells:
        assert of(output, cell)["evaluations"] == of(results, cell)["evaluations"]


def test_the_harness_and_the_trainer_learn_the_same_weights_bit_for_bit(
    place, tmp_path, monkeypatch
):
    cell = private(average=0.9, schedule="linear", clip_norm=0.5, seed=3)
    laboratory = Laboratory(place)
    Levels(place.levels).calibrate(cell, laboratory.inputs)
    laboratory.levels = Levels(place.levels)
    plan = laboratory.levels.plan(cell, laboratory.inputs)
    ours = laboratory._encoder(cell)
    run_steps(cell, plan, ours, laboratory.inputs)
    # A run's key comes from the operating system; here both must have the same.
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: key_of(cell.seed))
    monkeypatch.setattr("reldp.runs.session.bound_key", lambda key, identity: key)
    theirs = laboratory._encoder(cell)
    graph = open_little(place)
    trainer = Trainer(
        theirs,
        graph.cap_degrees(cell.max_degree, seed=0),
        plan,
        learning_rate=cell.learning_rate,
        schedule="linear",
        pairing=cell.pairing,
        average=0.9,
        optimizer_options={"betas": (0.9, cell.beta2)},
        threads=1,
        progress=False,
    )
    trainer.fit(tmp_path / "run")
    mine, his = ours.trainable(), theirs.trainable()
    assert mine.keys() == his.keys()
    assert all(torch.equal(mine[name], his[name]) for name in mine)


def open_little(place):
    from benchmarks.experiments.inputs import open_graph

    return open_graph("little-train", place.inputs.parent / "data")


def test_prepared_tokens_are_those_of_the_encoder(place):
    encoder = TextEncoder.load(place.inputs.parent / "bert", max_length=16)
    table = encoder.table(open_little(place))
    prepared = Inputs(place.inputs).tokens("little-train", "tiny", 16)
    assert np.array_equal(table.ids, prepared.ids)
    assert np.array_equal(table.offsets, prepared.offsets)
    assert table.pad_id == prepared.pad_id


def test_cells_run_where_pyarrow_is_not_installed():
    blocked = "import sys; sys.modules['pyarrow'] = None; import benchmarks.experiments.runner"
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", blocked], check=True, cwd=root, timeout=120)
