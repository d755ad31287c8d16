"""Relations that no build writes are refused, whatever the hashes of their files say."""

from itertools import combinations

import numpy as np
import pytest

from reldp.errors import GraphError
from reldp.graph.capping import degrees
from reldp.graph.store import relation_values as module
from reldp.graph.store.progress import Progress
from reldp.graph.store.relation_values import check_relations

PAIRS = np.array(list(combinations(range(12), 2)))


def check(relations, types=None, counts=None, num_types=1, ticks=None):
    counts = degrees(relations, 12) if counts is None else counts
    report = None if ticks is None else ticks.append
    check_relations(relations, types, counts, "relations.npy", num_types, Progress(report))


def changed(place, value):
    relations = PAIRS.copy()
    relations[place] = value
    return relations


@pytest.fixture(params=["one range", "several ranges", "narrow ranges"])
def ranges(request, monkeypatch):
    """Few relations, with the ranges of many."""
    monkeypatch.setattr(module, "_CHUNK", 7)
    if request.param != "one range":
        monkeypatch.setattr(module, "_LEAST_KEYS", 5)
        monkeypatch.setattr(module, "_MAX_PASSES", 20)
    if request.param == "narrow ranges":
        monkeypatch.setattr(module, "_LARGEST", 70)


@pytest.mark.parametrize(
    ("place", "value"),
    [((5, 1), 10**6), ((5, 1), 12), ((5, 0), -3), ((65, 1), -(2**62)), ((0, 0), -1)],
)
def test_an_index_out_of_range_is_refused(place, value):
    rule = r"^relations\.npy must hold entity indices in 0\.\.11, got others\. Build the store again\.$"
    with pytest.raises(GraphError, match=rule):
        check(changed(place, value), counts=np.zeros(12, np.int64))


def test_a_relation_of_an_entity_with_itself_is_refused():
    with pytest.raises(GraphError, match=r"relations\.npy must relate two different entities"):
        check(changed(5, [7, 7]))


@pytest.mark.parametrize("change", [-1, 1, 2**62, -(2**62)])
def test_other_degrees_are_refused(change):
    counts = degrees(PAIRS, 12)
    counts[3] += change
    with pytest.raises(GraphError, match=r"degrees\.npy must count the relations of each entity"):
        check(PAIRS, counts=counts)


@pytest.mark.parametrize("code", [-1, 2, 2**31 - 1])
def test_an_unknown_type_is_refused(code):
    types = np.zeros(len(PAIRS), np.int32)
    types[9] = code
    with pytest.raises(GraphError, match=r"types\.npy must hold codes of types in 0\.\.1, got"):
        check(PAIRS, types, num_types=2)


@pytest.mark.usefixtures("ranges")
def test_repeats_are_refused_in_either_direction():
    check(PAIRS)
    check(PAIRS[::-1])
    for row in (0, 30, 65):
        for pair in (PAIRS[row], PAIRS[row][::-1]):
            with pytest.raises(GraphError, match=r"must name a pair of entities once"):
                check(np.concatenate([PAIRS, [pair]]))


@pytest.mark.usefixtures("ranges")
def test_relations_with_types_repeat_if_type_and_direction_agree():
    both = np.concatenate([PAIRS, PAIRS[:, ::-1], PAIRS])
    types = np.repeat(np.array([0, 0, 2], np.int32), len(PAIRS))
    check(both, types, num_types=3)
    types[-1] = 0
    with pytest.raises(GraphError, match="must name a source, type and target once"):
        check(both, types, num_types=3)


@pytest.mark.usefixtures("ranges")
def test_progress_is_reported():
    ticks = []
    check(PAIRS, ticks=ticks)
    ended = [tick for tick in ticks if tick.ended]
    assert len(ended) == 3
    assert all(tick.done == tick.total for tick in ended)


@pytest.mark.usefixtures("ranges")
def test_no_relations_are_right():
    check(np.empty((0, 2), np.int64))
    check(np.empty((0, 2), np.int64), np.empty(0, np.int32))
