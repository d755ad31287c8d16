from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from reldp.accounting.discretization import hockey_stick
from reldp.accounting.dominating import dominating_pair
from reldp.auditing.audit import audit_mechanism, default_deltas
from reldp.auditing.designs import OPPOSING_ELSEWHERE, ZERO_ELSEWHERE
from reldp.errors import InputError
from reldp.plan import PrivacyPlan

KEY = bytes(range(32))


def plan(**changes):
    settings = {
        "num_entities": 12, "num_relations": 4, "max_degree": 1, "num_negatives": 2,
        "sample_rate": 0.4, "num_steps": 1, "noise_multiplier": 1.0, "delta": 0.05,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def epsilon_of_pair(pair, delta):
    """Epsilon of one step from the exact profile of a dominating pair, the larger direction."""
    excess = lambda e: max(float(v[0]) for v in hockey_stick(pair, np.array([e]))) - delta  # noqa: E731
    return brentq(excess, 1e-9, 60.0)


def without_reweighting(settings, delta):
    """A wrong accountant: anchored, but both sides see every batch size equally often."""
    pair = dominating_pair(settings.event, "anchored", -80.0)
    total = np.log(np.exp(pair.log_weights).sum(axis=1, keepdims=True))
    return epsilon_of_pair(replace(pair, log_weights=pair.log_weights - total), delta)


def with_smaller_shift(settings, delta):
    """A wrong accountant: anchored, but a negative moves the sum by 0.7 only."""
    event = replace(settings.event, negative_removal=0.7)
    return epsilon_of_pair(dominating_pair(event, "anchored", -80.0), delta)


def test_at_full_sampling_the_replacement_analysis_is_nearly_reached():
    settings = plan(sample_rate=1.0, noise_multiplier=2.0, analysis="replacement")
    audit = audit_mechanism(
        settings, trials=4000, deltas=[0.05], key=KEY, designs=[OPPOSING_ELSEWHERE]
    )
    assert not audit.refuted
    assert audit.tightest.share > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_the_anchored_analysis_is_nearly_reached_and_needs_its_reweighting(seed):
    settings = plan(noise_multiplier=2.0, analysis="anchored")
    audit = audit_mechanism(
        settings, trials=8000, deltas=[0.05], key=bytes([seed] * 32), designs=[OPPOSING_ELSEWHERE]
    )
    assert not audit.refuted
    assert audit.tightest.share > 0.75
    wrong = without_reweighting(settings, 0.05)
    assert wrong < audit.tightest.epsilon


@pytest.mark.parametrize("seed", range(3))
def test_a_smaller_shift_for_negatives_is_refuted(seed):
    settings = plan(analysis="anchored")
    audit = audit_mechanism(
        settings, trials=4000, deltas=[0.05], key=bytes([seed] * 32), designs=[ZERO_ELSEWHERE],
        claimed=lambda delta: with_smaller_shift(settings, delta),
    )  # fmt: skip
    assert audit.refuted
    assert audit.tightest.epsilon < settings.epsilon()


def test_wrong_accountants_agree_with_the_right_one_where_nothing_is_wrong():
    settings = plan(num_negatives=0, analysis="anchored")
    for wrong in (without_reweighting, with_smaller_shift):
        assert wrong(settings, 0.05) == pytest.approx(settings.epsilon(), rel=1e-3)


@pytest.mark.parametrize("clipping", ["tuple", "pair"])
def test_composed_steps_are_consistent_and_show_more_than_one(clipping):
    settings = plan(clipping=clipping, num_steps=4)
    one = audit_mechanism(settings, trials=1000, deltas=[0.05], key=KEY, designs=[ZERO_ELSEWHERE])
    four = audit_mechanism(
        settings, trials=1000, num_steps=4, deltas=[0.05], key=KEY, designs=[ZERO_ELSEWHERE]
    )
    assert not one.refuted
    assert not four.refuted
    assert four.tightest.epsilon > one.tightest.epsilon > 0.2


@pytest.mark.parametrize(
    "changes",
    [
        {"negatives": "unprotected", "pool_size": 10},
        {"negatives": "public", "pool_size": 50},
        {"unit": "relation"},
    ],
    ids=["unprotected", "public", "relation"],
)
def test_other_pools_and_units_are_audited_too(changes):
    settings = plan(**changes, noise_multiplier=0.5)
    audit = audit_mechanism(settings, trials=2000, deltas=[0.05], key=KEY, designs=[ZERO_ELSEWHERE])
    assert not audit.refuted
    assert audit.tightest.share > 0.5


def test_a_key_makes_an_audit_repeatable():
    runs = [
        audit_mechanism(plan(), trials=200, key=KEY, designs=[ZERO_ELSEWHERE]) for _ in range(2)
    ]
    assert runs[0].bounds == runs[1].bounds


@pytest.mark.parametrize("norm", [1e-12, 1000.0])
def test_the_clip_norm_changes_nothing(norm):
    one, other = (
        audit_mechanism(
            plan(clip_norm=size), trials=300, key=KEY, designs=[ZERO_ELSEWHERE, OPPOSING_ELSEWHERE]
        )
        for size in (1.0, norm)
    )
    assert [bound.claimed for bound in other.bounds] == [bound.claimed for bound in one.bounds]
    for here, there in zip(one.bounds, other.bounds, strict=True):
        assert there.epsilon == pytest.approx(here.epsilon, abs=1e-3)


def test_the_plans_own_delta_is_among_the_defaults():
    assert default_deltas(plan(delta=1e-6)) == (1e-6, 1e-4, 1e-3, 1e-2, 5e-2)
    assert default_deltas(plan(delta=2e-2)) == (2e-2, 5e-2)


def test_progress_counts_every_step(monkeypatch):
    monkeypatch.setattr("reldp.auditing.mechanism._PART_STEPS", 70)
    done, totals = [], set()

    def progress(steps, total):
        done.append(steps)
        totals.add(total)

    audit_mechanism(plan(), trials=200, key=KEY, designs=[ZERO_ELSEWHERE], progress=progress)
    assert sum(done) == 2 * (200 + 100)
    assert max(done) == 70  # a long audit reports while its steps run
    assert totals == {sum(done)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 5}, "`trials` must be an integer from 100 to 100000000, got 5"),
        ({"num_steps": 0}, "`num_steps` must be an integer of at least 1, got 0"),
        ({"deltas": []}, "`deltas` must be a list of one or more, got "),
        ({"deltas": 0.01}, "`deltas` must be a list of one or more, got 0.01"),
        ({"deltas": [0.1, 1.0]}, "`deltas` must be a number strictly between 0 and 1, got 1.0"),
        ({"designs": ()}, "`designs` must be a list of one or more"),
        (
            {"claimed": lambda delta: float("nan")},
            "`claimed at delta .*` must be 0 or more, got nan",
        ),
        ({"confidence": 1.0}, "`confidence` must be a finite number of at least 0.5 and below 1"),
    ],
)
def test_impossible_audits_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        audit_mechanism(plan(), **arguments)


def test_a_plan_without_noise_has_nothing_to_audit():
    with pytest.raises(InputError, match="`noise_multiplier` must be above 0"):
        audit_mechanism(plan(noise_multiplier=0.0))
