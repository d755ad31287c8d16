"""Every setting of a recipe: its default, its kind, and what it is, in one table.

The sections ``[privacy]`` and ``[training]`` hold the fields of `PrivacyPlan` and `TrainingConfig`,
whose own rules apply on top of the kinds that are checked here.

Private to the package: `SECTIONS`, `Setting`.

>>> SECTIONS["privacy"]["target_epsilon"].check("target_epsilon", "four")
Traceback (most recent call last):
reldp.errors.ConfigError: `target_epsilon` must be a number, got 'four'.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reldp.errors import ConfigError

__all__ = ["SECTIONS", "Setting"]

_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "whole number": (int,),
    "number": (int, float),
    "true or false": (bool,),
    "list": (list, tuple),
    "list or text": (list, tuple, str),
    "table": (dict,),
}


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        kind: One of the words of `_KINDS`.
        default: What holds if nothing is said; None if it is found from the data or the model.
        about: What it is, for people.
        example: How it is written in TOML, where there is no default to show.
    """

    kind: str
    default: Any
    about: str
    example: str = ""

    def lines(self) -> list[str]:
        """What it is, in lines of a comment."""
        return textwrap.wrap(self.about, 96)

    def check(self, name: str, value: Any) -> None:
        """Refuses a value of another kind; the value's own rules are checked by its owner."""
        fits = isinstance(value, _KINDS[self.kind])
        if isinstance(value, bool) and self.kind != "true or false":
            fits = False
        if not fits:
            article = "" if self.kind == "true or false" or self.kind == "text" else "a "
            raise ConfigError(f"`{name}` must be {article}{self.kind}, got {value!r}.")


SECTIONS: Mapping[str, Mapping[str, Setting]] = {
    "data": {
        "graph": Setting(
            "text",
            None,
            "Graph folder, or a bundled graph: wordnet-nouns, wordnet-verbs, wordnet-adjectives.",
            '"path/to/graph"',
        ),
        "max_degree": Setting(
            "whole number", 5, "Most relations that a protected entity keeps; the rest is dropped."
        ),
        "promise_degrees": Setting(
            "true or false",
            False,
            "Take max_degree as a fact about the data: nothing is dropped, and the graph is "
            "refused if it is not true.",
        ),
        "cap_seed": Setting("whole number", 0, "Decides which relations are dropped."),
        "drop": Setting(
            "list",
            [],
            "Kinds of damage to drop and count instead of refusing, such as duplicate_relations.",
        ),
        "public_pool": Setting(
            "text",
            None,
            "Graph of public entities that negatives come from; needs negatives = "
            '"public" in [privacy].',
            '"path/to/public/graph"',
        ),
    },
    "encoder": {
        "model": Setting(
            "text",
            None,
            "Folder or hub name of a text model; leave it out for a graph with features.",
            '"sentence-transformers/all-MiniLM-L6-v2"',
        ),
        "train": Setting(
            "text",
            "lora",
            "What of a text model is trained: lora, full, last:N (layers), or head (a layer on "
            "frozen embeddings, thousands of steps a minute).",
        ),
        "lora_rank": Setting("whole number", 8, "Rank of the adapters."),
        "lora_alpha": Setting(
            "number", None, "Scale of the adapters; twice the rank if left out.", "16.0"
        ),
        "lora_targets": Setting(
            "list or text",
            None,
            'Linear layers with adapters by name, "all-linear", or "query-value" (cheaper); attention '
            "and feed-forward if left out, query and value where layers have more than these.",
            '"query-value"',
        ),
        "lora_layers": Setting(
            "whole number", None, "Adapters in the last so many layers only.", "3"
        ),
        "pooling": Setting(
            "text", None, "mean, cls or last; the model's own if left out.", '"mean"'
        ),
        "normalize": Setting(
            "true or false",
            None,
            "Embeddings of length 1; the model's own choice if left out.",
            "true",
        ),
        "max_length": Setting(
            "whole number", None, "Longer texts are cut; the model's own if left out.", "64"
        ),
        "dtype": Setting("text", "float32", "Of the frozen weights: float32 or bfloat16."),
        "attention": Setting(
            "text",
            None,
            "Attention implementation of a text model: short (at most 64 tokens; fast on a GPU), or a "
            "name that transformers knows. Chosen by transformers if left out.",
            '"short"',
        ),
        "gguf_file": Setting("text", None, "GGUF file inside the model's folder.", '"model.gguf"'),
        "revision": Setting("text", None, "Revision of a hub model.", '"main"'),
        "hidden": Setting(
            "list", [], "Widths of hidden layers, of a head or of an encoder of features."
        ),
        "dim": Setting(
            "whole number", None, "Length of an embedding, of a head or of features.", "128"
        ),
        "activation": Setting(
            "text", "relu", "Between the layers of an encoder of features: relu, tanh or gelu."
        ),
        "seed": Setting("whole number", 0, "Of the new weights, which are public."),
    },
    "privacy": {
        "enabled": Setting(
            "true or false", True, "false trains without clipping and noise: epsilon is infinite."
        ),
        "target_epsilon": Setting(
            "number",
            None,
            "Epsilon that the noise is calibrated to; smaller is more private.",
            "4.0",
        ),
        "noise_multiplier": Setting(
            "number", None, "Or the noise itself, divided by the clip norm.", "1.0"
        ),
        "delta": Setting(
            "number", None, "A tenth of 1/entities (their lower bound) if left out.", "1e-6"
        ),
        "sizes": Setting(
            "text",
            "private",
            "What a plan knows about the numbers of entities and relations: private (noisy bounds, "
            "released once per graph for a little epsilon, which is included), declared (bounds of "
            "yours, known without looking at the data), or public (the exact numbers, which the "
            "certificate then prints).",
        ),
        "min_entities": Setting(
            "whole number", None, "For declared sizes: the graph has at least so many.", "10000"
        ),
        "max_relations": Setting(
            "whole number",
            None,
            "For declared sizes: the graph has at most so many, after capping.",
            "50000",
        ),
        "min_unprotected": Setting(
            "whole number",
            None,
            "For declared sizes and unprotected negatives: at least so many entities are unprotected.",
            "1000",
        ),
        "num_steps": Setting(
            "whole number", None, "Steps; suggested for the graph if left out.", "1000"
        ),
        "expected_batch_size": Setting(
            "number", None, "Relations per batch; suggested for the graph if left out.", "256"
        ),
        "sample_rate": Setting("number", None, "Or the rate that relations enter at.", "0.001"),
        "num_negatives": Setting(
            "whole number", None, "Negatives per relation; suggested if left out.", "4"
        ),
        "clip_norm": Setting(
            "number", 1.0, "Largest gradient norm of one tuple; does not change epsilon."
        ),
        "clipping": Setting(
            "text", "tuple", "tuple, pair, or frequency (whose promise is false in the worst case)."
        ),
        "negatives": Setting(
            "text", "entities", "Where negatives come from: entities, unprotected or public."
        ),
        "unit": Setting("text", "entity", "Who is protected: entity, or relation (weaker)."),
        "analysis": Setting("text", "best", "best, anchored or replacement."),
    },
    "training": {
        "loss": Setting(
            "text", "infonce", "infonce, hinge or logistic; pair clipping needs a sum."
        ),
        "score": Setting("text", "cosine", "cosine or dot."),
        "temperature": Setting("number", 0.05, "Scores are divided by it."),
        "margin": Setting("number", 1.0, "Of the hinge loss."),
        "pairing": Setting(
            "text",
            None,
            "Pairs that a relation is compared with: one per negative, both ends, or all of a tuple; "
            "if left out, all for infonce and one for other losses and public negatives.",
            '"all"',
        ),
        "optimizer": Setting("text", "adam", "Any optimizer of torch.optim by name."),
        "optimizer_options": Setting("table", {}, "Its options, such as { weight_decay = 0.01 }."),
        "learning_rate": Setting("number", 1e-3, "Before the schedule."),
        "schedule": Setting("text", "constant", "constant, linear, cosine or inverse_sqrt."),
        "warmup_steps": Setting("whole number", 0, "Steps over which the learning rate rises."),
        "average": Setting(
            "number", None, "Decay of an average of the weights, which is then released.", "0.99"
        ),
        "noise": Setting(
            "text", "secure", "secure (cryptographic, correctly rounded) or fast (Philox)."
        ),
        "chunk_units": Setting(
            "whole number", None, "Clip units in one forward; by length if left out.", "32"
        ),
        "device": Setting("text", "cpu", "cpu or cuda."),
        "precision": Setting("text", "float32", "float32, or bfloat16 activations."),
        "replay": Setting(
            "true or false",
            False,
            "Record steps once and replay them: several times faster with small encoders on a GPU.",
        ),
        "threads": Setting("whole number", None, "Of the CPU; torch's own if left out.", "2"),
        "checkpoint_every": Setting("whole number", 100, "Steps between checkpoints."),
        "progress": Setting(
            "true or false", None, "Show a progress bar; on a terminal if left out.", "true"
        ),
        "log_sensitive": Setting(
            "true or false",
            False,
            "Write down losses, batch sizes, norms and times. They are sensitive: no guarantee "
            "covers them, and they go wherever metrics go.",
        ),
        "log_every": Setting("whole number", 1, "Steps between lines of metrics."),
        "tensorboard": Setting("true or false", False, "Write TensorBoard events too."),
        "wandb_project": Setting("text", None, "Weights & Biases project to log to.", '"reldp"'),
    },
}
