"""Costs are remembered across tests only while the accounting is what it was."""

import pytest

from reldp.accounting import PLDAccountant, pld, tradeoff
from reldp.plan import PrivacyPlan
from tests.known_costs import remember_costs

PLAN = PrivacyPlan(
    num_entities=400, num_relations=400, max_degree=2, num_negatives=2,
    expected_batch_size=10, num_steps=3, noise_multiplier=2.0, delta=1e-4,
)  # fmt: skip


@pytest.fixture
def computed(monkeypatch):
    """The number of steps of every cost that is computed; what was remembered before is left out."""
    counts, right = [], PLDAccountant.epsilon

    def epsilon(self, composition, delta):
        counts.append(composition.num_steps)
        return right(self, composition, delta)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PLDAccountant, "epsilon", epsilon)
        remember_costs(patch)
        yield counts


def test_the_same_question_is_answered_once(computed):
    assert PLAN.epsilon() == PLAN.epsilon() < PLAN.epsilon(num_steps=4)
    assert computed == [3, 4]


@pytest.mark.parametrize(
    ("owner", "name"),
    [(pld, "MANY"), (tradeoff, "np"), (pld.EpsilonSearch, "refine"), (pld, "a new name")],
)
def test_an_accounting_with_another_part_is_asked_and_its_answer_is_not_kept(computed, owner, name):
    assert PLAN.epsilon() > 0
    with pytest.MonkeyPatch.context() as patch:
        old = getattr(owner, name, None)
        new = (lambda *args: old(*args)) if callable(old) else 100
        patch.setattr(owner, name, new, raising=False)
        assert PLAN.epsilon() > 0
    assert PLAN.epsilon() > 0
    assert computed == [3, 3]


def test_tests_of_the_accounting_ask_every_time(computed, monkeypatch):
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/accounting/test_pld.py::test_x (call)")
    assert PLAN.epsilon() == PLAN.epsilon()
    assert computed == [3, 3]
