"""Stock arguments: what was changed is honored or refused, what was not asks for nothing."""

from dataclasses import fields

import pytest
from sentence_transformers import SentenceTransformerTrainingArguments

from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers import PrivateTrainingArguments
from reldp.integrations.sentence_transformers.stock_arguments import is_stock, translated

NAMES = [field.name for field in fields(PrivateTrainingArguments)]


def stock(home, **settings):
    return SentenceTransformerTrainingArguments(output_dir=str(home / "run"), **settings)


def test_unchanged_ones_state_learning_and_nothing_else(tmp_path):
    settings = translated(stock(tmp_path), NAMES)
    assert settings["learning_rate"] == 5e-5
    assert settings["num_train_epochs"] == 3
    assert settings["lr_scheduler_type"] == "linear"
    assert settings["optim"].startswith("adamw_torch")
    assert settings["seed"] == 42
    assert "eval_strategy" not in settings
    assert "bf16" not in settings
    args = PrivateTrainingArguments.from_sentence_transformers(stock(tmp_path), target_epsilon=3)
    assert args.target_epsilon == 3
    assert args.log_sensitive is False


def test_changed_ones_are_taken(tmp_path):
    given = stock(
        tmp_path,
        learning_rate=1e-3,
        warmup_steps=0.1,
        lr_scheduler_type="cosine",
        max_steps=40,
        eval_strategy="steps",
        eval_steps=5,
        logging_steps=3,
        save_steps=9,
        seed=7,
        weight_decay=0.2,
        run_name="mine",
        use_cpu=True,
        dataloader_num_workers=2,
    )
    args = PrivateTrainingArguments.from_sentence_transformers(given, noise_multiplier=1.0)
    settings = args.trainer_settings(40)
    assert settings["warmup_steps"] == 4
    assert settings["schedule"] == "cosine"
    assert settings["device"] == "cpu"
    assert settings["checkpoint_every"] == 9
    assert (args.max_steps, args.eval_steps, args.logging_steps) == (40, 5, 3)
    assert (args.seed, args.weight_decay, args.run_name) == (7, 0.2, "mine")


def test_settings_beside_them_take_precedence(tmp_path):
    args = PrivateTrainingArguments.from_sentence_transformers(
        stock(tmp_path), target_epsilon=4.0, learning_rate=1e-3, seed=0
    )
    assert (args.learning_rate, args.seed) == (1e-3, 0)


def test_a_deprecated_ratio_of_warmup_is_understood(tmp_path):
    args = PrivateTrainingArguments.from_sentence_transformers(
        stock(tmp_path, warmup_ratio=0.5), target_epsilon=4.0
    )
    assert args.trainer_settings(10)["warmup_steps"] == 5


@pytest.mark.parametrize("settings", [{"tf32": False}, {"optim_args": "a=1"}, {"eval_delay": 2}])
def test_a_changed_one_that_is_not_honored_is_refused(tmp_path, settings):
    (name,) = settings
    with pytest.raises(ConfigError, match=f"`{name}` must be left out"):
        translated(stock(tmp_path, **settings), NAMES)


def test_without_privacy_settings_the_error_says_how_to_give_them(tmp_path):
    with pytest.raises(
        ConfigError, match=r"from_sentence_transformers\(args, target_epsilon=4.0\)"
    ):
        PrivateTrainingArguments.from_sentence_transformers(stock(tmp_path))


def test_other_objects_are_refused():
    assert not is_stock({})
    with pytest.raises(
        ConfigError, match="must be a SentenceTransformerTrainingArguments, got dict"
    ):
        translated({}, NAMES)
