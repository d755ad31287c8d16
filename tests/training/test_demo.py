"""The demo's parts fit together; its real size runs in scripts/demo."""

import numpy as np
import pytest
import torch

from reldp.graph import EntityGraph
from reldp.reporting import verify
from reldp.training.advice import PoorPlanWarning
from reldp.training.demo import Demo, DemoSettings, minilm_folder
from tests.encoders.tiny import SENTENCE, write_model

torch.set_num_threads(1)


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
        test_graph=write_graph(home / "test", 1),
        model=str(write_model("bert", home / "model")),
        num_steps={"cls": 3, "mean": 2},
        expected_batch_size=6.0,
        num_negatives=2,
        test_relations=128,
        candidates=64,
        max_length=12,
        max_degree=2,
        sizes="public",
    )


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_demo_compares_three_encoders_for_each_pooling(tmp_path):
    said = []
    result = Demo(tmp_path / "demo", tiny_settings(tmp_path), say=said.append, progress=False).run()
    values = result.to_json()
    for arm in ("base", "private", "nonprivate"):
        assert 0 <= values[arm]["prec@1"] <= values[arm]["mrr"] <= 1
    assert set(values["others"]) == {"mean"}
    assert 3.9 < values["epsilon"] <= 4
    assert values["test_relations"] == 128
    for pooling, arms in result.folders.items():
        for arm, folder in arms.items():
            certificate = verify(folder).certificate
            assert certificate.status == ("proven" if arm == "private" else "none")
            assert certificate.values["encoder"]["pooling"] == pooling
    assert sum("PREC@1" in line for line in said) == 6


def test_settings_were_chosen_on_neither_graph_that_is_shown():
    settings = DemoSettings()
    assert "adjectives" not in settings.train_graph + settings.test_graph
    assert issubclass(PoorPlanWarning, UserWarning)


def test_the_base_model_is_installed_here():
    assert (minilm_folder() / "model.safetensors").is_file()
