"""Processes that share a batch release what one process releases; they refuse to differ, and end together."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import torch

from reldp.errors import ConfigError, RunError
from reldp.gradients import ClippedSum
from reldp.processes import Processes
from reldp.training.distributed import BatchShares, _refuse_tuning
from tests.encoders.tiny import write_model
from tests.training.ports import free_port


@pytest.fixture(scope="module")
def found():
    """What all processes of all cases in `tests.training.groups` found."""
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.training.groups", home],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["features", "text", "empty"])
def test_one_two_and_three_processes_end_with_the_same_bits_and_certificate(found, kind):
    alone, *groups = found["trained"][kind]
    assert len(groups) == (1 if kind == "empty" else 2)
    for group in groups:
        for process in group:
            for name in ("weights", "certificate", "metrics", "machine"):
                assert process[name] == alone[0][name], name


@pytest.mark.parametrize("kind", ["large", "plain"])
def test_inexact_sums_differ_in_rounding_only_and_the_ledger_names_the_processes(found, kind):
    """Another number of processes is then another machine, on which a run opens a new branch."""
    (alone,), group = found["trained"][kind]
    assert len({process["weights"] for process in group}) == 1
    for one, other in zip(alone["values"], group[0]["values"], strict=True):
        # The noise on a CPU is derived from the sum, so that noisy weights of other sums have nothing in common.
        assert np.allclose(one, other, rtol=1e-4, atol=1e-7) == (kind == "plain")
    assert group[0]["machine"] == alone["machine"] | {"processes": 2}
    assert "processes" not in alone["machine"]


@pytest.mark.parametrize("kind", ["features", "pairs"])
def test_sums_gradients_and_reports_do_not_depend_on_the_number_of_processes(found, kind):
    (alone,), group = found["stepped"][kind]
    shares = [process[0].pop("own") for process in group]
    assert sum(shares) == alone[0].pop("own") == 100
    for process in group:
        for step, one in enumerate(alone):
            mine = {**process[step], "own": None}
            assert mine == {**one, "own": None}
    assert any(any(step["total"]) for step in alone)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("plan", "on rank 1 plan.num_steps is 13 and not 12"),
        ("graph", "on rank 1 the graph differs"),
        ("encoder", "on rank 1 the encoder differs"),
        ("weights", "the start of the weights differs"),
        ("settings", "on rank 1 training.learning_rate is 0.5 and not 0.001"),
        ("precision", 'on rank 1 machine.precision is "bfloat16" and not "float32"'),
        ("loss", "on rank 1 the loss differs"),
        ("versions", 'on rank 1 machine.versions.reldp is "0.0.1"'),
    ],
)
def test_processes_that_differ_are_refused_by_rank_and_difference(found, what, words):
    """In all of them; `tests.training.groups` checks that nothing was written."""
    for process in found["different"][what]:
        assert process["error"].startswith(
            "ConfigError: All processes of a run must train the same"
        )
        assert words in process["error"]


def test_other_batches_weights_and_noise_are_noticed_before_anything_is_used(found):
    for process in found["other_batch"]:
        assert "on rank 1 the batch differs" in process["error"]
    for process in found["other_weights"]:
        assert "layers.0.weight differs" in process["error"]
    for process in found["other_noise"]:
        assert "must have the same noisy sum, got different ones in step 0" in process["error"]


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("how", ["killed", "raises"])
def test_a_process_that_ends_ends_the_run_and_is_named(found, who, how):
    case = found["failing"][f"{who} {how}"]
    left = case["ended"][1 - who]["error"]
    assert left.startswith("RunError: All 2 processes of a run must be running")
    assert f"rank {who} ended" in left
    assert ("the disk of this process is full" in left) == (how == "raises")
    assert case["ended"][who] is None if how == "killed" else case["ended"][who]["error"]
    assert case["seconds"] < 60
    assert case["saved"] == 3


@pytest.mark.parametrize("who", [0, 1])
def test_a_process_that_is_asked_to_stop_stops_all_after_a_checkpoint(found, who):
    case = found["failing"][f"{who} asked"]
    assert [process["error"] for process in case["ended"]] == ["KeyboardInterrupt: "] * 2
    assert case["saved"] == 6


def test_interrupted_runs_resume_with_another_number_of_processes_to_the_same_bits(found):
    (whole,) = found["whole"]
    assert whole["counted"] == 12
    for case in found["failing"].values():
        for process in case["again"]:
            assert process == whole


def test_a_loop_of_one_s_own_is_counted_once_by_all_processes(found):
    """It is left after three of twelve steps, of which eight were reserved, and resumed in a new branch."""
    (alone,), group = found["recorded"]
    assert group[0]["weights"] == group[1]["weights"]
    for process in (alone, *group):
        assert process["steps"] == alone["steps"]
        assert process["epsilon"] == alone["epsilon"]
    assert alone["steps"]["branches"] == 2
    assert alone["steps"]["counted"] == 12


def test_evaluation_and_encoding_by_three_processes_give_what_one_gives(found):
    (((alone,), rows), (group, shared_rows)) = found["encoded"]
    assert [row["id"] for row in shared_rows] == [row["id"] for row in rows]
    assert len(rows) == alone["count"] == 300
    vectors, shared_vectors = ([r["embedding"] for r in table] for table in (rows, shared_rows))
    assert np.allclose(
        vectors, shared_vectors, rtol=0, atol=1e-6
    )  # batches of other sizes round differently
    for process in group:
        assert process["evaluation"] == alone["evaluation"]
        for name in ("vectors", "few"):
            assert np.allclose(process[name], alone[name], rtol=0, atol=1e-6)
    assert all(
        "must be the same in all" in process["error"] for process in found["asked_differently"]
    )


def test_processes_hold_out_the_same_entities_and_one_of_them_stores_the_results(found):
    (alone,), group = found["held out"]
    assert all(process == group[0] for process in group)
    assert group[0]["lines"] == 2
    for name, line in alone["holdout"].items():
        assert group[0]["holdout"][name]["mrr"] == pytest.approx(line["mrr"], abs=1e-6)


class _Two(Processes):
    """Two processes, of which the other one has no units, and another state or the same."""

    def __init__(self, other=0):
        super().__init__(rank=0, size=2)
        self._other = other

    def sum(self, values):
        if not values.is_floating_point():
            values[-1] *= 2
            values[-1] += self._other

    def gather(self, data, about=""):
        return [data, data]


def summed(processes, parts, count=4):
    shares = BatchShares(processes, {"w": 2}, inexact=(), grid=0.5, max_units=9)
    num_units = sum(part.stop - part.start for part in parts)
    own = ClippedSum(
        total=torch.tensor([3.0, -(2.0**50)], dtype=torch.float64),
        shapes={"w": torch.Size([2])},
        norms=torch.arange(num_units, dtype=torch.float64),
        losses=torch.arange(num_units, dtype=torch.float32),
        factors=torch.ones(num_units, dtype=torch.float64),
    )
    return shares.sum(own, parts, count, {"batch": {"the batch": "one"}})


def test_a_batch_whose_units_are_all_counted_once_is_summed():
    whole = summed(_Two(), [slice(0, 3), slice(3, 4)])
    assert whole.total.tolist() == [3.0, -(2.0**50)]
    assert whole.losses.dtype == torch.float32
    assert whole.norms.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ([slice(0, 4)], 5),  # a unit is missing
        ([slice(0, 4)], 3),  # one is beyond the batch
        ([slice(0, 2), slice(0, 2)], 4),  # two are counted twice
        # Also where their number and the sum of their positions are right, as with processes that split differently.
        ([slice(0, 1), slice(1, 2), slice(1, 2), slice(4, 5), slice(4, 5)], 5),
    ],
)
def test_a_missing_or_doubled_unit_is_refused(parts, count):
    with pytest.raises(RunError, match="each unit of a batch once"):
        summed(_Two(), parts, count)


def test_another_state_is_refused():
    with pytest.raises(RunError, match="the same batch, weights and settings"):
        summed(_Two(other=1), [slice(0, 4)])


def test_microbatches_are_dealt_out_in_turn():
    dealt = [
        BatchShares(Processes(rank, 3), {}, inexact=(), grid=1.0, max_units=1).of_process(range(8))
        for rank in range(3)
    ]
    assert dealt == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.parametrize(
    ("grid", "inexact", "depends"), [(1.0, (), False), (None, (), True), (1.0, ("b",), True)]
)
def test_bits_depend_on_the_number_of_processes_where_sums_are_not_whole_numbers(
    grid, inexact, depends
):
    shares = BatchShares(Processes(1, 2), {"a": 1, "b": 2}, inexact=inexact, grid=grid, max_units=1)
    assert shares.bits_depend_on_processes == depends
    assert shares.num_for_bits == (2 if depends else 1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels_that_a_gpu_chooses_by_time_are_refused(monkeypatch, device):
    class Two(Processes):
        def any(self, *flags, about=""):
            return flags

    _refuse_tuning(Two(0, 2), torch.device(device))
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    if device == "cpu":
        _refuse_tuning(Two(0, 2), torch.device(device))
    else:
        with pytest.raises(ConfigError, match=r"`torch\.backends\.cudnn\.benchmark` must be off"):
            _refuse_tuning(Two(0, 2), torch.device(device))


def on_one_gpu(model, folder, size):
    """What processes found that share one GPU."""
    port = str(free_port())
    started = []
    for rank in range(size):
        place = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": str(size)}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, "-m", "tests.training.gpu_groups", str(model), str(folder)]
        started.append(
            subprocess.Popen(
                command,
                env=os.environ | place,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    results = []
    for process in started:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        results.append(json.loads(out.splitlines()[-1]))
    return results


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_two_processes_on_one_gpu_train_what_one_trains_and_refuse_to_differ(tmp_path):
    model = write_model("bert", tmp_path / "bert")
    for size in (1, 2):
        (tmp_path / str(size)).mkdir()
    (alone,) = on_one_gpu(model, tmp_path / "1", 1)
    pair = on_one_gpu(model, tmp_path / "2", 2)
    assert pair[0]["hash"] == pair[1]["hash"]
    assert pair[0]["steps"]["counted"] == alone["steps"]["counted"] == 6
    for one, other in zip(alone["weights"], pair[0]["weights"], strict=True):
        assert np.allclose(one, other, rtol=0, atol=1e-4)
    assert alone["refusal"] == ""
    for process in pair:
        assert "on rank 1 the tensor" in process["refusal"]
