import json

import numpy as np
import pytest

from reldp.auditing.training_audit import audit_training, roc
from reldp.encoders import FeatureEncoder
from reldp.errors import InputError
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.training import Trainer
from reldp.training.advice import PoorPlanWarning
from reldp.training.fit import check_fit

RING = [(i, (i + 1) % 300) for i in range(300)]
FEATURES = np.random.default_rng(0).normal(size=(300, 32)).astype(np.float32)
CAPPED = EntityGraph.from_lists(list(range(300)), RING, features=FEATURES).promise_degrees(3)


def plan_of(**changes):
    settings = {
        "num_entities": 300, "num_relations": 300, "max_degree": 3, "num_negatives": 2,
        "sample_rate": 0.05, "num_steps": 5, "noise_multiplier": 1.0, "delta": 1e-4,
    }  # fmt: skip
    return PrivacyPlan(**{**settings, **changes})


def untrained(graph):
    return np.asarray(graph.features)


def memorizing(capped, plan):
    """A run that learns every relation by heart: ends of a relation get one embedding."""
    known = {tuple(row): row for row in capped.graph.features.round(4)}
    for left, right in capped.relations:
        known[tuple(capped.graph.features[right].round(4))] = capped.graph.features[left]

    def embed(graph):
        return np.array([known.get(tuple(row), row) for row in graph.features.round(4)])

    return embed


def test_a_run_that_memorizes_is_refuted():
    audit = audit_training(CAPPED, plan_of(), memorizing, reference=untrained, num_canaries=200)
    assert audit.refuted
    assert audit.attack["auc"] == 1.0
    # (epsilon, delta) at one delta sees less than the whole claimed curve does.
    assert audit.claimed > audit.curve_epsilon > audit.epsilon > 2
    assert audit.right == audit.guesses
    assert audit.verdict.startswith("REFUTED: one run with 200 canaries")


def test_the_plan_of_the_copy_follows_from_bounds_and_not_from_exact_sizes():
    """Two graphs within the same bounds, one larger, have copies of the same plan."""
    larger = [*RING, (300, 0), (300, 5)]
    features = np.concatenate([FEATURES, FEATURES[:1] + 1])
    neighbor = EntityGraph.from_lists(list(range(301)), larger, features=features)
    bounds = {"sizes": "declared", "num_entities": 250, "num_relations": 400}
    plans = []
    for graph in (CAPPED.graph, neighbor):

        def train(with_canaries, copy):
            plans.append(copy)
            check_fit(with_canaries, copy)
            return untrained

        audit_training(
            graph.promise_degrees(4),
            plan_of(**bounds, max_degree=4),
            train,
            reference=untrained,
            num_canaries=60,
            degree=3,
        )
    assert plans[0] == plans[1]
    assert plans[0].num_relations == 400 + 60 * 3


def test_released_bounds_are_declared_ones_for_the_copy():
    """Nobody releases the sizes of the graph with canaries."""
    private = {"sizes": "private", "sizes_epsilon": 0.1, "sizes_delta": 1e-7, "delta": 1e-4}
    plan = plan_of(**private, num_entities=250, num_relations=400, max_degree=4)
    plans = []

    def train(with_canaries, copy):
        plans.append(copy)
        check_fit(with_canaries, copy)
        return untrained

    audit_training(
        CAPPED.graph.promise_degrees(4), plan, train, reference=untrained, num_canaries=60
    )
    copy = plans[0]
    assert (copy.sizes, copy.sizes_epsilon, copy.sizes_delta) == ("declared", 0, 0)
    assert (copy.num_entities, copy.num_relations) == (250, 400 + 60 * 4)


def test_a_run_that_learns_nothing_shows_nothing():
    audit = audit_training(
        CAPPED, plan_of(), lambda capped, plan: untrained, reference=untrained, num_canaries=200
    )
    assert not audit.refuted
    assert audit.epsilon == 0.0
    assert audit.attack["auc"] == 0.5


def test_the_real_trainer_is_consistent_with_its_claim(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(31) + b"\2")  # fixed coins
    plans = []

    def train(capped, plan):
        plans.append(plan)
        result = Trainer(FeatureEncoder(32), capped, plan, learning_rate=0.01, progress=False).fit(
            tmp_path / "run"
        )
        return result.encoder.encode_graph

    audit = audit_training(
        CAPPED, plan_of(), train, reference=FeatureEncoder(32).encode_graph, num_canaries=60
    )
    assert not audit.refuted
    assert plans[0].num_entities > 300 + 60 * 3
    assert plans[0].sample_rate == 0.05
    assert audit.claimed == plans[0].epsilon()
    assert json.loads(json.dumps(audit.to_dict()))["kind"] == "training"


def test_with_hardly_any_noise_the_attack_recognizes_canaries(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(31) + b"\1")  # fixed coins

    def train(capped, plan):
        trainer = Trainer(FeatureEncoder(32), capped, plan, learning_rate=0.1, progress=False)
        return trainer.fit(tmp_path / "run").encoder.encode_graph

    settings = plan_of(noise_multiplier=0.2, sample_rate=0.2, num_negatives=1, num_steps=40)
    with pytest.warns(PoorPlanWarning):
        audit = audit_training(
            CAPPED, settings, train, reference=FeatureEncoder(32).encode_graph, num_canaries=60
        )
    assert audit.attack["auc"] > 0.75
    assert 0 < audit.epsilon < audit.claimed
    assert not audit.refuted


def test_rates_of_the_attack_can_be_computed_by_hand():
    included = np.array([True] * 10 + [False] * 100)
    scores = np.concatenate([np.arange(95.5, 105.5), np.arange(100.0)])
    found = roc(scores, included)
    # One false positive is allowed at 1 %: the threshold is the second highest outsider, 98.
    assert found["tpr_at_fpr_0.01"] == 0.7
    assert found["tpr_at_fpr_0.1"] == 1.0
    assert found["auc"] == pytest.approx((96 + 97 + 98 + 99 + 600) / 1000)


def test_audits_without_a_promise_or_with_a_degree_beyond_it_are_refused():
    with pytest.raises(InputError, match="`plan` must protect entities or owners with noise"):
        audit_training(CAPPED, plan_of(unit="relation"), memorizing, reference=untrained)
    with pytest.raises(InputError, match="`degree` must be at most max_degree 3, got 4"):
        audit_training(CAPPED, plan_of(), memorizing, reference=untrained, degree=4)


@pytest.mark.parametrize(
    "embed",
    [
        lambda graph: np.full((graph.num_entities, 8), np.nan),
        lambda graph: np.ones(graph.num_entities),
        lambda graph: np.ones((3, 8)),
    ],
)
def test_a_model_that_diverged_is_no_consistent_one(embed):
    settings = {"num_canaries": 20}
    with pytest.raises(InputError, match=r"must embed .* entities in finite vectors"):
        audit_training(CAPPED, plan_of(), lambda *given: embed, reference=untrained, **settings)
    with pytest.raises(InputError, match=r"must embed .* entities in finite vectors"):
        audit_training(CAPPED, plan_of(), memorizing, reference=embed, **settings)


@pytest.mark.parametrize("wrong", [{"num_canaries": 2.5}, {"num_canaries": 10**6}, {"seed": -1}])
def test_impossible_canaries_are_refused_before_a_copy_is_trained(wrong):
    def train(*given):
        pytest.fail("trained")

    with pytest.raises(InputError, match=f"`{next(iter(wrong))}` must be an integer"):
        audit_training(CAPPED, plan_of(), train, reference=untrained, **wrong)


def test_a_plan_for_owners_is_audited_with_canaries_of_one_entity():
    graph = EntityGraph.from_lists(
        list(range(300)), RING, features=FEATURES, owner=[i // 2 for i in range(300)]
    )
    capped = graph.promise_degrees(4)
    plan = plan_of(unit="owner", num_entities=150, max_degree=4)
    seen = []

    def train(with_canaries, copy):
        check_fit(with_canaries, copy)
        seen.append(copy.num_entities - with_canaries.num_units)
        return untrained

    audit = audit_training(capped, plan, train, reference=untrained, num_canaries=30, degree=2)
    assert seen == [0]
    assert not audit.refuted
