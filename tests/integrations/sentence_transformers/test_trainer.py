"""The trainer: trains in place, resumes, evaluates, saves with its certificate, and refuses in one line."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CoSENTLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import Normalize
from transformers import TrainerCallback

import reldp
from reldp.errors import ConfigError, EncoderError, ReldpError, ResumeError, RunError
from reldp.graph import EntityGraph
from reldp.integrations.sentence_transformers import PrivateTrainingArguments
from reldp.runs.run_folder import RunFolder
from tests.integrations.sentence_transformers.small import (
    TEXTS,
    arguments,
    pairs,
    texts,
    tiny,
    trainer,
)
from tests.integrations.sentence_transformers.test_evaluations import similarity

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore::reldp.training.advice.PoorPlanWarning")


class Stop(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **given):
        control.should_training_stop = state.global_step == self.step
        return control


@pytest.mark.parametrize("train", ["lora", "full", "last:1"])
def test_the_model_is_trained_in_place_and_certified(tmp_path, train):
    model = tiny(tmp_path, Normalize())
    before = model.encode(TEXTS)
    made = trainer(tmp_path, model, train=train, loss=MultipleNegativesRankingLoss)
    assert made.certificate is None
    output = made.train()
    assert output.global_step == made.state.global_step == 6
    assert math.isnan(output.training_loss)
    assert output.metrics == {"epsilon": made.certificate.epsilon, "delta": 1e-4}
    assert np.abs(model.encode(TEXTS) - before).max() > 1e-4
    verified = reldp.verify(tmp_path / "run").certificate
    assert verified == made.certificate == made.result.certificate
    values = verified.values
    assert values["steps"]["counted"] == 6
    assert values["loss"]["name"] == "reldp.losses.infonce.InfoNCELoss"
    assert values["encoder"]["adaptation"]["train"] == train
    saved = SentenceTransformer(str(tmp_path / "run" / "model"), device="cpu")
    np.testing.assert_array_equal(saved.encode(TEXTS), model.encode(TEXTS))
    assert made.train().metrics == output.metrics  # nothing is trained twice


def test_the_run_is_that_of_reldp_alone(tmp_path, monkeypatch):
    """The same key, data and settings give the same weights without this trainer."""
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(range(32)))
    made = trainer(tmp_path, eval_steps=2, evaluator=similarity(), callbacks=[TrainerCallback])
    made.train()
    model = tiny(tmp_path)
    # Of the same name, which the key is bound to.
    model.save_pretrained(str(tmp_path / "plain" / "bert"), create_model_card=False)
    encoder = reldp.TextEncoder.load(tmp_path / "plain" / "bert")
    graph = EntityGraph.from_pairs(pairs(), left="anchor", right="positive", ids="text")
    capped = graph.cap_degrees(5, seed=0)
    alone = reldp.Trainer(
        encoder, capped, made.plan, **arguments(tmp_path).trainer_settings(6)
    ).fit(tmp_path / "alone")
    files, others = (x.certificate.values["model"]["files"] for x in (made, alone))
    for name in ("model.safetensors", "adapter/adapter_model.safetensors"):
        assert files[name] == others[name]


def test_a_stopped_run_resumes_in_this_process_and_in_another(tmp_path, monkeypatch):
    monkeypatch.setattr("reldp.runs.key.new_key", lambda: bytes(range(32)))
    straight = trainer(tmp_path, output_dir=str(tmp_path / "straight"))
    straight.train()
    wanted = straight.model.encode(TEXTS)
    first = trainer(tmp_path, callbacks=[Stop(2)])
    output = first.train()
    assert output.global_step == 2
    assert output.metrics == {}
    assert first.certificate is None
    with pytest.raises(RunError, match="must be complete to release its model"):
        first.save_model(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"Use train\(resume_from_checkpoint=True\)"):
        first.train()
    again = trainer(tmp_path, callbacks=[Stop(4)])
    assert again.train(resume_from_checkpoint=True).global_step == 4
    assert first.train(resume_from_checkpoint=True).global_step == 6  # by the trainer of step 2
    np.testing.assert_array_equal(first.model.encode(TEXTS), wanted)
    last = trainer(tmp_path)
    last.train(resume_from_checkpoint=True)  # complete: loaded and no more
    np.testing.assert_array_equal(last.model.encode(TEXTS), wanted)
    assert last.certificate == first.certificate
    assert first.certificate.values["steps"]["counted"] == 6


def test_a_run_of_other_data_is_not_resumed(tmp_path):
    trainer(tmp_path, callbacks=[Stop(2)]).train()
    other = trainer(tmp_path, learning_rate=5e-3)
    with pytest.raises(ResumeError, match="learning_rate"):
        other.train(resume_from_checkpoint=True)


def test_evaluators_see_the_current_weights(tmp_path):
    made = trainer(tmp_path, evaluator=similarity(), eval_steps=3, learning_rate=0.05)
    made.train()
    assert [line["step"] for line in made.evaluations] == [3, 6]
    at_three, at_six = (line["sensitive/eval_dev_pearson_cosine"] for line in made.evaluations)
    assert at_three != at_six
    after = made.evaluate()["sensitive/eval_dev_pearson_cosine"]
    assert after == pytest.approx(at_six, abs=1e-5)
    assert not any("sensitive" in name for line in made.state.log_history for name in line)


def test_nothing_sensitive_is_written_unless_asked(tmp_path):
    made = trainer(tmp_path, evaluator=similarity(), eval_steps=3, eval_dataset=pairs(50))
    made.train()
    made.save_model(tmp_path / "out")
    written = [p for home in ("run", "out") for p in (tmp_path / home).rglob("*") if p.is_file()]
    assert written
    for path in written:
        if path.suffix in (".json", ".jsonl", ".md"):
            assert "pearson" not in path.read_text()
            assert '"loss":' not in path.read_text() or path.name != "metrics.jsonl"
    assert made.model.model_card_data.eval_results_dict == {}
    assert "cat" not in (tmp_path / "out" / "README.md").read_text().replace("certificat", "")


@pytest.mark.parametrize("hub", [None, "0"])
def test_saving_asks_no_hub_for_the_name_of_the_base_model(tmp_path, monkeypatch, hub):
    asked = []
    monkeypatch.setattr(
        "peft.utils.other.file_exists", lambda *given, **_: bool(asked.append(given))
    )
    if hub is None:
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    else:
        monkeypatch.setenv("HF_HUB_OFFLINE", hub)
    made = trainer(tmp_path, keep_adapters=True)
    made.train()
    made.model.save_pretrained(str(tmp_path / "control"))
    assert [repository for repository, file in asked] == ["bert"]
    made.save_model(tmp_path / "out")
    assert len(asked) == 1
    assert os.environ.get("HF_HUB_OFFLINE") == hub


@pytest.mark.parametrize("keep", [False, True], ids=["merged", "kept"])
def test_the_saved_model_loads_with_its_certificate(tmp_path, monkeypatch, keep):
    made = trainer(tmp_path, keep_adapters=keep)
    made.model.prompts = {"query": "q: "}
    made.train()
    made.save_model(tmp_path / "out")
    privacy = ModelCard.load(tmp_path / "out" / "README.md").data.to_dict()["differential_privacy"]
    assert privacy["epsilon"] == made.certificate.epsilon
    assert privacy["ledger_head"] == made.certificate.values["ledger"]["head"]
    assert (tmp_path / "out" / "adapter_config.json").exists() == keep
    monkeypatch.chdir(tmp_path)  # adapters name the folder of their base model, without its path
    loaded = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(loaded.encode(TEXTS), made.model.encode(TEXTS), atol=1e-6)
    assert loaded.prompts["query"] == "q: "
    with pytest.raises(EncoderError, match="must be new or empty"):
        made.save_model(tmp_path / "out")
    made.save_model(tmp_path / "out", overwrite=True)
    with pytest.raises(ConfigError, match="must be another folder than the run's"):
        made.save_model(tmp_path / "run", overwrite=True)


class Hub:
    """Stands in for the hub's upload, and for nothing else."""

    uploads = None

    def __init__(self, token=None):
        self.token = token

    def create_repo(self, **given):
        Hub.uploads.append(given)
        return type("Place", (), {"repo_id": given["repo_id"]})()

    def upload_folder(self, *, folder_path, **given):
        files = {p.name: p.read_bytes() for p in folder_path.iterdir() if p.is_file()}
        Hub.uploads.append({**given, "files": files})
        return type("Commit", (), {"commit_url": "https://hub/commit"})()


def test_what_is_pushed_has_the_certificate_in_its_metadata(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setattr(Hub, "uploads", [])
    made = trainer(tmp_path, hub_model_id="me/model")
    with pytest.raises(RunError, match="must be complete"):
        made.push_to_hub()
    assert Hub.uploads == []
    made.train()
    assert made.push_to_hub(private=True) == "https://hub/commit"
    created, uploaded = Hub.uploads
    assert created == {"repo_id": "me/model", "private": True, "exist_ok": True}
    made.save_model(tmp_path / "out")
    assert uploaded["files"]["README.md"] == (tmp_path / "out" / "README.md").read_bytes()
    card = ModelCard(uploaded["files"]["README.md"].decode())
    assert card.data.to_dict()["differential_privacy"]["delta"] == 1e-4
    assert b'"ledger"' in uploaded["files"]["certificate.json"]


def test_a_push_needs_a_name(tmp_path):
    with pytest.raises(ConfigError, match="`repo_id` must be given, or hub_model_id in args"):
        trainer(tmp_path).push_to_hub()


def test_steps_of_epochs_follow_from_bounds_and_not_from_sizes(tmp_path):
    settings = {"max_steps": -1, "num_train_epochs": 2, "sizes": "declared"}
    bounds = {"min_entities": 100, "max_relations": 600}
    made = trainer(tmp_path, **settings, **bounds)
    assert made.plan.num_steps == 200  # 2 * 600 / 6, although the graph has 399 relations
    fewer = trainer(tmp_path, train_dataset=pairs(300), **settings, **bounds)
    assert fewer.plan.num_steps == 200
    assert trainer(tmp_path, **{**settings, "sizes": "public"}).plan.num_steps == 133


def test_a_plan_can_be_suggested_from_a_target_alone(tmp_path):
    args = PrivateTrainingArguments(
        output_dir=str(tmp_path / "run"), target_epsilon=8.0, sizes="public"
    )
    made = trainer(tmp_path, args=args)
    assert made.plan.epsilon() <= 8.0
    assert made.plan.num_negatives == 4
    assert made.plan.max_degree == 5


def test_private_sizes_are_not_released_again_for_a_run_that_has_them(tmp_path, monkeypatch):
    big = pairs(9000)
    settings = {"sizes": "private", "train_dataset": big, "delta": None}
    trainer(tmp_path, callbacks=[Stop(2)], **settings).train()
    trainer(tmp_path, **settings).train(resume_from_checkpoint=True)
    monkeypatch.setenv("RELDP_STATE_DIR", str(tmp_path / "elsewhere"))
    with pytest.raises(ConfigError, match="releasing sizes again costs epsilon again"):
        trainer(tmp_path, **settings)


def test_negatives_may_come_from_public_texts(tmp_path):
    made = trainer(tmp_path, public_negatives=texts(50, seed=3))
    made.train()
    assert made.plan.negatives == "public"
    assert made.plan.pool_size == 50
    reldp.verify(tmp_path / "run")


def test_a_graph_and_a_loss_of_ones_own_will_do(tmp_path):
    def loss(embeddings, batch):
        gap = (embeddings[:, :1] - embeddings[:, 2:]).square().sum(-1)
        return torch.relu(1 - gap).masked_fill(batch.mask, 0.0)

    graph = EntityGraph.from_pairs(pairs(), left="anchor", right="positive", ids="text")
    made = trainer(tmp_path, graph=graph.cap_degrees(3, seed=1), loss=loss)
    made.train()
    assert made.plan.max_degree == 3
    assert not made.certificate.values["loss"]["included"]


def test_sensitive_values_are_logged_on_request(tmp_path):
    made = trainer(tmp_path, log_sensitive=True, logging_steps=2, disable_tqdm=True)
    made.train()
    logged = {name for line in made.state.log_history for name in line}
    assert {"sensitive/loss", "sensitive/num_tuples", "epsilon"} <= logged
    lines = RunFolder(tmp_path / "run").metrics.read_text().splitlines()
    assert "loss" in json.loads(lines[0])["sensitive"]


def test_it_is_evaluated_before_training_too(tmp_path):
    made = trainer(tmp_path, evaluator=similarity(), evaluator_data="public")
    metrics = made.evaluate(metric_key_prefix="test")
    assert all(name.startswith("test_dev_") for name in metrics)
    assert made.evaluations == [{"step": 0, **metrics}]
    assert made.state.log_history[0]["step"] == 0


def test_without_the_library_one_line_says_what_to_install():
    code = (
        "import sys; sys.modules['sentence_transformers'] = None\n"
        "import reldp.integrations.sentence_transformers"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith('pip install "reldp[sentence-transformers]".')


def stock(home):
    from sentence_transformers import SentenceTransformerTrainingArguments

    return SentenceTransformerTrainingArguments(output_dir=str(home / "run"))


def pooled_without_prompt(home):
    model = tiny(home)
    model[1].include_prompt = False
    return model


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"args": stock}, "target_epsilon=4.0"),
        (
            {"args": lambda home: {"output_dir": "x"}},
            "`args` must be PrivateTrainingArguments, got dict",
        ),
        ({"loss": CoSENTLoss}, "`loss` must be a function of one row, got CoSENTLoss"),
        ({"loss": "tripplet"}, "`loss` must be one of"),
        ({"loss": lambda embeddings, batch: embeddings.mean()}, "`loss` must return one value"),
        ({"eval_steps": 2}, "`evaluator` or `eval_dataset` must be given to evaluate every"),
        ({"evaluator": 3}, "`evaluator` must be an evaluator"),
        ({"callbacks": [3]}, "`callbacks` must be TrainerCallback"),
        ({"max_degree": 3, "clipping": "tupel"}, "`clipping` must be"),
        ({"expected_batch_size": 1e9}, "`sample_rate`|`expected_batch_size`"),
        ({"prompts": "q: ", "model": pooled_without_prompt}, "pools without the prompt"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_happens(tmp_path, given, words):
    given = {k: v(tmp_path) if k in ("args", "model") else v for k, v in given.items()}
    model = given.pop("model", None)
    model = tiny(tmp_path) if model is None else model
    before, names = model.encode(TEXTS), list(model.state_dict())
    with pytest.raises(ReldpError, match=words) as refused:
        trainer(tmp_path, model, **given)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()
    np.testing.assert_array_equal(model.encode(TEXTS), before)
    assert list(model.state_dict()) == names


def test_parameters_of_the_stock_trainer_are_refused(tmp_path):
    from reldp.integrations.sentence_transformers import PrivateSentenceTransformerTrainer as Made

    with pytest.raises(ConfigError, match="`compute_metrics` must be left out"):
        Made(model=None, args=None, compute_metrics=print)


def test_a_path_is_no_checkpoint(tmp_path):
    with pytest.raises(ConfigError, match="`resume_from_checkpoint` must be true or false"):
        trainer(tmp_path).train(resume_from_checkpoint="checkpoint-100")
