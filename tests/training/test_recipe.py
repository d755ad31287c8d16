"""Recipes: every name checked, the template a recipe itself, defaults those of the library."""

import dataclasses
import json
import os
import tomllib

import numpy as np
import pytest
import torch

from reldp._validate import default_of
from reldp.encoders import FeatureEncoder, TextEncoder
from reldp.encoders.default_model import DEFAULT_MODEL
from reldp.encoders.head import HeadEncoder
from reldp.errors import ConfigError, PlanError, ReldpError
from reldp.graph import EntityGraph, sizes
from reldp.plan import PrivacyPlan
from reldp.processes import Processes
from reldp.training.config import SETTINGS
from reldp.training.identity import attention_of
from reldp.training.recipe import Recipe
from reldp.training.recipe_settings import SECTIONS
from tests.encoders.tiny import write_model
from tests.training.small import small_graph

torch.set_num_threads(1)
SIZES = {
    "sizes": "public",
    "num_negatives": 3,
    "num_steps": 5,
    "expected_batch_size": 20,
    "delta": 1e-4,
}


@pytest.fixture
def graph(tmp_path):
    small_graph().write(tmp_path / "graph")
    return str(tmp_path / "graph")


def recipe(graph, **sections):
    sections.setdefault("data", {}).update({"graph": graph, "max_degree": 4})
    sections.setdefault("privacy", {"noise_multiplier": 2.0})
    chosen = {**SIZES, **sections["privacy"]}
    sections["privacy"] = {name: value for name, value in chosen.items() if value is not None}
    return Recipe.from_values(sections)


def test_the_template_is_a_recipe_with_every_default():
    assert Recipe.from_toml(Recipe.template()) == Recipe.from_values({})


def test_the_template_names_every_setting_once():
    text = Recipe.template().replace("# ", "")
    for section, settings in SECTIONS.items():
        for name in settings:
            assert f"\n{name} = " in text, f"{section}.{name}"


def test_every_example_in_the_template_is_valid_toml_of_its_kind():
    for settings in SECTIONS.values():
        for name, setting in settings.items():
            if setting.default is None:
                setting.check(name, tomllib.loads(f"x = {setting.example}")["x"])
            else:
                setting.check(name, setting.default)


def test_settings_and_defaults_are_those_of_the_library():
    for section, kind in SETTINGS.items():
        names = {field.name for field in dataclasses.fields(kind)}
        assert set(SECTIONS[section]) == names - {"clip"}
        for name, setting in SECTIONS[section].items():
            assert setting.default == default_of(kind, name), name
    plan = {field.name for field in dataclasses.fields(PrivacyPlan)}
    of_graph = {"num_entities", "num_relations", "max_degree", "pool_size"}
    of_graph |= {"sizes_epsilon", "sizes_delta", "num_relation_types"}
    asked = {"enabled", "target_epsilon", "min_entities", "max_relations", "min_unprotected"}
    asked |= {"min_relations"}
    assert set(SECTIONS["privacy"]) - asked == plan - of_graph
    assert SECTIONS["privacy"]["sizes"].default == "private"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[dat]\n", "Did you mean data?"),
        (
            "[learning]\ncheckpoint_every = 5\n",
            "must be in the section .logging., got it in .learning.",
        ),
        ("[privacy]\ntarget_epsilon = true", "must be a number"),
        ("[learning]\nlearning_rate = 'high'", "`learning_rate` must be a number"),
        ("[data]\ndrop = 'x'", "`drop` must be a list"),
        ("[encoder]\nmodel = 3", "`model` must be text"),
        ("data = 3", "`data` must be a section"),
        ("[data]\n[data]\n", "must be TOML"),
        ("a." * 20 + "a = 1", "must be TOML: keys must have at most 8 dots"),
        ("[data]\ngraph = " + "[" * 5000, "must be TOML"),
        ("[privacy]\nnum_steps = " + "9" * 6000, "must be TOML"),
    ],
)
def test_mistakes_are_named(text, words):
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")):
        Recipe.from_toml(text)


def test_the_section_of_earlier_versions_is_answered_with_the_new_ones():
    with pytest.raises(ConfigError, match=r"\[learning\], \[performance\], \[logging\]"):
        Recipe.from_toml("[training]\nloss = 'hinge'\n")


def test_a_section_that_is_a_value_is_refused_with_flags_too(tmp_path):
    (tmp_path / "recipe.toml").write_text("data = 3\n")
    with pytest.raises(ConfigError, match="`data` must be a section, got 3"):
        Recipe.read(tmp_path / "recipe.toml", {"data": {"graph": "b"}})


def test_files_are_read_and_flags_go_before_them(tmp_path):
    (tmp_path / "recipe.toml").write_text('[data]\ngraph = "a"\nmax_degree = 7\n')
    found = Recipe.read(tmp_path / "recipe.toml", {"data": {"graph": "b"}})
    assert (found.values["data"]["graph"], found.values["data"]["max_degree"]) == ("b", 7)


def test_noise_is_given_or_calibrated_and_never_both(graph):
    capped = recipe(graph).capped()
    assert recipe(graph).plan(capped).noise_multiplier == 2.0
    for privacy in ({}, {"noise_multiplier": 1.0, "target_epsilon": 4.0}):
        with pytest.raises(ConfigError, match="and not both"):
            recipe(graph, privacy=privacy).plan(capped)
    with pytest.raises(PlanError, match="target_epsilon"):
        recipe(graph, privacy={"target_epsilon": -1}).plan(capped)


def test_no_privacy_goes_before_a_target(graph):
    made = recipe(graph, privacy={"enabled": False, "target_epsilon": 4.0}).trainer()
    assert made.plan.noise_multiplier == 0
    assert not made.config.learning.clip


def test_without_privacy_sizes_are_exact_and_nothing_is_released(graph, monkeypatch):
    monkeypatch.setattr(sizes, "remembered", lambda *given: pytest.fail("a release was drawn"))
    privacy = {"enabled": False, "sizes": "private"}
    plan = recipe(graph, privacy=privacy).trainer().plan
    assert (plan.sizes, plan.num_entities) == ("public", 300)


def test_declared_sizes_decide_every_setting_that_is_left_out(graph):
    declared = {"sizes": "declared", "min_entities": 200, "max_relations": 9000, "delta": None}
    left_out = {"num_steps": None, "expected_batch_size": None, "num_negatives": None}
    made = recipe(graph, privacy={"noise_multiplier": 2.0, **declared, **left_out})
    plan = made.plan(made.capped())
    assert (plan.sizes, plan.num_entities, plan.num_relations) == ("declared", 200, 9000)
    assert (plan.expected_batch_size, plan.num_steps, plan.num_negatives) == (32, 700, 4)
    assert plan.delta == 0.1 / 200
    assert plan.sample_rate == 32 / 9000


def test_declared_bounds_are_passed_on_for_unprotected_negatives(tmp_path):
    marked = small_graph(protected=[i % 2 == 0 for i in range(300)])
    marked.write(tmp_path / "marked")
    declared = {"sizes": "declared", "min_entities": 200, "max_relations": 900}
    privacy = {"noise_multiplier": 2.0, "negatives": "unprotected", **declared}
    made = recipe(str(tmp_path / "marked"), privacy={**privacy, "min_unprotected": 120})
    assert made.plan(made.capped()).pool_size == 120
    missing = recipe(str(tmp_path / "marked"), privacy=privacy)
    with pytest.raises(ConfigError, match="`min_unprotected` must be given"):
        missing.plan(missing.capped())


def test_mistakes_are_found_before_sizes_are_released(graph, monkeypatch):
    monkeypatch.setattr(sizes, "remembered", lambda *given: pytest.fail("a release was drawn"))
    wrong = [
        {"privacy": {}},
        {"encoder": {"model": "no/such/model"}},
        {"training": {"learning_rate": -1.0}},
        {"privacy": {"noise_multiplier": 2.0, "num_steps": 0}},
    ]
    for sections in wrong:
        sections.setdefault("privacy", {"noise_multiplier": 2.0})["sizes"] = "private"
        with pytest.raises(ReldpError):
            recipe(graph, **sections).trainer()


def test_degrees_are_capped_or_promised(graph):
    assert recipe(graph).capped().degree_bound == "capped"
    assert recipe(graph, data={"promise_degrees": True}).capped().degree_bound == "promised"


def test_a_public_pool_goes_into_the_plan(graph, tmp_path):
    small_graph(seed=1).write(tmp_path / "pool")
    made = recipe(
        graph,
        data={"public_pool": str(tmp_path / "pool")},
        privacy={"noise_multiplier": 2.0, "negatives": "public"},
    ).trainer()
    assert made.plan.pool_size == 300
    with pytest.raises(ConfigError, match="`pool` must be public, got the training graph"):
        recipe(
            graph,
            data={"public_pool": graph},
            privacy={"noise_multiplier": 2.0, "negatives": "public"},
        ).trainer()
    with pytest.raises(ConfigError, match="must be given with public_pool only"):
        recipe(
            graph, data={"pool_shares_entities": True}, privacy={"noise_multiplier": 2.0}
        ).trainer()
    without = recipe(graph, privacy={"noise_multiplier": 2.0, "negatives": "public"})
    with pytest.raises(
        ConfigError, match=r"data.public_pool` must name .* --set data.public_pool=PATH"
    ):
        without.trainer()


def test_encoders_of_features_texts_and_heads(graph, tmp_path):
    capped = recipe(graph).capped()
    encoder = recipe(graph, encoder={"hidden": [7], "dim": 3}).encoder(capped)
    assert isinstance(encoder, FeatureEncoder)
    assert (encoder.settings["hidden"], encoder.dim) == ([7], 3)
    model = str(write_model("bert", tmp_path / "model"))
    text = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"]).promise_degrees(1)
    short = {"model": model, "max_length": 16, "attention": "short"}
    assert attention_of(recipe(graph, encoder=short).encoder(text)) == "short"
    encoder = recipe(graph, encoder={"model": model, "lora_rank": 2, "pooling": "cls"}).encoder(
        text
    )
    assert type(encoder) is TextEncoder
    assert encoder.describe()["adaptation"]["lora_rank"] == 2
    head = recipe(graph, encoder={"model": model, "train": "head", "dim": 5}).encoder(text)
    assert isinstance(head, HeadEncoder)
    assert head.dim == 5


def test_without_a_model_texts_are_encoded_by_minilm_and_features_by_an_mlp(graph):
    text = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"])
    features = np.zeros((2, 3), dtype=np.float32)
    both = EntityGraph.from_lists([1, 2], [(1, 2)], text=["a", "b"], features=features)
    encoder = recipe(graph).encoder(text.promise_degrees(1))
    assert encoder.describe()["base_model"] == DEFAULT_MODEL
    assert isinstance(recipe(graph).encoder(both.promise_degrees(1)), FeatureEncoder)


def test_a_recipe_trains(graph, tmp_path):
    made = recipe(graph, learning={"optimizer_options": {"weight_decay": 0.1}}).trainer()
    result = made.fit(tmp_path / "run")
    assert result.certificate.values["training"]["optimizer_options"] == {"weight_decay": 0.1}
    json.dumps(made.config.to_dict())


def test_the_old_name_of_a_setting_is_refused_with_the_new_one():
    with pytest.raises(ConfigError, match="`log_private` must be written log_sensitive"):
        Recipe.from_toml("[logging]\nlog_private = true\n")


@pytest.mark.parametrize(("known", "refused"), [((0, 0), 0), ((1, 0), 0), ((1, 1), 0), ((0, 1), 1)])
def test_sizes_that_another_process_has_released_are_not_released_again(graph, known, refused):
    """As when the first process has moved to a machine with another disk."""

    class Two(Processes):
        def gather(self, data, about=""):
            return [bytes([flag]) for flag in known]

    recipe = Recipe.from_values(
        {"data": {"graph": graph, "max_degree": 4}, "privacy": {"target_epsilon": 8.0}}
    )
    capped = recipe.capped()
    if refused:
        with pytest.raises(ConfigError, match="got a release on rank 1 that rank 0 does not see"):
            recipe._refuse_second_release(capped, Two(0, 2))
    else:
        recipe._refuse_second_release(capped, Two(0, 2))
    assert not sizes.has_release(capped, graph)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_recipe_that_is_a_pipe_or_a_device_is_refused_unread(make, tmp_path):
    make(tmp_path / "r.toml")
    with pytest.raises(ConfigError, match=r"could not be read: .* must be a regular file, got a"):
        Recipe.read(tmp_path / "r.toml", {})


def test_a_recipe_may_be_a_link_and_has_a_size_limit(tmp_path):
    (tmp_path / "r.toml").write_text("[data]\n")
    (tmp_path / "link.toml").symlink_to(tmp_path / "r.toml")
    assert Recipe.read(tmp_path / "link.toml", {}) == Recipe.from_toml("[data]\n")
    os.truncate(tmp_path / "r.toml", 2**32)
    with pytest.raises(ConfigError, match="at most 65,536 bytes"):
        Recipe.read(tmp_path / "link.toml", {})
