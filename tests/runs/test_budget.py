"""A budget enters a run once, before it starts, and keeps its limit whatever happens."""

import stat
from dataclasses import replace

import pytest

from reldp.accounting.search import SearchSize
from reldp.errors import ConfigError, LedgerError, PlanError, ResumeError, RunError
from reldp.runs import budget_file
from reldp.runs.budget import NAME, Budget
from tests.runs.test_budget_cost import OTHER, PLAN


@pytest.fixture
def folder(tmp_path):
    Budget.create(tmp_path).close()
    return tmp_path


def tokens(*names):
    return [name.encode().hex().ljust(32, "0") for name in names]


def test_a_run_is_entered_once_for_each_token(folder):
    one, two = tokens("a", "b")
    with Budget.open(folder) as budget:
        assert budget.enter_run(one, PLAN)
        assert not budget.enter_run(one, PLAN)
        assert budget.epsilon(1e-6) == PLAN.epsilon()
        assert budget.enter_run(two, OTHER)
    with Budget.open(folder) as budget:
        assert [charge.plan for charge in budget.charges] == [PLAN, OTHER]
        with pytest.raises(ConfigError, match="the plan that its budget knows"):
            budget.enter_run(one, OTHER)
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600


def test_a_limit_refuses_what_would_exceed_it_and_enters_nothing(folder):
    both = replace(PLAN, num_steps=120).epsilon()
    with Budget.open(folder) as budget:
        budget.set_limit(both * 1.001, 1e-6)
        for token in tokens("a", "b"):
            budget.enter_run(token, PLAN)
        before = (folder / NAME).read_bytes()
        with pytest.raises(PlanError, match="The budget must stay within epsilon"):
            budget.enter_run(tokens("c")[0], replace(PLAN, num_steps=1))
        with pytest.raises(PlanError, match="The budget must stay within epsilon"):
            budget.enter_search(tokens("s")[0], PLAN, SearchSize(mean=3.0))
        assert not budget.enter_run(tokens("a")[0], PLAN)  # it is in there
        with pytest.raises(PlanError, match="`limit` must be at least"):
            budget.set_limit(both / 2, 1e-6)
        with pytest.raises(
            PlanError, match=r"`limit` must cover what is spent, got .* where no epsilon does"
        ):
            budget.set_limit(50.0, 1e-6, adaptive=True)  # deltas of two runs are more
        assert (folder / NAME).read_bytes() == before


def test_once_adaptive_means_added_for_ever(folder):
    with Budget.open(folder) as budget:
        budget.set_limit(50.0, 1e-5, adaptive=True)
        for token in tokens("a", "b"):
            budget.enter_run(token, PLAN)
        assert budget.epsilon(1e-5) == pytest.approx(2 * PLAN.epsilon(), rel=1e-12)
        budget.set_limit(40.0, 1e-5)
        assert budget.is_adaptive
        assert budget.epsilon(1e-5) == pytest.approx(2 * PLAN.epsilon(), rel=1e-12)


LIMIT, LOWER, HIGHER = (30.0, 1e-5), (25.0, 8e-6), (40.0, 1e-4)


@pytest.mark.parametrize(
    ("before", "after", "guarantee", "is_late"),
    [
        ([], [], None, False),
        ([(*LIMIT, False)], [(*HIGHER, False)], None, False),
        ([(*LIMIT, True)], [], LIMIT, False),
        ([(*HIGHER, True), (*LIMIT, False)], [], LIMIT, False),
        ([(*LIMIT, True)], [(*LOWER, False)], LIMIT, False),
        ([(*LIMIT, True)], [(*HIGHER, True)], HIGHER, True),
        ([(*LIMIT, True)], [(*HIGHER, True), (*LOWER, True)], HIGHER, True),
        ([(*LIMIT, True)], [(LOWER[0], HIGHER[1], True)], (LIMIT[0], HIGHER[1]), True),
        ([], [(*LIMIT, True)], LIMIT, True),
        ([(*LIMIT, False)], [(*LOWER, True)], LIMIT, True),
    ],
)
def test_the_guarantee_of_an_adaptive_budget_covers_every_limit_since_its_first_run(
    folder, before, after, guarantee, is_late
):
    with Budget.open(folder) as budget:
        for epsilon, delta, adaptive in before:
            budget.set_limit(epsilon, delta, adaptive=adaptive)
        budget.enter_run(tokens("a")[0], replace(PLAN, delta=1e-6))
        for epsilon, delta, adaptive in after:
            budget.set_limit(epsilon, delta, adaptive=adaptive)
        assert budget.guarantee == guarantee
        assert budget.is_guarantee_late is is_late if guarantee else True


def test_units_and_claims_do_not_mix(folder):
    relation = replace(PLAN, unit="relation", max_degree=1)
    claimed = replace(PLAN, clipping="frequency")
    with Budget.open(folder) as budget:
        with pytest.raises(ConfigError, match="`unit` must be entity in this budget, got relation"):
            budget.enter_run(tokens("a")[0], relation)
        with pytest.raises(PlanError, match="plans with a proof, got one whose epsilon is claimed"):
            budget.enter_run(tokens("a")[0], claimed)
        budget.set_limit(99.0, 1e-6)
        with pytest.raises(
            PlanError, match="got infinite with this run, which adds no noise"
        ) as said:
            budget.enter_run(tokens("a")[0], replace(PLAN, noise_multiplier=0.0))
        assert "delta is not below" not in str(said.value)  # which would not help
        assert budget.charges == []


def test_two_budgets_in_a_folder_are_refused(folder):
    with pytest.raises(ConfigError, match="must be new"):
        Budget.create(folder)
    (folder / NAME).unlink()
    Budget.create(folder).close()  # nothing was entered, so nothing is lost
    with Budget.open(folder) as budget:
        budget.enter_run(tokens("a")[0], PLAN)
    (folder / NAME).unlink()
    with pytest.raises(ConfigError, match="must not have lost its budget"):
        Budget.create(folder)


def test_a_run_that_was_made_before_is_entered_whatever_the_limit(folder):
    with Budget.open(folder) as budget:
        budget.set_limit(1e-3, 1e-6)
        with pytest.raises(PlanError, match="The budget must stay within"):
            budget.enter_run(tokens("a")[0], PLAN)
        assert budget.enter_run(tokens("a")[0], PLAN, is_spent=True)
        assert budget.epsilon(1e-6) == PLAN.epsilon()


def test_a_session_must_follow_the_one_that_was_noted(folder):
    one, two, three = ("1" * 64, "2" * 64, "3" * 64)
    with Budget.open(folder) as budget:
        token, other = tokens("a", "b")
        assert not budget.has_session(token)
        budget.note_session(token, [one], one)
        budget.note_session(token, [one, two], two)
        assert budget.has_session(token)
        assert not budget.has_session(other)
        for hashes in ([one], [one, three]):  # put back, or continued from a copy
            with pytest.raises(ResumeError, match="copied before, or put back"):
                budget.note_session(token, hashes, hashes[-1])
        length = len(budget.entries)
        budget.note_session(token, [one, two], two)
        assert len(budget.entries) == length  # it is noted


def test_a_changed_line_is_seen(folder):
    with Budget.open(folder) as budget:
        budget.set_limit(9.0, 1e-6)
        budget.enter_run(tokens("a")[0], PLAN)
    place = folder / NAME
    whole = place.read_bytes()
    for damaged in (
        whole.replace(b'"epsilon":9.0', b'"epsilon":99.0'),
        b"".join(whole.splitlines(keepends=True)[1:]),
        b"\xff\n" + whole,
        whole + b"[]\n",
        b"",
    ):
        place.write_bytes(damaged)
        with pytest.raises(LedgerError, match=rf"{NAME}|ledger"):
            Budget.open(folder)


def test_an_entry_that_is_impossible_is_named(folder):
    entry = {"kind": "run", "token": "x", "purpose": "train", "plan": {}, "date": "2026-01-01"}
    with Budget.open(folder) as budget:
        budget._file.append(entry)
    with pytest.raises(LedgerError, match=rf"{NAME} line 2 must be an entry of a budget"):
        Budget.open(folder)


def test_a_full_disk_enters_nothing(folder, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with Budget.open(folder) as budget:
        before = (folder / NAME).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(budget_file.os, "fsync", full)
            with pytest.raises(RunError, match="the disk is full"):
                budget.enter_run(tokens("a")[0], PLAN)
        assert (folder / NAME).read_bytes() == before
        assert budget.charges == []
        budget.enter_run(tokens("a")[0], PLAN)
    with Budget.open(folder) as budget:
        assert len(budget.charges) == 1
