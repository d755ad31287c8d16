"""The examples run, at small size, and do what they say."""

import runpy
from pathlib import Path

import pytest
import torch

from tests.encoders.tiny import write_model
from tests.training.test_demo import write_graph

torch.set_num_threads(1)
EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_every_example_is_tested_here():
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == [
        "custom_loop.py",
        "custom_loss.py",
        "custom_module.py",
        "customers_and_products.py",
        "dense_features.py",
        "mixed_entities.py",
        "pairs_from_a_data_frame.py",
        "sentence_transformers_trainer.py",
        "spark_capping.py",  # run by scripts/test-spark
        "text_graph.py",
        "typed_relations.py",
    ]


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_a_text_graph(tmp_path, capsys):
    import reldp

    # The first is large enough for private sizes, the default.
    sizes = (2000, 160)
    graphs = [
        reldp.EntityGraph.read(write_graph(tmp_path / f"g{i}", i, size))
        for i, size in enumerate(sizes)
    ]
    certificate = example("text_graph.py")(
        str(write_model("bert", tmp_path / "model")),
        str(tmp_path / "run"),
        *graphs,
        num_steps=2,
        batch_size=4,
        candidates=32,
    )
    assert certificate.epsilon <= 4
    assert certificate.values["plan"]["sizes"] == "private"
    assert "after:" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_pairs_from_a_data_frame(tmp_path, capsys):
    import reldp

    graph = reldp.EntityGraph.read(write_graph(tmp_path / "graph", 0, 2000))
    pairs = graph.to_pairs(left="anchor", right="positive").to_pandas()
    model = str(write_model("bert", tmp_path / "model"))
    certificate = example("pairs_from_a_data_frame.py")(
        model, pairs, str(tmp_path / "run"), num_steps=2, expected_batch_size=4
    )
    assert 3 < certificate.epsilon <= 4
    assert certificate.values["plan"]["num_negatives"] == 4  # suggested
    assert "(2, " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["custom_module", "mixed_entities", "pairs_from_a_data_frame"])
def test_the_examples_of_the_ecosystem_are_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 40


def test_a_module_of_ones_own_learns_from_images(tmp_path, capsys):
    import reldp

    torch.manual_seed(0)
    certificate, before, after = example("custom_module.py")(
        str(tmp_path / "run"), num_images=4000, num_steps=40
    )
    assert certificate.epsilon <= 4
    assert certificate.values["encoder"]["inputs"]["input"]["shape"] == [1, 8, 8]
    assert after > before + 0.01
    assert "differential privacy" in capsys.readouterr().out
    assert reldp.verify(tmp_path / "run").certificate == certificate


def test_entities_with_a_text_and_numbers(tmp_path):
    import reldp

    result = example("mixed_entities.py")(str(tmp_path / "run"), num_offers=3000, num_steps=10)
    assert result.certificate.epsilon <= 4
    inputs = result.certificate.values["encoder"]["inputs"]
    assert inputs["words"]["num_values"] == 1000
    assert inputs["numbers"]["columns"] == ["weight", "size"]
    assert reldp.verify(tmp_path / "run").certificate == result.certificate


def test_dense_features_learn(tmp_path, capsys):
    certificate, before, after = example("dense_features.py")(
        str(tmp_path / "run"), num_entities=6000, num_steps=80, batch_size=100
    )
    assert certificate.epsilon <= 2
    assert certificate.status == "proven"
    assert after > before + 0.02
    assert "differential privacy" in capsys.readouterr().out


def test_customers_are_protected_and_products_are_not(tmp_path, capsys):
    certificate, before, after = example("customers_and_products.py")(
        str(tmp_path / "run"), num_customers=6000, num_products=1500, num_steps=60, batch_size=100
    )
    data, plan = certificate.values["data"], certificate.values["plan"]
    assert not data["all_protected"]
    assert "num_entities" not in data
    assert plan["sizes"] == "private"
    assert plan["num_entities"] < 7500
    assert plan["pool_size"] < 1500
    assert "any one protected entity with" in certificate.summary
    assert after > before + 0.02
    assert "kept" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["custom_loss", "custom_loop"])
def test_a_loss_and_a_loop_of_ones_own(tmp_path, name):
    import reldp

    folder = tmp_path / "run"
    certificate = example(f"{name}.py")(str(folder), num_steps=20)
    assert certificate.epsilon <= 4
    assert certificate.values["steps"]["counted"] == 20
    assert reldp.verify(folder).certificate == certificate
    values = certificate.values
    if name == "custom_loss":
        assert values["loss"]["name"].endswith("ScaledMargin")
        assert "loss.safetensors" in values["model"]["files"]
    else:
        assert values["training"]["loop"] == "PrivateStep"


def test_typed_relations_learn_a_direction_that_the_cosine_does_not_have(tmp_path, capsys):
    certificate, before, after = example("typed_relations.py")(str(tmp_path / "run"), num_steps=60)
    assert certificate.epsilon <= 4
    assert certificate.values["loss"]["settings"]["score"] == "complex"
    gain = after.by_type["supplies"]["mrr"].value - before.by_type["supplies"]["mrr"].value
    assert gain > 0.1
    assert "supplies: MRR" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name", ["custom_loss", "custom_loop", "typed_relations", "sentence_transformers_trainer"]
)
def test_tutorials_fit_on_a_screen(name):
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 40


@pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")
def test_the_trainer_of_sentence_transformers(tmp_path, capsys):
    import reldp
    from tests.integrations.sentence_transformers.small import pairs, tiny

    folder = tmp_path / "run"
    trainer = example("sentence_transformers_trainer.py")(
        tiny(tmp_path), pairs(2000), str(folder), max_steps=4, eval_steps=2, logging_steps=2
    )
    certificate = reldp.verify(folder).certificate
    assert certificate == trainer.certificate
    assert certificate.epsilon <= 4
    assert certificate.values["steps"]["counted"] == 4
    assert [line["step"] for line in trainer.evaluations] == [2, 4]
    printed = capsys.readouterr().out
    assert "step 2: {'epoch'" in printed
    assert "eval_public_pearson_cosine" in printed
    assert "differential_privacy:" in (tmp_path / "run-model" / "README.md").read_text()
