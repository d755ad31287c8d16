"""Poor plans are named, good ones are not."""

import warnings
from dataclasses import replace

import pytest
import torch

from reldp.encoders import Column, FeatureEncoder, ModuleEncoder, TextEncoder
from reldp.graph import EntityGraph
from reldp.plan import PrivacyPlan
from reldp.runs.model_card import is_own_card
from reldp.training import Trainer
from reldp.training.advice import StartingWeightsWarning, advice
from tests.encoders.tiny import write_model
from tests.training.small import small_parts

GOOD = PrivacyPlan(
    num_entities=10_000,
    num_relations=20_000,
    max_degree=5,
    num_negatives=4,
    expected_batch_size=32.0,
    num_steps=500,
    noise_multiplier=0.8,
    delta=1e-6,
)


def changed(**settings):
    """The good plan, with another batch size instead of a rate where asked for."""
    if "expected_batch_size" in settings:
        settings["sample_rate"] = None
    return replace(GOOD, **settings)


def test_a_good_plan_is_left_alone():
    assert advice(GOOD, 3.0) == []


@pytest.mark.parametrize(
    ("plan", "epsilon", "words"),
    [
        (changed(delta=1e-4), 3.0, "delta should be below 1/n"),
        (GOOD, 12.0, "epsilon should be at most 10"),
        (changed(noise_multiplier=20.0), 0.1, "the noise hides the signal"),
        (changed(expected_batch_size=1500.0), 3.0, "60% per batch"),
        (changed(clipping="frequency"), 3.0, "false in the worst case"),
    ],
)
def test_each_weakness_is_named_alone(plan, epsilon, words):
    found = advice(plan, epsilon)
    assert len(found) == 1
    assert words in found[0]


def test_a_run_without_privacy_gets_no_advice_about_it():
    assert advice(changed(noise_multiplier=0.0), float("inf")) == []


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_weights_that_a_run_has_trained_are_named_in_the_next_run(tmp_path):
    place, graph = (
        write_model("bert", tmp_path / "model"),
        EntityGraph.from_lists(
            list(range(60)),
            [(i, (i + 1) % 60) for i in range(60)],
            text=[f"word{i % 7} word{i % 5}" for i in range(60)],
        ),
    )
    capped = graph.cap_degrees(2, seed=0)
    plan = PrivacyPlan.for_graph(
        capped,
        sizes="public",
        noise_multiplier=1.0,
        num_negatives=1,
        negatives="entities",
        expected_batch_size=3,
        num_steps=2,
        delta=1e-4,
    )

    def said(model, folder):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            Trainer(TextEncoder.load(model, max_length=8), capped, plan).fit(folder)
        return [w for w in seen if issubclass(w.category, StartingWeightsWarning)]

    assert said(place, tmp_path / "one") == []
    assert len(said(tmp_path / "one" / "model", tmp_path / "two")) == 1


def test_trained_encoders_of_features_and_modules_are_named_too(tmp_path):
    encoder, capped, plan = small_parts()
    Trainer(encoder, capped, plan).fit(tmp_path / "one")
    with pytest.warns(StartingWeightsWarning, match="trained by a run of reldp"):
        Trainer(FeatureEncoder.load(tmp_path / "one" / "model"), capped, plan).fit(tmp_path / "two")

    column = Column("features", shape=6)

    def module():
        torch.manual_seed(0)
        return torch.nn.Linear(encoder.settings["in_dim"], 3)

    Trainer(ModuleEncoder(module(), column), capped, plan).fit(tmp_path / "three")
    loaded = ModuleEncoder.load(tmp_path / "three" / "model", module(), column)
    with pytest.warns(StartingWeightsWarning, match="trained by a run of reldp"):
        Trainer(loaded, capped, plan).fit(tmp_path / "four")


@pytest.mark.parametrize(
    ("card", "is_own"),
    [
        (b"---\ntags:\n- differential-privacy\n- reldp\n---\n# x\n", True),
        (b"---\ntags:\n- differential-privacy\n---\n- reldp\n", False),
        (b"- reldp\n", False),
        (b"", False),
    ],
)
def test_a_card_is_known_by_its_tag(card, is_own):
    assert is_own_card(card) is is_own


def test_delta_of_a_relation_is_compared_with_the_number_of_relations():
    plan = changed(unit="relation", num_negatives=0, max_degree=1, delta=1.5 / GOOD.num_relations)
    assert plan.delta < 1 / GOOD.num_entities, "of entities it would be no weakness"
    words = advice(plan, 3.0)
    assert len(words) == 1
    assert "delta should be below 1/m" in words[0]
    assert "publishing one relation outright" in words[0]
    assert (
        advice(
            changed(unit="relation", num_negatives=0, max_degree=1, delta=0.5 / GOOD.num_relations),
            3.0,
        )
        == []
    )
