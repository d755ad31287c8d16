"""Deterministic inside, as before outside; machines and versions told apart."""

import pytest
import torch

import reldp
from reldp.training.repeatability import is_repeatable, machine, repeatable, versions


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
