"""A tiny SentenceTransformer, pairs and arguments that train in a second."""

import numpy as np
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from reldp.integrations.sentence_transformers import (
    PrivateSentenceTransformerTrainer,
    PrivateTrainingArguments,
)
from tests.encoders.tiny import SENTENCE, TEXTS, write_model

DIM = 32
TEXTS = list(TEXTS)


def tiny(home, *modules, kind="bert", pooling="mean", **settings):
    """A tiny model with random weights, which are always the same."""
    folder = home / kind
    if not folder.exists():
        write_model(kind, folder)
    transformer = Transformer(str(folder), **settings)
    if transformer.tokenizer.pad_token is None:
        transformer.tokenizer.pad_token = transformer.tokenizer.eos_token
    return SentenceTransformer(modules=[transformer, Pooling(DIM, pooling), *modules], device="cpu")


def texts(count=400, seed=0):
    words, generator = SENTENCE.split(), np.random.default_rng(seed)
    return [f"{' '.join(generator.choice(words, 4))} {number}" for number in range(count)]


def pairs(count=400, **columns):
    """A chain of texts as a dataset of pairs."""
    made = texts(count)
    return Dataset.from_dict({"anchor": made[:-1], "positive": made[1:], **columns})


def arguments(home, **settings):
    """A plan of six steps with public sizes."""
    chosen = {
        "output_dir": str(home / "run"),
        "noise_multiplier": 2.0,
        "sizes": "public",
        "delta": 1e-4,
        "max_steps": 6,
        "num_negatives": 2,
        "expected_batch_size": 6.0,
        "threads": 1,
        **settings,
    }
    return PrivateTrainingArguments(**chosen)


def trainer(home, model=None, args=None, **given):
    """A trainer on the chain of pairs."""
    settings = {name: given.pop(name) for name in list(given) if name not in _PARTS}
    data = {} if "graph" in given else {"train_dataset": pairs()}
    return PrivateSentenceTransformerTrainer(
        model=tiny(home) if model is None else model,
        args=arguments(home, **settings) if args is None else args,
        **{**data, **given},
    )


_PARTS = (
    *("train_dataset", "graph", "eval_dataset", "loss", "evaluator", "evaluator_data", "callbacks"),
    *("id_columns", "public_negatives"),
)
