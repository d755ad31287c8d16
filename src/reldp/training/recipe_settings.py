"""Every setting of a recipe: its kind, what it does, and its default.

``[privacy]`` takes its defaults from `PrivacyPlan`, and ``[learning]``, ``[performance]`` and ``[logging]`` from the
classes of `reldp.training.config`. Those classes also check values; only kinds are checked here.

Inside the package: `SECTIONS`.

>>> SECTIONS["learning"]["loss"].default, SECTIONS["privacy"]["clip_norm"].default
('infonce', 1.0)
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from reldp._validate import (
    ACTIVATIONS,
    ANALYSES,
    CLIPPING_RULES,
    DISTANCES,
    LOSSES,
    NEGATIVE_POOLS,
    NOISE_GENERATORS,
    OBJECTIVES,
    POOLINGS,
    PRECISIONS,
    SCHEDULES,
    SCORES,
    SIZES,
    SOFTMAX_PAIRINGS,
    TOKENIZE,
    TYPED_LOSSES,
    UNITS,
    default_of,
)
from reldp.errors import ConfigError
from reldp.plan import PrivacyPlan
from reldp.training.config import LearningSettings, LoggingSettings, PerformanceSettings
from reldp.training.setting import Setting

__all__ = ["SECTIONS", "refuse_outside"]


def _with_defaults(
    owner: Callable[..., Any], settings: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings with the defaults of a class or function."""
    filled = {}
    for name, setting in settings.items():
        default = default_of(owner, name)
        # As TOML reads it: a tuple there is a list here.
        value = list(default) if isinstance(default, tuple) else default
        filled[name] = replace(setting, default=value)
    return filled


_DATA = {
    "graph": Setting(
        "text",
        "Graph folder, or a bundled graph: wordnet-nouns, wordnet-verbs, wordnet-adjectives.",
        '"path/to/graph"',
    ),
    "max_degree": Setting(
        "whole number",
        "Largest number of relations that a protected entity keeps. The others are dropped (default: 1 if negatives "
        "are relations, else 5).",
        "5",
    ),
    "promise_degrees": Setting(
        "true or false",
        "Take max_degree as a fact about the data: no relation is dropped, and a graph with a larger "
        "degree is refused.",
        default=False,
    ),
    "cap_seed": Setting(
        "whole number", "Seed of the choice of relations that are dropped.", default=0
    ),
    "drop": Setting(
        "list",
        "Kinds of invalid rows to drop and count instead of refusing the graph, among bad_features, duplicate_ids, "
        "duplicate_relations, empty_text, extra_columns, malformed_lines, missing_ids, missing_types, other_texts, "
        "relation_columns, self_relations and unknown_ids.",
        default=[],
    ),
    "public_pool": Setting(
        "text",
        'Graph of public entities to draw negatives from. Needs negatives = "public" in [privacy].',
        '"path/to/public/graph"',
    ),
    "pool_shares_entities": Setting(
        "true or false",
        "Whether public_pool is public though it has entities of the graph, such as a catalog that everybody knows.",
        default=False,
    ),
    "holdout": Setting(
        "number",
        "Share of the entities to hold out: they are not trained on, and the encoder is evaluated on relations among "
        "them, before and after training. The results are sensitive (default: none).",
        "0.2",
    ),
    "holdout_seed": Setting(
        "whole number", "Public seed of the choice of held-out entities.", default=0
    ),
    "eval_graph": Setting("text", "Public graph: its best weights by MRR are released.", '"verbs"'),
    "eval_every": Setting("whole number", "Steps between evaluations (default: 100).", "100"),
    "eval_shares_ids": Setting(
        "true or false", "Whether eval_graph is public though it shares ids.", default=False
    ),
}

# The encoders load torch, and help pages must not wait for that: a test compares these defaults with theirs.
_ENCODER = {
    "model": Setting(
        "text",
        "Folder or hub name of a text model (default: MiniLM for a graph of texts, and a linear "
        "layer for a graph with features).",
        '"sentence-transformers/all-MiniLM-L6-v2"',
    ),
    "train": Setting(
        "text",
        "Weights of a text model to train: lora, full, last:N (layers), head (a layer on frozen "
        "embeddings, thousands of steps a minute), or pooling (weights of tokens in mean pooling).",
        default="lora",
    ),
    "lora_rank": Setting("whole number", "Rank of the adapters.", default=8),
    "lora_alpha": Setting("number", "Scale of the adapters (default: twice the rank).", "16.0"),
    "lora_targets": Setting(
        "list or text",
        'Linear layers with adapters: a list of names, "all-linear", or "query-value" (faster). The '
        "default is attention and feed-forward, or query and value where layers have more than these.",
        '"query-value"',
    ),
    "lora_layers": Setting(
        "whole number", "Number of layers with adapters, from the last (default: all).", "3"
    ),
    "pooling": Setting(
        "text",
        "How token vectors become one vector (default: as the model was trained).",
        '"mean"',
        POOLINGS,
    ),
    "normalize": Setting(
        "true or false",
        "Scale embeddings to length 1 (default: as the model was trained).",
        "true",
    ),
    "max_length": Setting(
        "whole number", "Tokens after which a text is cut (default: the model's limit).", "64"
    ),
    "dtype": Setting(
        "text", "Number format of the frozen weights.", choices=PRECISIONS, default="float32"
    ),
    "attention": Setting(
        "text",
        "Attention implementation of a text model: short (at most 64 tokens; fast on a GPU), or one that "
        "transformers has, such as eager or sdpa (default: chosen by transformers).",
        '"short"',
    ),
    "gguf_file": Setting("text", "GGUF file inside the model's folder.", '"model.gguf"'),
    "revision": Setting("text", "Revision of a hub model.", '"main"'),
    "seed": Setting("whole number", "Seed of the new weights, which are public.", default=0),
    "hidden": Setting(
        "list", "Widths of hidden layers, for a head or for an encoder of features.", default=[]
    ),
    "dim": Setting(
        "whole number", "Length of an embedding, for a head or for an encoder of features.", "128"
    ),
    "activation": Setting(
        "text",
        "Function between the layers of an encoder of features.",
        choices=ACTIVATIONS,
        default="relu",
    ),
}
# What a recipe asks for besides the fields of a plan.
_TARGET = {
    "enabled": Setting(
        "true or false",
        "false trains without clipping and noise: epsilon is infinite.",
        default=True,
    ),
    "target_epsilon": Setting(
        "number", "Epsilon that the noise is calibrated to. Smaller is more private.", "4.0"
    ),
    "noise_multiplier": Setting(
        "number",
        "Standard deviation of the noise divided by the clip norm, instead of a target epsilon. With private sizes, "
        "epsilon then holds only conditionally on the released bounds.",
        "1.0",
    ),
    "delta": Setting(
        "number",
        "Delta (default: 0.1 / N, N being the number of entities or its lower bound).",
        "1e-6",
    ),
}
_SIZES = {
    "sizes": Setting(
        "text",
        "What a plan knows about the numbers of entities and relations: private (noisy bounds, "
        "released once per capped graph, that is, per max_degree and cap_seed, for a little epsilon, which is "
        "included; other releases are not), declared (bounds that you know without looking at the data), or "
        "public (the exact numbers, which the certificate then prints).",
        choices=SIZES,
    ),
    "min_entities": Setting(
        "whole number", "For declared sizes: lower bound on the number of entities.", "10000"
    ),
    "max_relations": Setting(
        "whole number",
        "For declared sizes: upper bound on the number of relations after capping.",
        "50000",
    ),
}
_STEPS = {
    "min_unprotected": Setting(
        "whole number",
        "For declared sizes and unprotected negatives: lower bound on the number of unprotected "
        "entities.",
        "1000",
    ),
    "min_relations": Setting(
        "whole number",
        "For declared sizes and negatives that are relations: lower bound on the number of relations after capping. "
        "With max_degree 1: relations before capping, over 2 D - 1, where no entity has more than D (both declared).",
        "5000",
    ),
    "num_steps": Setting(
        "whole number",
        "Number of steps (default: about 2.5 passes over the relations, 4.4 if negatives are relations).",
        "1000",
    ),
    "expected_batch_size": Setting(
        "number",
        "Expected relations per batch (default: a power of two, at most 256 and 0.5 % of the relations; 128 and 0.9 % "
        "if negatives are relations).",
        "256",
    ),
    "sample_rate": Setting(
        "number",
        "Probability that a relation enters a batch; instead of expected_batch_size.",
        "0.001",
    ),
    "negatives": Setting(
        "text",
        "Where negatives are drawn from. relations draws num_negatives other relations, which infonce learns from too; "
        "it needs max_degree 1. public needs --set data.public_pool=PATH (default: relations, or entities if "
        "max_degree is above 1 or another setting does not fit: docs/public-negatives.md).",
        '"relations"',
        choices=NEGATIVE_POOLS,
    ),
    "num_negatives": Setting(
        "whole number",
        "Negatives per relation: entities (default: 4), or other relations (default: 7).",
        "4",
    ),
}
_MECHANISM = {
    "clip_norm": Setting("number", "Largest gradient norm of one tuple. Does not change epsilon."),
    "clipping": Setting(
        "text",
        "Clipping rule. The claim of the frequency rule is false in the worst case.",
        choices=CLIPPING_RULES,
    ),
    "unit": Setting(
        "text",
        "What is protected: entities (owners, where entities have owners) or, weaker, relations.",
        choices=UNITS,
    ),
    "analysis": Setting("text", "Proof that gives epsilon; best is the smaller.", choices=ANALYSES),
}

_LEARNING = {
    "loss": Setting(
        "text",
        "Loss of a tuple. Pair clipping refuses infonce; distmult, complex and transe need relations with types.",
        choices=(*LOSSES, *TYPED_LOSSES),
    ),
    "score": Setting("text", "Similarity of two embeddings.", choices=SCORES),
    "temperature": Setting("number", "Divisor of every score."),
    "margin": Setting(
        "number", "Margin of hinge, triplet and cosine (default: 1, for cosine 0.2).", "1.0"
    ),
    "pairing": Setting(
        "text",
        "Pairs that a relation is compared with: one per negative, both endpoints per negative, or all "
        "pairs of a tuple; relations, for negatives that are relations, learns from those too and is the default "
        "there. Other defaults: both for typed losses, all for infonce, one for other losses and public negatives.",
        '"all"',
        SOFTMAX_PAIRINGS,
    ),
    "matryoshka_dims": Setting(
        "list",
        "Embedding sizes over which the loss is summed, so that the first numbers of an embedding are "
        "useful alone. Costs no privacy (default: the full size only).",
        "[384, 128, 32]",
    ),
    "objective": Setting(
        "text",
        "How distmult, complex and transe compare scores (default: infonce).",
        '"logistic"',
        OBJECTIVES,
    ),
    "distance": Setting("text", "Distance of transe (default: l2).", '"l1"', DISTANCES),
    "optimizer": Setting("text", "Name of an optimizer in torch.optim."),
    "optimizer_options": Setting(
        "table", "Options of the optimizer, such as { weight_decay = 0.01 }."
    ),
    "learning_rate": Setting("number", "Learning rate before the schedule."),
    "schedule": Setting("text", "Schedule of the learning rate.", choices=SCHEDULES),
    "warmup_steps": Setting("whole number", "Steps over which the learning rate rises from 0."),
    "average": Setting(
        "number", "Decay of an average of the weights to release (default: no average).", "0.99"
    ),
}

_PERFORMANCE = {
    "noise_generator": Setting(
        "text",
        "Generator of the noise: secure (cryptographic, correctly rounded) or fast (Philox).",
        choices=NOISE_GENERATORS,
    ),
    "microbatch_units": Setting(
        "whole number", "Clip units in one forward pass (default: chosen by their length).", "32"
    ),
    "device": Setting(
        "text",
        "Device to train on: cpu, cuda or cuda:N (default: the GPU if there is one, else the CPU).",
        '"cuda"',
    ),
    "precision": Setting("text", "Number format of activations.", choices=PRECISIONS),
    "cuda_graphs": Setting(
        "true or false", "Capture steps as CUDA graphs: faster with small encoders on a GPU."
    ),
    "threads": Setting("whole number", "Number of CPU threads (default: all).", "2"),
    "tokenize": Setting(
        "text",
        "When the texts of a graph store are tokenized: once, into files beside it, or as steps need them "
        "(default: by its size).",
        '"ahead"',
        TOKENIZE,
    ),
    "shard_weights": Setting("true or false", "Share frozen weights between processes (LoRA)."),
    "checkpoint_activations": Setting("true or false", "Compute activations twice: less memory."),
}

_LOGGING = {
    "checkpoint_every": Setting("whole number", "Steps between checkpoints."),
    "checkpoint_minutes": Setting(
        "number",
        "Minutes of work that a kill may lose: checkpoints are more frequent where steps are slow. 0 saves by "
        "steps alone.",
    ),
    "progress": Setting(
        "true or false",
        "Show a progress bar (default: on a terminal, and lines elsewhere).",
        "true",
    ),
    "log_sensitive": Setting(
        "true or false",
        "Log losses, batch sizes, norms and times. They are sensitive: no guarantee covers them, and "
        "they are sent to every logger.",
    ),
    "log_every": Setting("whole number", "Steps between lines of metrics."),
    "tensorboard": Setting("true or false", "Write TensorBoard events too."),
    "wandb_project": Setting("text", "Weights & Biases project to log to.", '"reldp"'),
}

SECTIONS: Mapping[str, Mapping[str, Setting]] = {
    "data": _DATA,
    "encoder": _ENCODER,
    "privacy": {
        **_TARGET,
        **_with_defaults(PrivacyPlan.for_graph, _SIZES),
        **_STEPS,
        **_with_defaults(PrivacyPlan, _MECHANISM),
    },
    "learning": _with_defaults(LearningSettings, _LEARNING),
    "performance": _with_defaults(PerformanceSettings, _PERFORMANCE),
    "logging": _with_defaults(LoggingSettings, _LOGGING),
}


def refuse_outside(name: str) -> None:
    """Refuse the name of a setting where a section is expected.

    Raises:
        ConfigError: It is a setting; the message names its section.
    """
    section = next((section for section, names in SECTIONS.items() if name in names), None)
    if section is not None and name not in SECTIONS:
        raise ConfigError(
            f"Settings of a recipe must be in sections, got {name} outside of one. Write it below [{section}]."
        )
