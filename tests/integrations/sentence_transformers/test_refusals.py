"""Every refused name says why and what to use, in one line, in both kinds of arguments."""

from dataclasses import fields

import pytest
from sentence_transformers import SentenceTransformerTrainingArguments

from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers import PrivateTrainingArguments
from reldp.integrations.sentence_transformers.refusals import (
    ARGUMENTS,
    PARAMETERS,
    WITHOUT_EFFECT,
    refuse_argument,
    refuse_parameter,
)

STOCK = {field.name for field in fields(SentenceTransformerTrainingArguments)}
HONORED = {field.name for field in fields(PrivateTrainingArguments)}
# A value that asks for something.
ASKED = {
    "max_grad_norm": 0.5,
    "per_device_train_batch_size": 64,
    "per_gpu_train_batch_size": 64,
    "gradient_accumulation_steps": 4,
    "auto_find_batch_size": True,
    "batch_sampler": "no_duplicates",
    "multi_dataset_batch_sampler": "round_robin",
    "train_sampling_strategy": "group_by_length",
    "group_by_length": True,
    "dataloader_drop_last": True,
    "data_seed": 3,
    "full_determinism": True,
    "ignore_data_skip": True,
    "fp16": True,
    "load_best_model_at_end": True,
    "metric_for_best_model": "eval_cosine",
    "greater_is_better": True,
    "save_total_limit": 3,
    "include_num_input_tokens_seen": "all",
    "label_smoothing_factor": 0.1,
    "neftune_noise_alpha": 5.0,
    "gradient_checkpointing": True,
    "torch_compile": True,
    "push_to_hub": True,
    "hub_strategy": "checkpoint",
    "resume_from_checkpoint": "checkpoint-1",
    "eval_on_start": True,
    "learning_rate_mapping": {"x": 0.1},
    "router_mapping": {"anchor": "query"},
    "deepspeed": "settings.json",
    "fsdp": "full_shard",
}
# Those whose stock object cannot be made here, with a GPU or with another value missing.
NOT_HERE = {"fp16", "torch_compile", "deepspeed", "fsdp", "load_best_model_at_end"}


def test_every_row_is_tested():
    assert set(ASKED) == set(ARGUMENTS)


def test_a_name_is_honored_or_refused_or_without_effect_and_never_two_of_them():
    assert not HONORED & set(ARGUMENTS)
    assert not WITHOUT_EFFECT & set(ARGUMENTS)
    assert not WITHOUT_EFFECT & HONORED


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_row_says_why_and_what_to_use_in_one_line(name):
    sentence = ARGUMENTS[name].sentence
    assert ": " in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    with pytest.raises(ConfigError) as refused:
        PrivateTrainingArguments(output_dir="run", target_epsilon=4.0, **{name: ASKED[name]})
    assert str(refused.value).startswith(f"`{name}` must be left out, got ")
    assert str(refused.value).endswith(sentence)


@pytest.mark.parametrize("name", sorted(set(ARGUMENTS) & STOCK - NOT_HERE))
def test_a_changed_field_of_stock_arguments_is_refused(name, tmp_path):
    given = {name: ASKED[name], "report_to": "none"}
    stock = SentenceTransformerTrainingArguments(output_dir=str(tmp_path), **given)
    with pytest.raises(ConfigError, match=f"`{name}` must be left out"):
        PrivateTrainingArguments.from_sentence_transformers(stock, target_epsilon=4.0)


@pytest.mark.parametrize(
    ("name", "value"), [(name, v) for name, row in ARGUMENTS.items() for v in row.neutral]
)
def test_a_value_that_asks_for_nothing_is_accepted(name, value):
    PrivateTrainingArguments(output_dir="run", target_epsilon=4.0, **{name: value})


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_settings_of_a_loader_that_is_not_there_change_nothing(name):
    plain = PrivateTrainingArguments(output_dir="run", target_epsilon=4.0)
    assert PrivateTrainingArguments(output_dir="run", target_epsilon=4.0, **{name: 3}) == plain


def test_a_stock_name_without_a_row_is_refused_too():
    with pytest.raises(
        ConfigError, match=r"`tf32` must be left out, got True. This trainer has no"
    ):
        refuse_argument("tf32", True)
    assert "tf32" in STOCK
    refuse_argument("tf32", None)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_the_stock_trainer_are_refused_with_a_sentence(name):
    with pytest.raises(ConfigError, match=f"`{name}` must be left out. [A-Z].*: use"):
        refuse_parameter(name, ["model"])


def test_an_unknown_parameter_gets_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean evaluator"):
        refuse_parameter("evaluators", ["model", "evaluator"])
