"""Checks that a model can be trained: finite weights, known words, finite public outputs.

A model with a NaN in its weights, or a tokenizer that knows no word, trains without a complaint: the
whole budget is spent on noise, and the certificate says "proven" of a model that learned nothing.
So weights are looked at, and public sentences are run, before any private row is touched. Everything
here is public: what is refused depends on the model alone.

Private to the package: `PUBLIC_TEXTS`, `DIFFERENT_TEXTS`, `refuse_equal_rows`, `refuse_non_finite`,
`refuse_non_finite_rows`, `refuse_unknown_words`, `refuse_other_layers`.

>>> refuse_non_finite({"weight": torch.tensor([1.0, float("nan")])})
Traceback (most recent call last):
reldp.errors.EncoderError: `encoder` must have finite weights, got NaN or infinity in 'weight'. ...
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from reldp._validate import shown
from reldp.errors import EncoderError

__all__ = [
    "DIFFERENT_TEXTS",
    "PUBLIC_TEXTS",
    "refuse_equal_rows",
    "refuse_non_finite",
    "refuse_non_finite_rows",
    "refuse_other_layers",
    "refuse_unknown_words",
]

_SENTENCE = "The big red house and the small blue tree stand in the city, 1 day or 25 years."

PUBLIC_TEXTS = (
    "a",
    "dog",
    "the dog and the cat",
    _SENTENCE,
    " ".join([_SENTENCE] * 8),
    " ".join([_SENTENCE] * 100),  # as long as the model takes
)

# Common words of several scripts: a tokenizer knows at least half of those of one of them.
_WORDS = {
    "Latin": "a the and or in over under red blue big small house tree dog cat water day man "
    "woman time year city",
    "Cyrillic": "и в не на я он что это дом вода день год город человек время",
    "Greek": "και το να είναι με σε για από νερό σπίτι ημέρα",
    "Arabic": "في من على هذا و ما ماء بيت يوم مدينة",
    "Hebrew": "את לא של אני זה על מים בית יום עיר",
    "Devanagari": "और में है का की से पानी घर दिन शहर",
    "Thai": "ที่ และ ใน เป็น ไม่ น้ำ บ้าน วัน เมือง",
    "Chinese": "的 一 是 不 了 人 我 在 有 水 日 年 大 小",
    "Japanese": "の に は を た が で て と し 水 日 人 年",
    "Korean": "이 그 저 것 수 물 집 날 사람 시간 도시",
}
_KNOWN_SHARE = 0.5

# A model knows half of those of one script at least, and tells them apart.
DIFFERENT_TEXTS = tuple(dict.fromkeys(word for words in _WORDS.values() for word in words.split()))
_LAYER = re.compile(r"(.*?\.?[a-z_]+)\.(\d+)\.")
_MAX_NAME = 500  # characters of a weight that name its layer
_AT_ONCE = 1 << 24  # numbers looked at in one go


def refuse_non_finite(state: Mapping[str, Tensor]) -> None:
    """Refuse  weights that hold NaN or infinity, by name."""
    for name, value in state.items():
        if value.is_floating_point() and not _is_finite(value):
            raise EncoderError(
                f"`encoder` must have finite weights, got NaN or infinity in {shown(name)}. "
                "The model is damaged: load it from its source again."
            )


def refuse_non_finite_rows(rows: npt.NDArray[Any]) -> None:
    """Refuse  an encoder whose embeddings of public inputs are not finite."""
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise EncoderError(
            f"`encoder` must give finite embeddings, got NaN or infinity for {len(bad)} of "
            f"{len(rows)} public inputs. Its weights are damaged or too large for their dtype."
        )


def refuse_equal_rows(rows: npt.NDArray[Any]) -> None:
    """Refuse  a text encoder that gives different public texts one and the same embedding."""
    if len(rows) > 1 and bool((rows == rows[0]).all()):
        raise EncoderError(
            f"`encoder` must tell texts apart, got one embedding for {len(rows)} different public "
            "words. Its weights or its tokenizer are damaged, or max_length leaves no room for a word."
        )


def refuse_unknown_words(tokenizer: Any, num_rows: int) -> None:
    """Refuse  a tokenizer to which nearly every word is unknown, or with tokens beyond the model.

    Args:
        tokenizer: A Hugging Face tokenizer.
        num_rows: Rows of the model's table of tokens.
    """
    shares = {script: _known(tokenizer, words.split()) for script, words in _WORDS.items()}
    best = max(shares, key=lambda script: shares[script])
    if shares[best] < _KNOWN_SHARE:
        raise EncoderError(
            f"`source` must have a tokenizer that knows words, got one with {len(tokenizer):,} "
            f"tokens to which {1 - shares[best]:.0%} of common words are unknown (in {best}, the "
            "script it knows best). Copy the tokenizer's files from the original model. A model whose vocabulary is "
            "made of codes or product numbers cannot be used: pass its embeddings as features, or a ModuleEncoder."
        )
    # Special tokens are no part of a text, and some models have one that they never read.
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {i for i, token in added.items() if getattr(token, "special", False)}
    largest = max((i for i in tokenizer.get_vocab().values() if i not in special), default=0)
    if largest >= num_rows:
        raise EncoderError(
            f"`source` must have a tokenizer that fits its model, got tokens up to {largest:,} and "
            f"a table of {num_rows:,} rows. Copy the tokenizer's files from the original model, or resize the model's "
            "table (resize_token_embeddings) and save it."
        )


def refuse_other_layers(model: nn.Module, unexpected: Iterable[str], name: str) -> None:
    """Refuse weights of layers that the model lacks: its configuration is of another model.

    Weights of a task head are not used here and may be there.
    """
    prefix = getattr(model, "base_model_prefix", "") + "."
    modules = dict(model.named_modules())
    for key in sorted(unexpected):
        match = _LAYER.match(key.removeprefix(prefix)[:_MAX_NAME])
        layers = modules.get(match.group(1)) if match else None
        if match and isinstance(layers, nn.ModuleList) and int(match.group(2)) >= len(layers):
            raise EncoderError(
                f"`source` must have a config.json of its own weights, got {name!r} with weights "
                f"such as {shown(key)} and {len(layers)} layers in config.json."
            )


def _known(tokenizer: Any, words: list[str]) -> float:
    """Return the share of the words that are distinguished, all of their tokens being known.

    Some tokenizers do not say which of their tokens stands for unknown words: words that have the
    same tokens are then counted once.
    """
    ignored = set(tokenizer.all_special_ids)
    rows = [tuple(tokenizer.encode(word, add_special_tokens=False)) for word in words]
    return len({row for row in rows if row and ignored.isdisjoint(row)}) / len(rows)


def _is_finite(value: Tensor) -> bool:
    flat = value.detach().reshape(-1)
    return all(bool(torch.isfinite(part).all()) for part in torch.split(flat, _AT_ONCE))
