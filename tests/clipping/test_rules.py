"""Neighbor tests: adversarial gradients, one entity removed, and how far the clipped sum really
moves.

All movements are in units of the clip norm. The gradient of a unit is a function of the unit's own
entities, as any loss of the library is; the adversary may choose that function freely.
"""

import zlib
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reldp.clipping.rules import RULES, ClippingRule, get_rule, is_builtin
from reldp.errors import InputError, PlanError
from reldp.plan import PrivacyPlan

U = 0  # the entity that the two neighboring graphs differ in
Batch = list[tuple[int, ...]]  # tuples (end0, end1, negatives...)
Gradient = Callable[[tuple[int, ...]], np.ndarray]


def _contributions(
    rule: str, batch: Batch, gradient: Gradient
) -> dict[tuple[int, ...], np.ndarray]:
    """What each tuple adds to the sum, keyed by the tuple."""
    if not batch:
        return {}
    array = np.array(batch)
    units = get_rule(rule).units(array[:, :2], array[:, 2:], clip_norm=1.0)
    found = {row: np.zeros(3) for row in batch}
    for index in range(units.num_units):
        vector = gradient(tuple(units.entities[index].tolist()))
        norm = float(np.linalg.norm(vector))
        scale = min(1.0, float(units.thresholds[index]) / norm) if norm > 0 else 0.0
        found[batch[int(units.tuple_index[index])]] += scale * vector
    return found


def _total(found: Iterable[np.ndarray]) -> np.ndarray:
    return np.sum([np.zeros(3), *found], axis=0)


def _arbitrary(seed: int) -> Gradient:
    """A gradient that is a fixed, unbounded and direction-free function of the unit."""

    def gradient(unit: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([seed, zlib.crc32(repr(unit).encode())])
        return rng.standard_normal(3) * 10.0 ** rng.uniform(-2, 3)

    return gradient


def _adversarial(seed: int, plus: Callable[[tuple[int, ...]], bool]) -> Gradient:
    """Huge gradients, along +e where the adversary wants the unit counted up and -e elsewhere."""
    rest = _arbitrary(seed)

    def gradient(unit: tuple[int, ...]) -> np.ndarray:
        if seed % 3 == 0:
            return rest(unit)
        return np.array([1e3 if plus(unit) else -1e3, 0.0, 0.0])

    return gradient


@st.composite
def _batches(draw: st.DrawFn) -> tuple[Batch, int]:
    """A batch with hubs and overlaps, U a negative of at most one foreign tuple; and k."""
    k = draw(st.integers(1, 4))
    entity = st.integers(1, 7)
    foreign = draw(st.lists(st.tuples(*[entity] * (k + 2)), max_size=6, unique=True))
    mine = draw(st.lists(st.tuples(*[entity] * (k + 1)), max_size=4, unique=True))
    batch: Batch = [(U, *rest) for rest in mine]
    if mine and draw(st.booleans()):
        batch[0] = (*batch[0][:2], U, *batch[0][3:])  # a masked negative: U in its own tuple
    if foreign and draw(st.booleans()):
        slot = 2 + draw(st.integers(0, k - 1))
        row = foreign[0]
        foreign[0] = (*row[:slot], U, *row[slot + 1 :])
    return batch + foreign, k


def _roles(batch: Batch) -> tuple[Batch, Batch, Batch]:
    """U's own tuples, the foreign tuple with U as a negative (or none), and all others."""
    mine = [row for row in batch if U in row[:2]]
    negative = [row for row in batch if U not in row[:2] and U in row[2:]]
    return mine, negative, [row for row in batch if U not in row]


REPLACEMENT = 99  # an entity that occurs nowhere else


@given(_batches(), st.integers(0, 50), st.sampled_from(["tuple", "pair"]))
def test_replacing_the_negative_moves_the_sum_at_most_as_far_as_the_rule_says(
    drawn: tuple[Batch, int], seed: int, rule: str
) -> None:
    batch, k = drawn
    mine, negative, others = _roles(batch)
    gradient = _adversarial(seed, lambda unit: U in unit)
    replaced = [tuple(REPLACEMENT if v == U else v for v in row) for row in negative]
    before = _total(_contributions(rule, batch, gradient).values())
    after = _total(_contributions(rule, others + replaced, gradient).values())
    bound = len(mine) + len(negative) * get_rule(rule).replacement_sensitivity(k)
    assert np.linalg.norm(before - after) <= bound + 1e-9


@given(_batches(), st.integers(0, 50), st.sampled_from(["tuple", "pair"]))
def test_removing_the_tuple_moves_the_sum_by_i_plus_j_and_changes_no_other_tuple(
    drawn: tuple[Batch, int], seed: int, rule: str
) -> None:
    batch, _ = drawn
    mine, negative, others = _roles(batch)
    gradient = _adversarial(seed, lambda unit: U in unit)
    before = _contributions(rule, batch, gradient)
    after = _contributions(rule, others, gradient)
    for row in others:
        assert before[row].tobytes() == after[row].tobytes()
    removal = get_rule(rule).removal_sensitivity()
    assert removal is not None
    bound = len(mine) + len(negative) * removal
    assert np.linalg.norm(_total(before.values()) - _total(after.values())) <= bound + 1e-9


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("rule", ["tuple", "pair"])
def test_the_stated_replacement_shift_is_reached_so_no_smaller_one_would_do(
    rule: str, k: int
) -> None:
    mine: Batch = [(U, 10 + r, *range(20 + 5 * r, 20 + 5 * r + k)) for r in range(3)]
    foreign = (1, 2, U, *range(50, 50 + k - 1))
    replaced = (1, 2, REPLACEMENT, *range(50, 50 + k - 1))
    gradient = _adversarial(1, lambda unit: U in unit)
    before = _total(_contributions(rule, [*mine, foreign], gradient).values())
    after = _total(_contributions(rule, [replaced], gradient).values())
    stated = 3 + get_rule(rule).replacement_sensitivity(k)
    assert np.linalg.norm(before - after) == pytest.approx(stated, rel=1e-12)


def _counterexample(shared_negatives: bool) -> tuple[Batch, Batch]:
    """Batches with and without U for theory.md 2.1: K = 5, k = 4, all degrees at most 5."""
    fresh = iter(range(1000, 9000))
    hubs = list(range(1, 6))
    negatives = [[next(fresh) for _ in range(4)] for _ in hubs]
    mine: Batch = [(U, a, *row) for a, row in zip(hubs, negatives, strict=True)]
    touched = hubs + ([v for row in negatives for v in row] if shared_negatives else [])
    others: Batch = [(a, next(fresh), *(next(fresh) for _ in range(4))) for a in touched]
    return mine + others, others


@pytest.mark.parametrize(
    ("shared_negatives", "size", "moved"), [(False, 10, 1.75), (True, 30, 6.75)]
)
def test_the_frequency_claim_is_false_by_the_two_counterexamples(
    shared_negatives: bool, size: int, moved: float
) -> None:
    batch, without = _counterexample(shared_negatives)
    assert len(batch) == size
    gradient = _adversarial(1, lambda unit: U in unit)
    before = _contributions("frequency", batch, gradient)
    after = _contributions("frequency", without, gradient)
    change = _total(before.values()) - _total(after.values())
    assert np.linalg.norm(change) == pytest.approx(moved, rel=1e-12)
    assert all(before[row].tobytes() != after[row].tobytes() for row in without), "not local"


def test_the_same_counterexample_respects_the_bound_of_the_proven_rules() -> None:
    batch, without = _counterexample(True)
    gradient = _adversarial(1, lambda unit: U in unit)
    for rule in ("tuple", "pair"):
        before = _total(_contributions(rule, batch, gradient).values())
        after = _total(_contributions(rule, without, gradient).values())
        assert np.linalg.norm(before - after) <= 5 + 1e-9


@given(_batches(), st.integers(0, 50))
@settings(max_examples=50)
def test_pair_with_one_negative_equals_tuple_with_one_negative(
    drawn: tuple[Batch, int], seed: int
) -> None:
    batch = list(dict.fromkeys(row[:3] for row in drawn[0]))
    gradient = _arbitrary(seed)
    if batch:
        left = _contributions("pair", batch, gradient)
        right = _contributions("tuple", batch, gradient)
        assert all(np.array_equal(left[row], right[row]) for row in batch)


def test_a_pair_threshold_never_depends_on_how_many_negatives_are_masked() -> None:
    rule = get_rule("pair")
    plain = rule.units([[0, 1]], [[2, 3]], clip_norm=3.0, mask=[[False, False]])
    masked = rule.units([[0, 1]], [[2, 0]], clip_norm=3.0, mask=[[False, True]])
    assert plain.thresholds.tolist() == masked.thresholds.tolist() == [1.5, 1.5]


def test_frequency_thresholds_are_those_of_the_paper() -> None:
    found = get_rule("frequency").thresholds(
        [[0, 1], [1, 2], [5, 6]], [[3], [4], [7]], clip_norm=4.0
    )
    assert found.tolist() == [1.0, 1.0, 2.0]


def test_layout_numbers_agree_with_the_units_themselves() -> None:
    for rule in RULES.values():
        units = rule.units([[0, 1], [2, 3]], [[4, 5, 6], [7, 8, 9]], clip_norm=1.0)
        assert units.rows_per_unit == rule.rows_per_unit(3)
        assert units.num_units == 2 * rule.units_per_tuple(3)


def test_the_frequency_rule_carries_its_status_everywhere_it_is_described() -> None:
    rule = get_rule("frequency")
    assert (rule.status, rule.is_local, rule.removal_sensitivity()) == ("claimed", False, None)
    assert rule.replacement_sensitivity(4) == 1.0  # the claim
    assert "false in the worst case" in rule.summary
    assert all(
        RULES[name].status == "proven" and RULES[name].is_local for name in ("tuple", "pair")
    )


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan"), float("inf")])
def test_a_clip_norm_that_bounds_nothing_is_refused(clip_norm: float) -> None:
    with pytest.raises(InputError, match="`clip_norm`"):
        get_rule("tuple").thresholds([[0, 1]], [[2]], clip_norm=clip_norm)


def test_an_unknown_rule_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(PlanError, match="tuple, pair, frequency"):
        get_rule("triple")


def test_a_rule_from_outside_is_claimed_until_somebody_proves_it() -> None:
    class Halved(ClippingRule):
        name = "halved"
        summary = "every tuple gradient is clipped to half of the clip norm"

        def _thresholds(self, positives, negatives, clip_norm):
            return np.full(len(negatives), clip_norm / 2)

    assert Halved().status == "claimed"
    assert {rule.name for rule in RULES.values() if rule.status == "proven"} == {"tuple", "pair"}


def test_the_list_of_rules_cannot_be_extended():
    """A rule that somebody registers, or one that says it equals every other, is not proven."""

    class Equal(get_rule("tuple").__class__):
        status = "proven"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    with pytest.raises(TypeError):
        RULES["mine"] = Equal()
    assert not is_builtin(Equal())
    assert is_builtin(get_rule("pair").__class__())


class Loose(ClippingRule):
    """Clips to ten clip norms and says so nowhere but in its sensitivities."""

    name = "loose"
    summary = "every tuple gradient is clipped to ten clip norms"

    def _thresholds(self, positives, negatives, clip_norm):
        return np.full(len(negatives), 10 * clip_norm)

    def replacement_sensitivity(self, num_negatives):
        return 20.0

    def removal_sensitivity(self):
        return 10.0


class StatedLoose(Loose):
    """The same, stated."""

    max_tuple_norm = 10.0


class Undefined(Loose):
    """Has no thresholds at all."""

    def _thresholds(self, positives, negatives, clip_norm):
        return np.full(len(negatives), np.nan)


# The accountant counts one clip norm for every tuple of the entity, whatever the rule's sensitivities say.
def test_a_plan_refuses_a_rule_whose_tuples_add_more_than_the_accountant_counts() -> None:
    settings = {
        "num_entities": 1000, "num_relations": 900, "max_degree": 5, "num_negatives": 4,
        "sample_rate": 0.01, "num_steps": 10, "delta": 1e-4,
    }  # fmt: skip
    with pytest.raises(
        PlanError, match=r"`max_tuple_norm` .* at most 1, for the loose rule, got 10"
    ):
        PrivacyPlan(**settings, clipping=StatedLoose())


@pytest.mark.parametrize("rule", [Loose(), StatedLoose(), Undefined()])
def test_thresholds_above_the_clip_norm_are_refused_whatever_the_rule_states(rule) -> None:
    with pytest.raises(PlanError, match=r"at most the clip norm, 0\.5, got the loose rule"):
        rule.units([[0, 1]], [[2, 3]], clip_norm=0.5)


@pytest.mark.parametrize("rule", list(RULES.values()))
@pytest.mark.parametrize("k", [1, 3, 7, 10, 49])
def test_no_rule_of_reldp_exceeds_the_norm_that_it_states(rule, k) -> None:
    negatives = np.arange(2, 2 + 5 * k).reshape(5, k)
    limits = rule.thresholds([[0, 1]] * 5, negatives, clip_norm=0.3)
    assert rule.max_tuple_norm <= 1
    assert (limits.reshape(5, -1).sum(axis=1) <= 0.3 * rule.max_tuple_norm * (1 + 1e-12)).all()


def test_an_empty_batch_has_no_thresholds() -> None:
    empty = np.empty((0, 2), dtype=np.int64)
    assert all(rule.thresholds(empty, empty, clip_norm=1.0).size == 0 for rule in RULES.values())
