"""Arguments: familiar names become settings of a plan, a trainer and adapters, from public values only."""

import pytest

from reldp.errors import ConfigError, InputError
from reldp.integrations.sentence_transformers import PrivateTrainingArguments
from reldp.integrations.sentence_transformers.arguments import as_steps
from reldp.training.config import TrainingConfig


def made(**settings):
    return PrivateTrainingArguments(**{"output_dir": "run", "target_epsilon": 4.0, **settings})


def test_the_settings_are_those_of_a_trainer():
    args = made(
        learning_rate=2e-3,
        lr_scheduler_type="cosine",
        warmup_ratio=0.25,
        optim="adamw_torch_fused",
        weight_decay=0.1,
        adam_beta2=0.98,
        save_steps=7,
        bf16=True,
        use_cpu=True,
        average=0.9,
        disable_tqdm=True,
    )
    config = TrainingConfig.make(**args.trainer_settings(40)).to_dict()
    assert config["learning_rate"] == 2e-3
    assert config["schedule"] == "cosine"
    assert config["warmup_steps"] == 10
    assert config["optimizer"] == "adamw"
    options = {"weight_decay": 0.1, "betas": [0.9, 0.98], "eps": 1e-8}
    assert config["optimizer_options"] == options
    assert config["checkpoint_every"] == 7
    assert config["precision"] == "bfloat16"
    assert config["device"] == "cpu"
    assert config["average"] == 0.9
    assert config["progress"] is False
    assert not config["log_sensitive"]


def test_sgd_has_no_options_of_adam():
    assert made(optim="sgd").trainer_settings(5)["optimizer_options"] == {"weight_decay": 0.0}


def test_no_checkpoints_are_one_at_the_end():
    assert made(save_strategy="no").trainer_settings(77)["checkpoint_every"] == 77


def test_shares_and_numbers_of_steps():
    assert [as_steps(0.5, 7), as_steps(0.001, 7), as_steps(3, 7), as_steps(3.0, 7)] == [4, 1, 3, 3]
    assert made(warmup_steps=0.5).trainer_settings(8)["warmup_steps"] == 4
    assert made(warmup_steps=3).trainer_settings(8)["warmup_steps"] == 3


def test_epochs_are_passes_over_the_public_bound():
    args = made(num_train_epochs=1.5)
    assert args.expected_steps(1001, 10) == 151
    assert made(max_steps=9, num_train_epochs=2).expected_steps(1001, 10) == 9
    assert made().expected_steps(1001, 10) is None


def test_settings_of_the_plan_are_those_that_are_given():
    args = made(max_degree=3, num_negatives=2, delta=1e-6, clip_norm=0.5, unit="relation")
    assert args.plan_settings() == {
        "target_epsilon": 4.0,
        "sizes": "private",
        "num_negatives": 2,
        "delta": 1e-6,
        "clip_norm": 0.5,
        "unit": "relation",
    }


def test_the_seed_is_of_capping_and_adapters_alone():
    assert made(seed=5).adaptation().seed == 5
    assert "seed" not in made(seed=5).trainer_settings(3)
    assert "seed" not in made(seed=5).plan_settings()


def test_evaluation_every_so_many_steps_follows_from_either_name():
    assert made().eval_strategy == "no"
    assert made(eval_steps=5).eval_strategy == "steps"
    assert made(eval_strategy="steps").eval_strategy == "steps"
    assert made(eval_strategy="no", eval_steps=5).eval_strategy == "no"


def test_reporters_are_a_list():
    assert (
        made().report_to == made(report_to="none").report_to == made(report_to=[]).report_to == ()
    )
    assert made(report_to=["wandb", "mlflow"]).report_to == ("wandb", "mlflow")


def test_they_are_plain_values():
    import json

    values = json.loads(json.dumps(made(report_to="wandb").to_dict()))
    assert values["report_to"] == ["wandb"]
    assert values["target_epsilon"] == 4.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target_epsilon": None}, "`target_epsilon` or `noise_multiplier` must be given"),
        ({"noise_multiplier": 1.0}, "must be given, and not both"),
        (
            {"learnin_rate": 1e-3},
            "`learnin_rate` must be an argument .* Did you mean learning_rate",
        ),
        ({"optim": "adafactor"}, "`optim` must be one of"),
        ({"lr_scheduler_type": "polynomial"}, "`lr_scheduler_type` must be one of"),
        ({"eval_strategy": "epoch"}, "`eval_strategy` must be one of no, steps.* has no epochs"),
        ({"save_strategy": "best"}, "`save_strategy` must be one of no, steps"),
        ({"logging_strategy": "epoch"}, "`logging_strategy` .* has no epochs"),
        ({"report_to": "all"}, "`report_to` must be one of none, tensorboard, wandb, mlflow"),
        ({"prompts": {"anchor": "q: "}}, "`prompts` must be one text for all columns"),
        ({"max_steps": 0}, "`max_steps` must be an integer, -1 or at least 1"),
        ({"num_train_epochs": 0}, "`num_train_epochs`"),
        ({"warmup_ratio": 1.0}, "`warmup_ratio`"),
        ({"warmup_ratio": 0.1, "warmup_steps": 3}, "`warmup_ratio` must be left out beside"),
        ({"train": "none"}, "`train` must be lora, full or last:N"),
        ({"train": "head"}, "`train` must be"),
        ({"lora_rank": 0}, "`lora_rank`"),
        ({"seed": "x"}, "`seed`"),
        ({"max_degree": 0}, "`max_degree`"),
        ({"logging_steps": 0}, "`logging_steps`"),
        ({"log_sensitive": "yes"}, "`log_sensitive` must be true or false"),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(settings, words):
    with pytest.raises(InputError, match=words) as refused:
        made(**settings)
    assert "\n" not in str(refused.value)


def test_they_cannot_be_changed():
    with pytest.raises(AttributeError):
        made().seed = 3


def test_the_name_of_the_folder_is_needed():
    with pytest.raises(TypeError, match="output_dir"):
        PrivateTrainingArguments(target_epsilon=4.0)


def test_refusals_come_before_missing_values():
    with pytest.raises(ConfigError, match="`fp16` must be left out"):
        PrivateTrainingArguments(output_dir="run", fp16=True)
