"""Evaluators run on the live model; sensitive values are marked and stay out of the model card."""

import numpy as np
import pytest
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    TripletEvaluator,
)

from reldp.encoders.adaptation import Adaptation
from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers.data import evaluation_graph
from reldp.integrations.sentence_transformers.evaluations import Evaluations
from reldp.integrations.sentence_transformers.models import SharedEncoder
from tests.integrations.sentence_transformers.small import TEXTS, pairs, tiny


def similarity(name="dev"):
    return EmbeddingSimilarityEvaluator(TEXTS[:4], TEXTS[4:], [0.1, 0.5, 0.7, 0.9], name=name)


def evaluations(home, evaluator=None, dataset=None, data="sensitive"):
    model = tiny(home)
    shared = SharedEncoder(model, Adaptation())
    return model, Evaluations(
        model=model,
        encode=shared.encoder,
        evaluator=evaluator,
        graph=evaluation_graph(dataset),
        data=data,
    )


def test_sensitive_values_are_marked_and_kept_out_of_the_card(tmp_path):
    model, made = evaluations(tmp_path, similarity())
    metrics = made.run()
    assert model.model_card_data.eval_results_dict == {}
    assert model.model_card_data.training_logs == []
    expected = similarity()(model)
    assert {f"sensitive/eval_{name}": value for name, value in expected.items()} == metrics
    # The evaluator by itself does write there, so the test can see it.
    assert model.model_card_data.training_logs != []


def test_public_values_have_the_usual_names_and_reach_the_card(tmp_path):
    model, made = evaluations(tmp_path, similarity(), data="public")
    metrics = made.run(epoch=0.5, steps=7)
    assert all(name.startswith("eval_dev_") for name in metrics)
    assert list(model.model_card_data.eval_results_dict.values()) == [
        {name.removeprefix("eval_"): value for name, value in metrics.items()}
    ]
    assert not made.is_sensitive


def test_relations_of_a_dataset_are_predicted(tmp_path):
    _, made = evaluations(tmp_path, dataset=pairs(40))
    metrics = made.run(prefix="test")
    assert set(metrics) == {
        f"sensitive/test_{name}" for name in ("hits@1", "hits@10", "hits@100", "mrr", "ndcg")
    }
    _, made = evaluations(tmp_path, dataset=pairs(300), data="public")
    assert "eval_prec@1" in made.run()


def test_several_evaluators_run_in_order(tmp_path):
    triplet = TripletEvaluator(TEXTS[:2], TEXTS[2:4], TEXTS[4:6], name="t")
    model, made = evaluations(tmp_path, [similarity(), triplet])
    names = " ".join(made.run())
    assert "eval_dev_pearson_cosine" in names
    assert "eval_t_cosine_accuracy" in names
    assert model.model_card_data.eval_results_dict == {}


def test_a_single_number_has_a_name(tmp_path):
    def evaluator(model, output_path=None, epoch=-1, steps=-1):
        assert output_path is None  # the run folder holds the run's files alone
        return float(np.abs(model.encode(["cat"])).sum() > 0)

    _, made = evaluations(tmp_path, evaluator)
    assert made.run() == {"sensitive/eval_evaluator": 1.0}


def test_a_failing_evaluator_leaves_the_card_as_it_was(tmp_path):
    def evaluator(model, **given):
        model.model_card_data.training_logs.append({"Step": 1})
        raise MemoryError

    model, made = evaluations(tmp_path, evaluator)
    with pytest.raises(MemoryError):
        made.run()
    assert model.model_card_data.training_logs == []


def test_nothing_to_evaluate_is_said(tmp_path):
    _, made = evaluations(tmp_path)
    assert made.is_empty
    with pytest.raises(
        ConfigError, match="`evaluator` or `eval_dataset` must be given to evaluate"
    ):
        made.run()


def test_what_is_no_evaluator_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"`evaluator` must be an evaluator .* got int"):
        evaluations(tmp_path, 3)
    with pytest.raises(ConfigError, match="`evaluator_data` must be one of public, sensitive"):
        evaluations(tmp_path, data="private")
