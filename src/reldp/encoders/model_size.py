"""Size of the model that a configuration asks for, against the weights that are stored.

A configuration of a few bytes, in config.json or in the header of a GGUF file, can ask for any number of weights, and
transformers uses memory for all of them before it compares them with a file. So the model is first made without memory,
on torch's meta device. It can also ask for any number of modules, each of which takes time and memory even there:
making them stops at a number that no model with these weights has.

It can ask for the same layers again and again, too, which takes no weights: a word is embedded before anything else.

Private to the package: `refuse_oversized`, `refuse_slow_model`.

>>> refuse_too_many(10**12, 10**6, "tiny")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must have weights of the sizes in its config.json, got 'tiny' with 1,000,000 \
numbers for a model of 1,000,000,000,000. Copy both from the original model.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch.nn.modules.module import register_module_module_registration_hook

from reldp._validate import is_integer
from reldp.encoders.bounded import within_bounds
from reldp.encoders.model_files import StoredWeights, check_counts
from reldp.errors import EncoderError

__all__ = ["refuse_oversized", "refuse_slow_model", "refuse_too_many"]

_Result = TypeVar("_Result")
# Heads that a checkpoint lacks, and small models: transformers names what is missing, in little memory.
_FREE = 2**24
# Modules of a model: those of the larger ones of a few thousand tensors, and for mixtures of experts some per tensor.
# To make a model without weights: a large one takes a second, and to read a GGUF header a few.
_SECONDS, _HEADER, _MEMORY = 8.0, 40.0, 4 * 2.0**30
_FOURIER = "use_tpu_fourier_optimizations"
# Weights that are used for one word; the slowest machines manage a few times as many.
_WEIGHTS_PER_SECOND = 1e8
_FREE_MODULES, _MODULES_PER_TENSOR, _MAX_MODULES = 20_000, 4, 150_000


def refuse_oversized(
    place: str, stored: StoredWeights, options: dict[str, Any], *, gguf_file: str | None = None
) -> None:
    """Refuse a configuration whose model is far larger than the stored weights, before it is made.

    Args:
        place: The folder of the model.
        stored: What its files hold.
        options: Of the attention implementation.
        gguf_file: The one file with configuration and weights, in place of the others.
    """
    from transformers import AutoConfig, AutoModel

    source = {} if gguf_file is None else {"gguf_file": gguf_file}
    name = os.path.basename(place) if gguf_file is None else gguf_file
    stated = "its config.json" if gguf_file is None else "its header"
    seconds = _SECONDS if gguf_file is None else _HEADER  # which lists the tokens, too

    def bounded(work: Callable[[], _Result]) -> _Result:
        refusal = EncoderError(
            f"`source` must have a model that is made in little time and memory, got {name!r} with one that takes more "
            f"than {seconds:g} seconds or {_MEMORY / 2**30:g} GiB before its weights are read, because of numbers in "
            f"{stated}. Copy it from the original model."
        )
        return within_bounds(work, seconds=seconds, memory=_MEMORY, refusal=refusal)

    # Some configurations make lists of any length of a few numbers.
    config: Any = bounded(
        lambda: AutoConfig.from_pretrained(place, trust_remote_code=False, **source)
    )
    if gguf_file is not None:
        check_counts(config.to_dict(), gguf_file)
        _refuse_empty_layers(config, stored.tensors, gguf_file)
    if getattr(config, _FOURIER, False):  # a table of any size in every layer
        raise EncoderError(
            f"`source` must have {_FOURIER} false in its config.json, got another value. Set it to false: it changes "
            "nothing here."
        )

    def count() -> int:
        with torch.device("meta"), _few_modules(stored.tensors, name):
            model = AutoModel.from_config(config, trust_remote_code=False, **options)
        return sum(value.numel() for value in (*model.parameters(), *model.buffers()))

    refuse_too_many(bounded(count), stored.numbers, name, stated)


def refuse_slow_model(embed: Callable[[], object], num_weights: int) -> None:
    """Refuse a model that takes far longer, or far more memory, for a word than its weights explain.

    Args:
        embed: Embeds one short public text.
        num_weights: Number of the model's weights.
    """
    seconds, memory = _SECONDS + num_weights / _WEIGHTS_PER_SECOND, _MEMORY + 16 * num_weights
    within_bounds(
        embed,
        seconds=seconds,
        memory=memory,
        refusal=EncoderError(
            f"`source` must have a model that embeds a word in little time and memory, got {num_weights:,} weights "
            f"that take more than {seconds:.0f} seconds or {memory / 2**30:.1f} GiB, because of numbers in its "
            "configuration. Copy it from the original model."
        ),
    )


def _refuse_empty_layers(config: Any, num_tensors: int, name: str) -> None:
    """Refuse more layers than tensors: the names of tensors are listed again for every module of every layer."""
    layers = getattr(config, "num_hidden_layers", 0)
    if is_integer(layers) and layers > num_tensors:
        raise EncoderError(
            f"`source` must have tensors for all of its layers, got {name!r} with {num_tensors:,} tensors for "
            f"{layers:,} layers. Copy the file from its source again."
        )


def refuse_too_many(
    num_wanted: int, num_stored: int, name: str, stated: str = "its config.json"
) -> None:
    """Refuse a model of more than twice the stored numbers: weights that are shared are stored once."""
    if num_wanted > 2 * num_stored + _FREE:
        raise EncoderError(
            f"`source` must have weights of the sizes in {stated}, got {name!r} with {num_stored:,} numbers "
            f"for a model of {num_wanted:,}. Copy both from the original model."
        )


@contextmanager
def _few_modules(num_tensors: int, name: str) -> Iterator[None]:
    """Stop making a model once it has more modules than stored tensors explain."""
    limit = min(_FREE_MODULES + _MODULES_PER_TENSOR * num_tensors, _MAX_MODULES)
    count = 0

    def register(*_: Any) -> None:
        nonlocal count
        count += 1
        if count > limit:
            raise EncoderError(
                f"`source` must have a configuration of a model with its {num_tensors:,} tensors, got {name!r} with "
                f"one of more than {limit:,} modules. Copy both from the original model."
            )

    handle = register_module_module_registration_hook(register)
    try:
        yield
    finally:
        handle.remove()
