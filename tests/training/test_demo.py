"""The demo's parts fit together; its real size runs in scripts/demo."""

import numpy as np
import pytest
import torch

from reldp.encoders import TextEncoder
from reldp.errors import MissingDependency
from reldp.evaluation import evaluate
from reldp.graph import EntityGraph
from reldp.reporting import verify
from reldp.training import demo
from reldp.training.demo import COMPARISONS, Demo, DemoSettings, minilm_folder
from reldp.training.demo_folder import DemoFolder
from reldp.training.recipe import Recipe
from tests.encoders.tiny import SENTENCE, write_model

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")


def write_graph(folder, seed, size=160):
    """A ring whose neighbors share words."""
    words = SENTENCE.split()
    generator = np.random.default_rng(seed)
    texts = [
        " ".join([words[i % 16], words[(i + 1) % 16], *generator.choice(words, 2)])
        for i in range(size)
    ]
    ring = [(i, (i + 1) % size) for i in range(size)]
    EntityGraph.from_lists(list(range(size)), ring, text=texts).write(folder)
    return str(folder)


def tiny_settings(home):
    return DemoSettings(
        train_graph=write_graph(home / "train", 0),
        domains=(),
        test_graph=write_graph(home / "test", 1),
        model=str(write_model("bert", home / "tiny")),
        num_steps=3,
        expected_batch_size=6.0,
        num_negatives=2,
        test_relations=128,
        candidates=64,
        max_length=12,
        max_degree=2,
        sizes="public",
    )


def claimed(tmp_path):
    folder = DemoFolder(tmp_path / "demo")
    folder.claim(overwrite=False)
    return folder


def test_the_demo_trains_the_pooling_of_a_frozen_model_and_the_recipe_says_so(tmp_path):
    made = Demo(claimed(tmp_path), tiny_settings(tmp_path))
    trainer = made.prepare()
    base = made.evaluate(trainer.encoder)
    frozen = TextEncoder.load(tmp_path / "tiny", train="none", max_length=12)
    plain = evaluate(frozen, EntityGraph.read(tmp_path / "test"), 64, max_relations=128)
    assert base["mrr"] == pytest.approx(plain["mrr"], abs=1e-3)
    result = made.train(trainer)
    after = made.evaluate(result.encoder)
    saved = TextEncoder.load(made.folder.run / "model", train="none")
    again = evaluate(saved, EntityGraph.read(tmp_path / "test"), 64, max_relations=128)
    assert after["mrr"] == pytest.approx(again["mrr"], abs=1e-3)  # states were stored, weights not
    certificate = verify(made.folder.run).certificate
    assert certificate.status == "proven"
    assert 3.9 < certificate.epsilon <= 4
    assert certificate.values["encoder"]["adaptation"] == {"train": "pooling"}
    again = Recipe.read(made.folder.recipe, {}).trainer()
    assert again.plan == trainer.plan
    assert (made.folder.graph / "entities.csv").is_file()


def test_comparisons_differ_in_what_they_say(tmp_path):
    made = Demo(claimed(tmp_path), tiny_settings(tmp_path))
    plan = made.prepare().plan
    assert made.comparison("no-privacy").plan.noise_multiplier == 0
    assert made.comparison("epsilon-1").plan.noise_multiplier > plan.noise_multiplier
    described = made.comparison("cls-pooling").encoder.describe()
    assert described["pooling"] == "cls"
    assert described["adaptation"]["train"] == "lora"
    assert set(COMPARISONS) == {"no-privacy", "epsilon-1", "cls-pooling"}


def test_the_real_demo_goes_from_nouns_to_verbs_at_epsilon_four():
    settings = DemoSettings()
    assert settings.target_epsilon == 4
    assert (settings.train_graph, settings.test_graph) == ("wordnet-nouns", "wordnet-verbs")
    assert settings.sizes == "private"
    assert settings.recipe(demo.Path("g"))["encoder"]["train"] == "pooling"


def test_the_bundled_part_is_written_with_its_notice(tmp_path):
    demo._write_graph(DemoSettings(domains=("noun.motive",)), tmp_path / "graph")
    graph = EntityGraph.read(tmp_path / "graph")
    assert graph.num_entities == 42
    assert "Princeton" in (tmp_path / "graph" / "NOTICE.txt").read_text()
    assert "WordNet" in graph.record.to_json()


def test_the_base_model_is_installed_here_and_named_where_it_is_not(monkeypatch):
    assert (minilm_folder() / "model.safetensors").is_file()
    monkeypatch.setattr(demo, "installed_folder", lambda name: None)
    with pytest.raises(MissingDependency, match=r'pip install "reldp\[demo\]"'):
        minilm_folder()
