import numpy as np
import pytest

from reldp.errors import InputError
from reldp.sampling.batch import TupleBatch


def batch(num_tuples=5, num_negatives=3, **changes):
    rng = np.random.default_rng(0)
    fields = {
        "positives": rng.integers(0, 6, (num_tuples, 2)),
        "negatives": rng.integers(0, 6, (num_tuples, num_negatives)),
        "endpoints": rng.integers(0, 2, (num_tuples, num_negatives)),
        "relation_ids": np.arange(num_tuples),
    }
    return TupleBatch(**(fields | changes))


def test_mask_marks_exactly_the_negatives_that_are_ends_of_their_own_positive():
    made = batch(40, 4)
    expected = [
        [negative in positive for negative in negatives]
        for positive, negatives in zip(
            made.positives.tolist(), made.negatives.tolist(), strict=True
        )
    ]
    assert made.mask.tolist() == expected
    assert made.mask.any()
    assert not made.mask.all()


def test_mask_of_a_tuple_depends_on_that_tuple_alone():
    for kind in ({}, {"in_relations": True}):
        made = batch(10, 4, **kind)
        for i in range(10):
            names = ("positives", "negatives", "endpoints", "relation_ids")
            alone = TupleBatch(**{name: getattr(made, name)[i : i + 1] for name in names}, **kind)
            assert (alone.mask == made.mask[i : i + 1]).all()


def test_a_relation_that_shares_an_entity_with_one_before_it_is_masked_whole():
    made = batch(1, 8, positives=[[0, 9]], negatives=[[1, 9, 2, 8, 3, 8, 4, 7]], in_relations=True)
    assert made.mask.tolist() == [[True, True, False, False, True, True, False, False]]
    own = batch(1, 4, positives=[[0, 9]], negatives=[[0, 9, 1, 2]], in_relations=True)
    assert own.mask.tolist() == [[True, True, False, False]]
    assert batch(0, 4, in_relations=True).mask.shape == (0, 4)
    with pytest.raises(InputError, match="an odd number"):
        batch(2, 3, in_relations=True)


def test_empty_batches_are_ordinary():
    empty = batch(0, 4)
    assert (empty.num_tuples, empty.num_negatives) == (0, 4)
    assert empty.entities.shape == (0, 6)
    assert empty.mask.shape == (0, 4)


def test_rows_of_a_tuple_are_both_endpoints_and_its_negatives():
    made = batch(3, 2)
    assert (made.entities[:, :2] == made.positives).all()
    assert (made.entities[:, 2:] == made.negatives).all()
    assert made.entities.dtype == np.int64
    assert made.endpoints.dtype == np.int8


def test_content_stays_out_of_the_text_form():
    assert repr(batch(5, 3)) == "TupleBatch(num_tuples=5, num_negatives=3)"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("positives", {"positives": np.zeros((5, 3), int)}),
        ("positives", {"positives": np.zeros((4, 2), int)}),
        ("positives", {"positives": np.zeros((5, 2))}),
        ("negatives", {"negatives": np.zeros((4, 3), int)}),
        ("negatives", {"negatives": np.zeros(5, int), "endpoints": np.zeros(5, int)}),
        ("endpoints", {"endpoints": np.zeros((5, 2), int)}),
        ("endpoints", {"endpoints": np.full((5, 3), 2)}),
        ("endpoints", {"endpoints": np.full((5, 3), -1)}),
        ("relation_ids", {"relation_ids": np.zeros((5, 1), int)}),
        ("overflow", {"overflow": True}),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(name, changes):
    with pytest.raises(InputError, match=f"`{name}`"):
        batch(**changes)


def test_types_are_stored_read_only_and_checked() -> None:
    parts = {
        "positives": np.array([[4, 7], [1, 2]]),
        "negatives": np.array([[2], [9]]),
        "endpoints": np.array([[0], [1]]),
        "relation_ids": np.array([3, 5]),
    }
    batch = TupleBatch(**parts, types=np.array([1, 0]))
    assert batch.types.dtype == np.int32
    assert batch.types.tolist() == [1, 0]
    assert not batch.types.flags.writeable
    assert TupleBatch(**parts).types is None
    with pytest.raises(InputError, match=r"`types` must have shape \(2,\), got \(1,\)"):
        TupleBatch(**parts, types=np.array([1]))
    with pytest.raises(InputError, match="`types` must be integers"):
        TupleBatch(**parts, types=np.array([1.5, 0.0]))
