"""Clip units: the layout that makes units views, and frequencies counted on entity indices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reldp.clipping.rules import get_rule
from reldp.clipping.units import clip_units, max_frequencies
from reldp.errors import InputError

POSITIVES = np.array([[0, 1], [1, 2]])
NEGATIVES = np.array([[3, 4, 0], [5, 6, 7]])
ENDS = np.array([[0, 1, 0], [1, 1, 0]])
MASK = np.array([[False, False, True], [False, False, False]])


def test_tuple_units_hold_both_ends_then_the_negatives() -> None:
    units = clip_units(POSITIVES, NEGATIVES, ENDS, MASK, np.ones(2), split_tuples=False)
    assert units.entities.tolist() == [[0, 1, 3, 4, 0], [1, 2, 5, 6, 7]]
    assert (units.num_units, units.rows_per_unit) == (2, 5)
    assert units.endpoints.tolist() == ENDS.tolist()
    assert units.mask.tolist() == MASK.tolist()


def test_pair_units_are_tuple_major_and_repeat_the_positive() -> None:
    units = clip_units(POSITIVES, NEGATIVES, ENDS, MASK, np.ones(6), split_tuples=True)
    assert units.entities.tolist() == [
        [0, 1, 3],
        [0, 1, 4],
        [0, 1, 0],
        [1, 2, 5],
        [1, 2, 6],
        [1, 2, 7],
    ]
    assert units.tuple_index.tolist() == [0, 0, 0, 1, 1, 1]
    assert units.endpoints[:, 0].tolist() == [0, 1, 0, 1, 1, 0]
    assert units.mask[:, 0].tolist() == [False, False, True, False, False, False]


def test_every_unit_has_the_type_of_its_tuple() -> None:
    types = np.array([7, 2], dtype=np.int32)
    for name, expected in (("tuple", [7, 2]), ("frequency", [7, 2]), ("pair", [7, 7, 7, 2, 2, 2])):
        units = get_rule(name).units(POSITIVES, NEGATIVES, clip_norm=1.0, types=types)
        assert units.types.dtype == np.int64
        assert units.types.tolist() == expected
        turned = units.take(np.arange(units.num_units)[::-1])
        assert turned.types.tolist() == expected[::-1]
        plain = get_rule(name).units(POSITIVES, NEGATIVES, clip_norm=1.0)
        assert plain.types is plain.take(np.arange(plain.num_units)).types is None
    with pytest.raises(InputError, match=r"`types` must have shape \(2,\), got \(3,\)"):
        get_rule("tuple").units(POSITIVES, NEGATIVES, clip_norm=1.0, types=[0, 0, 0])


def test_a_pair_without_a_negative_is_refused() -> None:
    with pytest.raises(InputError, match="num_negatives"):
        clip_units(POSITIVES, np.zeros((2, 0), np.int64), None, None, np.ones(0), split_tuples=True)


def test_an_empty_batch_has_no_units() -> None:
    for name in ("tuple", "pair", "frequency"):
        empty = get_rule(name).units(
            np.zeros((0, 2), np.int64), np.zeros((0, 4), np.int64), clip_norm=1.0
        )
        assert empty.num_units == 0
        assert empty.thresholds.shape == (0,)


@pytest.mark.parametrize(
    ("positives", "negatives"),
    [
        (np.zeros((2, 3), np.int64), NEGATIVES),
        (POSITIVES[:1], NEGATIVES),
        (POSITIVES.astype(float), NEGATIVES),
        (POSITIVES[0], NEGATIVES),
    ],
)
def test_a_batch_of_the_wrong_shape_is_refused(
    positives: np.ndarray, negatives: np.ndarray
) -> None:
    with pytest.raises(InputError, match="`positives`"):
        clip_units(positives, negatives, None, None, np.ones(2), split_tuples=False)


def test_ends_and_mask_must_match_the_negatives() -> None:
    with pytest.raises(InputError, match="`endpoints` and `mask`"):
        clip_units(POSITIVES, NEGATIVES, ENDS[:, :2], MASK, np.ones(2), split_tuples=False)


def test_reordering_moves_thresholds_along_and_refuses_to_lose_a_unit() -> None:
    units = get_rule("frequency").units(
        POSITIVES, NEGATIVES, clip_norm=1.0, endpoints=ENDS, mask=MASK
    )
    turned = units.take([1, 0])
    assert turned.entities.tolist() == units.entities[::-1].tolist()
    assert turned.thresholds.tolist() == units.thresholds[::-1].tolist()
    for order in ([0], [0, 0], [0, 1, 1]):
        with pytest.raises(InputError, match="`order`"):
            units.take(order)


def _slow_max_frequencies(positives: np.ndarray, negatives: np.ndarray) -> list[int]:
    sets = [set(p) | set(n) for p, n in zip(positives.tolist(), negatives.tolist(), strict=True)]
    return [max(sum(v in other for other in sets) for v in members) for members in sets]


@given(st.integers(1, 9), st.integers(0, 3), st.integers(2, 8), st.integers(0, 10_000))
def test_frequencies_equal_the_papers_sum_of_indicators(
    size: int, k: int, entities: int, seed: int
) -> None:
    # Few entities, so that hubs, shared entities, overlapping and masked negatives are common.
    rng = np.random.default_rng(seed)
    positives = rng.integers(entities, size=(size, 2))
    negatives = rng.integers(entities, size=(size, k))
    found = max_frequencies(positives, negatives).tolist()
    assert found == _slow_max_frequencies(positives, negatives)
