"""What cannot be had under the guarantee, one row each: why, and what to use instead.

Inside the package: `ARGUMENTS`, `PARAMETERS`, `WITHOUT_EFFECT`, `refuse_argument`, `refuse_parameter`.

>>> refuse_argument("max_grad_norm", 1.0)
Traceback (most recent call last):
reldp.errors.ConfigError: `max_grad_norm` must be left out, got 1.0. It clips the gradient of a whole \
batch, which bounds nobody's influence; gradients are clipped per tuple: use clip_norm.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from reldp._validate import shown
from reldp.errors import ConfigError

__all__ = ["ARGUMENTS", "PARAMETERS", "WITHOUT_EFFECT", "refuse_argument", "refuse_parameter"]


class _Row(NamedTuple):
    """A refused name: the sentence, and values that ask for nothing and are accepted."""

    sentence: str
    neutral: tuple[Any, ...] = ()


_CHOOSING = (
    "Choosing a checkpoint by its evaluation is a release of its own, which epsilon does not cover; the last "
    "weights are released: use average to release an average of them."
)
_ONE_PROCESS = "This trainer runs in one process: use one device."
_RANDOM_BATCHES = (
    "Epsilon holds for Poisson sampling, in which every relation enters a batch by a draw of its own: use "
    "expected_batch_size."
)
_SECRET_DRAWS = (
    "Batches and noise follow from a secret key that a run makes and destroys; with a seed anyone could "
    "subtract the noise: use seed for degree capping alone."
)

ARGUMENTS: Mapping[str, _Row] = {
    "max_grad_norm": _Row(
        "It clips the gradient of a whole batch, which bounds nobody's influence; gradients are clipped per "
        "tuple: use clip_norm.",
        (None, 0),
    ),
    "per_device_train_batch_size": _Row(
        "The size of a batch is random, since every relation enters it by a draw of its own: use "
        "expected_batch_size, its mean."
    ),
    "per_gpu_train_batch_size": _Row(
        "The size of a batch is random, since every relation enters it by a draw of its own: use "
        "expected_batch_size, its mean."
    ),
    "gradient_accumulation_steps": _Row(
        "A step is one draw, which is counted once, and a large batch is cut into microbatches by itself: use "
        "expected_batch_size.",
        (None, 1),
    ),
    "auto_find_batch_size": _Row(
        "A batch size that follows from the memory that private texts need reveals their lengths: use "
        "expected_batch_size, and microbatch_units for memory.",
        (None, False),
    ),
    "batch_sampler": _Row(
        "There are no in-batch negatives, whose gradients would mix tuples, and epsilon holds for Poisson "
        "sampling alone: use num_negatives.",
        (None, "batch_sampler"),
    ),
    "multi_dataset_batch_sampler": _Row(
        "Training takes one graph, in which an entity's relations are counted together: join the datasets.",
        (None, "proportional"),
    ),
    "train_sampling_strategy": _Row(_RANDOM_BATCHES, (None, "random")),
    "group_by_length": _Row(_RANDOM_BATCHES, (None, False)),
    "dataloader_drop_last": _Row(_RANDOM_BATCHES, (None, False)),
    "data_seed": _Row(_SECRET_DRAWS, (None,)),
    "full_determinism": _Row(_SECRET_DRAWS, (None, False)),
    "ignore_data_skip": _Row(
        "A resumed run repeats or skips no draw, whatever this says: use resume_from_checkpoint=True in train().",
        (None, False),
    ),
    "fp16": _Row(
        "Its loss scaler skips steps by looking at gradients without noise: use bf16.",
        (None, False),
    ),
    "load_best_model_at_end": _Row(_CHOOSING, (None, False)),
    "metric_for_best_model": _Row(_CHOOSING, (None,)),
    "greater_is_better": _Row(_CHOOSING, (None,)),
    "save_total_limit": _Row(
        "A run keeps its newest checkpoint and no other: use 1, or leave it out.", (None, 1)
    ),
    "include_num_input_tokens_seen": _Row(
        "The number of tokens of the batches is computed from private texts without noise: use log_sensitive "
        "for values of your own eyes.",
        (None, "no", False),
    ),
    "label_smoothing_factor": _Row(
        "It belongs to the loss: give it to a loss of your own.", (None, 0)
    ),
    "neftune_noise_alpha": _Row(
        "A step must give the same bits when it is repeated after a crash, so the forward pass draws no random "
        "numbers: the noise of the guarantee is added to gradients, set by target_epsilon.",
        (None,),
    ),
    "gradient_checkpointing": _Row(
        "Gradients per tuple need the activations of every layer: use microbatch_units to save memory.",
        (None, False),
    ),
    "torch_compile": _Row(
        "Compiled layers have no gradients per tuple: use cuda_graphs for speed on a GPU.",
        (None, False),
    ),
    "push_to_hub": _Row(
        "Nothing may leave before there is a certificate: call trainer.push_to_hub() after train().",
        (None, False),
    ),
    "hub_strategy": _Row(
        "Nothing may leave before there is a certificate: call trainer.push_to_hub() after train().",
        (None, "every_save"),
    ),
    "resume_from_checkpoint": _Row(
        "The run in output_dir is resumed by train(): use train(resume_from_checkpoint=True).",
        (None,),
    ),
    "eval_on_start": _Row(
        "Evaluation before the first step is a call: use trainer.evaluate() before train().",
        (None, False),
    ),
    "learning_rate_mapping": _Row(
        "All trained parameters have one learning rate: use learning_rate.", (None, {})
    ),
    "router_mapping": _Row("A model with a Router is not trained here: use one model.", (None, {})),
    "deepspeed": _Row(_ONE_PROCESS, (None,)),
    "fsdp": _Row(_ONE_PROCESS, (None, [], "")),
}
"""Arguments of sentence-transformers and transformers that are refused."""

PARAMETERS: Mapping[str, _Row] = {
    "data_collator": _Row(
        "A collator would see many rows at once; texts are tokenized one by one: use the model's tokenizer."
    ),
    "processing_class": _Row("Texts are read by the model's tokenizer: use model.tokenizer."),
    "tokenizer": _Row("Texts are read by the model's tokenizer: use model.tokenizer."),
    "model_init": _Row(
        "Several models are several runs, whose epsilons add up: use model, and one trainer per run."
    ),
    "compute_metrics": _Row("There are no predictions to compare: use evaluator."),
    "preprocess_logits_for_metrics": _Row("There are no predictions to compare: use evaluator."),
    "optimizers": _Row(
        "An optimizer must be one that a resumed run can make again: use optim, learning_rate and "
        "lr_scheduler_type in args."
    ),
    "optimizer_cls_and_kwargs": _Row(
        "An optimizer must be one that a resumed run can make again: use optim in args."
    ),
}
"""Parameters of SentenceTransformerTrainer that are refused."""

WITHOUT_EFFECT = frozenset(
    {
        *("dataloader_num_workers", "dataloader_pin_memory", "dataloader_persistent_workers"),
        *("dataloader_prefetch_factor", "remove_unused_columns", "per_device_eval_batch_size"),
        *("do_train", "do_eval", "do_predict", "log_level", "log_level_replica"),
        *("skip_memory_metrics", "logging_nan_inf_filter", "prediction_loss_only", "project"),
        *(
            "overwrite_output_dir",
            "local_rank",
            "ddp_find_unused_parameters",
            "ddp_broadcast_buffers",
        ),
    }
)
"""Arguments that are accepted and change nothing: there is no data loader and no eval loop."""


def refuse_argument(name: str, value: Any) -> None:
    """Refuse an argument of sentence-transformers that is not honored.

    Args:
        name: The argument.
        value: What it was set to; values that ask for nothing are accepted.

    Raises:
        ConfigError: The sentence of its row; a general one for arguments without a row.
    """
    if name in WITHOUT_EFFECT:
        return
    row = ARGUMENTS.get(name, _Row("This trainer has no such setting: leave it out.", (None,)))
    plain = getattr(value, "value", value)
    if not any(plain is neutral or plain == neutral for neutral in row.neutral):
        raise ConfigError(f"`{name}` must be left out, got {shown(plain)}. {row.sentence}")


def refuse_parameter(name: str, known: list[str]) -> None:
    """Refuse a parameter of SentenceTransformerTrainer that this trainer does not have.

    Raises:
        ConfigError: Always; an unknown name gets the nearest one.
    """
    if name in PARAMETERS:
        raise ConfigError(f"`{name}` must be left out. {PARAMETERS[name].sentence}")
    from reldp._validate import did_you_mean

    hint = did_you_mean(name, known) or f"There are: {', '.join(known)}."
    raise ConfigError(f"`{name}` must be a parameter of PrivateSentenceTransformerTrainer. {hint}")
