"""Sums over chunks."""

import torch

from reldp.gradients.totals import Totals

PARAMETERS = {"a": torch.ones(2, 2), "b": torch.ones(3), "c": torch.ones(1, dtype=torch.float64)}


def test_chunks_are_added_whatever_reached_which() -> None:
    totals = Totals(PARAMETERS)
    totals.add_flat(["a", "b"], torch.arange(7.0))
    totals.add_flat(["a", "b"], torch.ones(7))
    totals.add_flat(["b"], torch.full((3,), 10.0))
    totals.add("b", torch.full((3,), 100.0))
    totals.add("b", torch.full((3,), 100.0))
    sums = totals.sums()
    assert sums["a"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert sums["b"].tolist() == [215.0, 216.0, 217.0]


def test_nothing_added_is_zeros_of_every_shape_and_type() -> None:
    sums = Totals(PARAMETERS).sums()
    assert {n: s.shape for n, s in sums.items()} == {n: p.shape for n, p in PARAMETERS.items()}
    assert sums["c"].dtype == torch.float64
    assert not any(s.any() for s in sums.values())


def test_the_order_is_that_of_the_parameters() -> None:
    totals = Totals(PARAMETERS)
    totals.add("c", torch.ones(1, dtype=torch.float64))
    totals.add_flat(["b"], torch.ones(3))
    assert list(totals.sums()) == ["a", "b", "c"]
