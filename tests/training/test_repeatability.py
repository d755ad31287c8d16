"""Deterministic inside, as before outside; machines and versions told apart."""

import hashlib
import os
import subprocess
import sys

import pytest
import torch

import reldp
from reldp.training.repeatability import (
    is_repeatable,
    machine,
    matmul_precision,
    repeatable,
    versions,
)


def test_settings_hold_inside_and_are_restored_even_after_an_error():
    torch.set_num_threads(1)
    seen = []

    def fail_inside():
        with repeatable("cpu", 2):
            seen.append((torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()))
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert seen == [(True, 2)]
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1
    assert torch.utils.deterministic.fill_uninitialized_memory


def test_only_a_cpu_is_relied_on():
    assert is_repeatable("cpu")
    assert not is_repeatable("cuda")
    assert not is_repeatable("cuda:1")
    with repeatable("cuda", 1):
        assert not torch.are_deterministic_algorithms_enabled()


def test_threads_are_part_of_the_machine():
    assert machine("cpu", 1) != machine("cpu", 2)
    assert machine("cpu", 1)["processor"]


def test_versions_name_what_computes():
    found = versions()
    assert found["reldp"] == reldp.__version__
    assert found["torch"].startswith(torch.__version__.split("+")[0])


def test_deterministic_products_repeat_to_the_bit():
    torch.manual_seed(0)
    a, b = torch.randn(200, 300), torch.randn(300, 100)
    with repeatable("cpu", 2):
        first = a @ b
        assert all(torch.equal(first, a @ b) for _ in range(5))


def test_settings_of_numerical_libraries_are_part_of_the_machine(monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    before = machine("cpu", 1)
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    assert machine("cpu", 1) == before | {"environment.MKL_CBWR": "AVX2"}
    for value in (
        "/home/somebody/x",
        "a\nb",
        os.fsdecode(b"\xff"),
    ):  # the ledger is public, and UTF-8
        monkeypatch.setenv("MKL_CBWR", value)
        stated = machine("cpu", 1)["environment.MKL_CBWR"]
        assert stated == f"SHA-256 {hashlib.sha256(os.fsencode(value)).hexdigest()}"
    monkeypatch.delenv("MKL_CBWR")
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert machine("cpu", 1) != before
    finally:
        torch.set_float32_matmul_precision(precision)
    assert machine("cpu", 1) == before


def test_a_setting_that_nobody_listed_changes_the_probe():
    with repeatable("cpu", 1):
        before = machine("cpu", 1)
        assert machine("cpu", 1) == before
        torch.set_flush_denormal(True)
        try:
            after = machine("cpu", 1)
        finally:
            torch.set_flush_denormal(False)
    assert {name for name in before if before[name] != after[name]} == {"probe_sha256"}


def test_the_probe_is_the_same_in_another_process():
    code = (
        "import torch; torch.set_num_threads(1)\n"
        "from reldp.training.repeatability import machine; print(machine('cpu', 1)['probe_sha256'])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1


def test_precisions_that_are_set_by_old_and_new_names_have_a_word_too():
    """Torch refuses to say what the precision is, which must not end a run."""
    matmul, before = torch.backends.mkldnn.matmul, torch.backends.mkldnn.matmul.fp32_precision
    known = matmul_precision()
    matmul.fp32_precision = "bf16"
    try:
        assert matmul_precision() not in ("highest", "high", "medium", known)
    finally:
        matmul.fp32_precision = before
    assert matmul_precision() == known
