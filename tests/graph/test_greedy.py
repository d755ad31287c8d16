"""The greedy choice in numpy is the sequential one."""

import numpy as np
import pytest

from reldp.graph import greedy as module
from reldp.graph.greedy import Greedy, room_of


def sequential(room, ones, others):
    left, accepted = room.tolist(), []
    for one, other in zip(ones.tolist(), others.tolist(), strict=True):
        fits = left[one] > 0 and left[other] > 0
        accepted.append(fits)
        if fits:
            for end in {one, other}:
                left[end] -= 1
    return accepted


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 17])
@pytest.mark.parametrize("seed", range(8))
def test_the_choice_is_the_sequential_one(monkeypatch, seed, block):
    """Hubs, endpoints without a limit, and relations of an owner with itself."""
    monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(seed)
    ends = np.minimum(rng.geometric(0.03, (2, 2000)), 80) - 1
    over = rng.random(80) < 0.8
    expected = sequential(room_of(over, 4), *ends)
    choice = Greedy(room_of(over, 4))
    got = [
        value
        for part in np.array_split(np.arange(2000), 3)
        for value in choice.accept(ends[0][part], ends[1][part]).tolist()
    ]
    assert got == expected
    assert 0 < sum(got) < 2000


def test_a_huge_bound_keeps_everything():
    ends = np.array([0, 0, 0]), np.array([1, 2, 1])
    assert Greedy(room_of(np.ones(3, dtype=bool), 10**15)).accept(*ends).all()
