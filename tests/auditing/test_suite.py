import pytest

from reldp.auditing.suite import AuditResults, audit_plan
from reldp.errors import InputError
from reldp.plan import PrivacyPlan
from tests.auditing.remembered import remember_jobs


def plan_of(**changes):
    settings = {
        "num_entities": 12, "num_relations": 4, "max_degree": 1, "num_negatives": 2,
        "sample_rate": 0.4, "num_steps": 1, "noise_multiplier": 1.0, "delta": 0.01,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


@pytest.fixture
def remembered(monkeypatch):
    remember_jobs(monkeypatch)


@pytest.fixture(scope="module")
def results():
    with pytest.MonkeyPatch.context() as patch:
        remember_jobs(patch)
        return audit_plan(plan_of(), trials=100, seed=1)


def test_all_audits_of_a_plan_run(results):
    assert list(results.parts) == ["step", "mechanism", "search"]
    assert not results.refuted
    assert len(results.verdicts) == 3
    assert results.step.trials == 100
    assert results.mechanism.trials == 2000
    assert list(results.to_dict()) == ["step", "mechanism", "search"]


def test_a_seed_repeats_an_audit(results):
    again = audit_plan(plan_of(), trials=100, seed=1)
    assert again.mechanism.bounds == results.mechanism.bounds
    assert again.step.bounds == results.step.bounds


def test_another_seed_gives_another_audit():
    one, other = (audit_plan(plan_of(num_negatives=0), trials=100, seed=seed) for seed in (1, 2))
    assert one.mechanism.bounds != other.mechanism.bounds


def test_canaries_are_never_recorded(results):
    class Sensitive:
        refuted, verdict = True, "REFUTED."

        def to_dict(self):
            return {"sensitive": True}

    with_canaries = AuditResults(
        mechanism=results.mechanism, step=results.step, search=results.search, training=Sensitive()
    )
    assert with_canaries.refuted
    assert with_canaries.to_records() == results.to_records()
    assert [record["kind"] for record in results.to_records()] == [
        "training step",
        "mechanism",
        "search for bad neighbors",
    ]
    assert with_canaries.to_dict()["training"] == {"sensitive": True}


def test_what_does_not_apply_is_left_out():
    assert list(audit_plan(plan_of(num_negatives=0), trials=100, seed=1).parts) == [
        "mechanism",
        "search",
    ]
    relation = audit_plan(plan_of(unit="relation", num_negatives=0), trials=100, seed=1)
    assert list(relation.parts) == ["mechanism"]


def test_progress_reaches_the_total_of_each_audit(remembered):
    done, totals = {}, {}

    def progress(stage, steps, total):
        done[stage] = done.get(stage, 0) + steps
        totals[stage] = total

    audit_plan(plan_of(), trials=100, seed=1, progress=progress)
    assert done == totals
    assert list(done) == ["auditing the training step", "auditing its parts"]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(InputError, match="`seed` must be an integer from 0 to 2"):
        audit_plan(plan_of(), trials=100, seed=seed)


def test_a_run_folder_is_no_plan():
    with pytest.raises(InputError, match=r"`plan` must be a PrivacyPlan, got str\. For a run"):
        audit_plan("run")
