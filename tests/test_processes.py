"""Messages and sums between processes, and what is left when one of them ends."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from reldp.errors import RunError
from reldp.processes import (
    _CHUNK,
    Processes,
    _sum_of_products,
    _take_gpu,
    bit_witness,
    join_processes,
    messages_sent,
)
from tests.training.ports import free_port

# Each process prints one line of JSON.
PROGRAM = """
import json, os, sys, torch
rank = int(os.environ["RANK"])
from reldp.errors import RunError
from reldp.processes import join_processes
p = join_processes()
assert p is join_processes()
whole = torch.tensor([2**53 + rank, -rank])
p.sum(whole)
floats = torch.tensor([0.5, float("nan") if rank == 1 else 0.0], dtype=torch.float64)
p.sum(floats)
same = torch.arange(5.0, dtype=torch.float64)
last = same.clone()
last[-1] += rank * 2.0**-50
signs = torch.where(torch.arange(5) < 2 * rank, -1.0, 1.0).double() * torch.ones(5).double()
found = {
    "place": [p.rank, p.size, p.is_first, p.is_alone],
    "whole": whole.tolist(),
    "floats": [floats[0].item(), bool(floats[1].isnan())],
    "first": p.from_first(lambda: bytes([0, 123, 255]) if rank == 0 else 1 / 0).hex(),
    "nothing": p.from_first(lambda: b"").hex(),
    "gathered": [data.decode() for data in p.gather(b"x" * rank)],
    "any": p.any(rank == 2, False, True),
    "equal": [p.all_equal(same), p.all_equal(last), p.all_equal(same[:0]), p.all_equal(signs)],
}
try:
    with p.reporting():
        if rank == 1:
            raise RunError("no more space.")
        p.wait()
except RunError as error:
    found["error"] = str(error)
try:
    p.wait()
except RunError as error:
    found["after"] = str(error)
print(json.dumps(found))
"""


def run_in_processes(program, size):
    """Return what each process of a group printed."""
    port = str(free_port())
    source = str(Path(__file__).parents[1] / "src")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ
            | {
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
            }
            | {"PYTHONPATH": source},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    printed = []
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        printed.append(out)
    return printed


@pytest.fixture(scope="module")
def found():
    """The lines of three processes."""
    return [json.loads(line) for line in run_in_processes(PROGRAM, 3)]


# What is registered first at the end of a program is called last.
ENDING = """
import atexit, os, torch, torch.distributed as dist
atexit.register(lambda: print(dist.is_initialized()))
from reldp.processes import join_processes
join_processes().sum(torch.ones(3, dtype=torch.float64))
print(dist.is_initialized())
"""


def test_the_threads_of_a_group_end_before_the_interpreter():
    assert run_in_processes(ENDING, 2) == ["True\nFalse\n"] * 2


def test_every_process_knows_its_place(found):
    assert [line["place"] for line in found] == [
        [0, 3, True, False],
        [1, 3, False, False],
        [2, 3, False, False],
    ]


def test_sums_of_whole_numbers_are_exact_beyond_floats(found):
    for line in found:
        assert line["whole"] == [3 * 2**53 + 3, -3]
        assert line["floats"] == [1.5, True]


def test_all_processes_get_what_the_first_makes(found):
    """The others do not call it: it would raise there."""
    for line in found:
        assert line["first"] == "007bff"
        assert line["nothing"] == ""
        assert line["gathered"] == ["", "x", "xx"]
        assert line["any"] == [True, False, True]


def test_one_bit_of_difference_is_noticed_by_all(found):
    for line in found:
        assert line["equal"] == [True, False, True, False]


def test_an_error_in_one_process_is_named_in_the_others_and_nobody_goes_on(found):
    assert found[1]["error"] == "no more space."
    for rank in (0, 2):
        assert "All 3 processes of a run must be running" in found[rank]["error"]
        assert "rank 1 ended (no more space)" in found[rank]["error"]
        assert f"Rank {rank} stops" in found[rank]["error"]
    for line in found:
        assert "must all be there" in line["after"]


def test_without_torchrun_there_is_one_process(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    alone = join_processes()
    assert (alone.rank, alone.size) == (0, 1)
    assert alone.is_alone
    assert alone.is_first
    values = torch.tensor([1.0])
    alone.sum(values)
    assert values.item() == 1.0
    assert alone.any(True, False) == (True, False)
    assert alone.gather(b"x") == [b"x"]
    assert alone.all_equal(values.double())


def test_one_process_of_torchrun_is_alone_too(monkeypatch):
    for name, value in {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "x",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert join_processes().is_alone


def test_processes_that_do_not_find_each_other_are_one_line(monkeypatch):
    for name, value in {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "none",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError, match="must find each other"):
        join_processes()


def test_an_error_of_one_process_alone_stays_as_it_is():
    alone = Processes()
    with pytest.raises(RunError, match="full"), alone.reporting():
        raise RunError("full")
    alone.wait()


KINDS = (
    *(torch.bool, torch.uint8, torch.bfloat16, torch.float16, torch.float32, torch.float64),
    *(torch.int64, torch.complex64, torch.float8_e4m3fn),
)


@pytest.mark.parametrize("witness", [bit_witness, _sum_of_products])
def test_a_witness_sees_every_bit_whatever_the_type_and_the_place_in_memory(witness):
    """The second one is used on GPUs."""
    for kind in KINDS:
        bits = torch.arange(1, 12) % 2
        values = bits.to(kind)
        assert witness(values) == witness(values.clone())
        assert witness(values[1:]) == witness(values[1:].clone())
        for place in (0, 5, 10):
            changed = bits.clone()
            changed[place] = 1 - changed[place]
            assert witness(changed.to(kind)) != witness(values), (kind, place)
    assert witness(torch.zeros(0)) == witness(torch.zeros(0))


@pytest.mark.parametrize("witness", [bit_witness, _sum_of_products])
def test_a_witness_sees_pairs_of_signs_and_elements_that_change_places(witness):
    values = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pair = values.clone()
    pair[[3, 7]] *= -1
    swapped = values.clone()
    swapped[[3, 7]] = values[[7, 3]]
    for changed in (pair, -values, swapped):
        assert witness(changed) != witness(values)


def test_a_witness_sees_words_that_change_places_with_those_of_another_chunk():
    values = torch.arange(3 * _CHUNK + 5, dtype=torch.int32)
    for one, other in ((1, _CHUNK), (2, 2 * _CHUNK + 1), (7, 3 * _CHUNK + 2)):
        swapped = values.clone()
        swapped[[one, other]] = values[[other, one]]
        assert _sum_of_products(swapped) != _sum_of_products(values)


def test_a_process_takes_a_gpu_only_if_there_are_so_many(monkeypatch):
    taken = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    for place in ("0", "1", "2", "x"):
        monkeypatch.setenv("LOCAL_RANK", place)
        _take_gpu()
    assert taken == [0, 1]


def test_without_a_group_no_messages_are_sent():
    assert messages_sent() == []


GPU_PROGRAM = """
import json, os, torch, torch.distributed as dist
from reldp.processes import _sum_of_products, bit_witness, messages_sent
dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1, init_method=f"file://{os.environ['STORE']}")
sent = [messages_sent()]
dist.all_reduce(torch.ones(3, device="cuda"))
sent.append(messages_sent())
dist.all_reduce(torch.ones(3))
sent.append(messages_sent())
values = torch.randn(3_000_001, generator=torch.Generator().manual_seed(0))
same = [int(bit_witness(v.cuda())) == int(_sum_of_products(v)) for v in (values, values.bfloat16(), values[:7])]
print(json.dumps({"sent": sent, "same": same}))
dist.destroy_process_group()
"""


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_messages_of_nccl_are_counted_and_a_witness_is_the_same_on_a_gpu(tmp_path):
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        [sys.executable, "-c", GPU_PROGRAM],
        env=os.environ | {"STORE": str(tmp_path / "store"), "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    first, second, third = found["sent"]
    assert first != second != third
    assert found["same"] == [True] * 3
