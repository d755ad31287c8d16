"""Stock arguments of sentence-transformers as settings of a private run.

What was left at its default asks for nothing. What was changed is taken if it can be honored, and refused
with a sentence if not (`refusals`). Learning rate, schedule, optimizer and number of epochs are taken as they
stand, changed or not, because a stock object always states them.

Inside the package: `translated`, `is_stock`.

>>> is_stock("no arguments")
False
"""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from reldp.errors import ConfigError
from reldp.integrations.sentence_transformers.refusals import refuse_argument

__all__ = ["is_stock", "translated"]

# Taken as they stand: a stock object states them, whether they were changed or not.
_STATED = (
    *("output_dir", "learning_rate", "lr_scheduler_type", "warmup_steps", "warmup_ratio"),
    *("optim", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "max_steps", "seed"),
    *("num_train_epochs", "logging_steps", "save_steps"),
)


def is_stock(args: Any) -> bool:
    """Return whether these are training arguments of transformers or sentence-transformers."""
    from transformers import TrainingArguments

    return isinstance(args, TrainingArguments)


def translated(args: Any, honored: Collection[str]) -> dict[str, Any]:
    """Return the settings of stock arguments that are honored.

    Args:
        args: The stock arguments.
        honored: Names of the arguments of this trainer.

    Raises:
        ConfigError: They are no stock arguments, or one was changed that cannot be honored.
    """
    if not is_stock(args):
        raise ConfigError(
            f"`args` must be a SentenceTransformerTrainingArguments, got {type(args).__name__}."
        )
    defaults = type(args)(output_dir="unused")
    settings: dict[str, Any] = {}
    for field in fields(args):
        name, value = field.name, getattr(args, field.name)
        value = getattr(value, "value", value)
        default = getattr(defaults, name)
        changed = value != getattr(default, "value", default)
        if name in honored and (changed or name in _STATED):
            settings[name] = value
        elif changed:
            refuse_argument(name, value)
    if not settings.get("warmup_ratio"):
        settings.pop("warmup_ratio", None)
    return settings
