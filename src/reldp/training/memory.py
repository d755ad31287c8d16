"""Settings that make a model fit into the memory of its devices: sharded weights, activations computed again.

Both change where numbers are kept and when they are computed, and not what is computed.

`Trainer` applies them for the time of a run. A loop of one's own with `PrivateStep` cannot use them.

Private to the package: `fit_memory`, `refuse_memory_settings`, `refuse_selection`.

>>> fit_memory.__name__
'fit_memory'
"""

from typing import TYPE_CHECKING

import torch

from reldp.encoders.sharding import WholeModule, checkpoint_activations, shard_weights
from reldp.errors import ConfigError
from reldp.training.messages import refuse_messages
from reldp.training.repeatability import repeatable_attention

if TYPE_CHECKING:
    from reldp.encoders import Encoder
    from reldp.processes import Processes
    from reldp.training.config import PerformanceSettings
    from reldp.training.facts import TrainingFacts

__all__ = ["fit_memory", "refuse_memory_settings", "refuse_selection"]

_SETTINGS = ("shard_weights", "checkpoint_activations")


def fit_memory(
    encoder: "Encoder",
    performance: "PerformanceSettings",
    processes: "Processes",
    facts: "TrainingFacts",
) -> WholeModule:
    """Prepare an encoder for training as the settings ask for it.

    Args:
        encoder: The encoder, changed in place.
        performance: The settings.
        processes: The processes.
        facts: Whose hashes are of the encoder as it was loaded.

    Returns:
        The module as it was, to be restored after training.
    """
    if not performance.shard_weights and not performance.checkpoint_activations:
        return WholeModule(None)
    facts.take_hashes()
    whole = WholeModule(encoder.module)
    try:
        if performance.shard_weights:
            # Afterwards layers gather their weights: other messages would look the same.
            refuse_messages(facts.objective, facts.make_table(), length=8)
            shard_weights(encoder, processes, performance.device)
        if performance.checkpoint_activations:
            device = torch.device(performance.device)
            checkpoint_activations(encoder, lambda: repeatable_attention(device))
    except BaseException:
        whole.restore()
        raise
    return whole


def refuse_selection(performance: "PerformanceSettings", selection: object) -> None:
    """Refuse to choose weights by evaluations while they are sharded: encoders are not evaluated then.

    Raises:
        ConfigError: Both are asked for.
    """
    if performance.shard_weights and selection is not None:
        raise ConfigError(
            "`shard_weights` must be used without eval_graph, got both. Sharded models are not evaluated during "
            "training."
        )


def refuse_memory_settings(performance: "PerformanceSettings") -> None:
    """Refuse settings that only a `Trainer` applies: a ledger would say that they were on.

    Raises:
        ConfigError: One of them is on.
    """
    for name in _SETTINGS:
        if getattr(performance, name):
            raise ConfigError(
                f"`{name}` must be used with Trainer, got PrivateStep, which does not apply it. Use Trainer, or leave "
                "it out."
            )
