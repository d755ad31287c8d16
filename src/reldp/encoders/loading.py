"""Pretrained text models from a folder, a hub name or a GGUF file.

A folder that sentence-transformers can load brings its own pooling, maximum length, dense layers
and normalization; a bare Hugging Face model gets sensible ones.

Guarantees: no code from the folder is ever run and no pickle is ever read (weights must be
safetensors or GGUF); a model with missing weights is refused instead of filled with random
numbers, and so are damaged files, weights that are not finite and a tokenizer that knows no words;
nothing about this machine (such as the folder's path) goes into what is written later.

Private to the package: `Pretrained`, `load_pretrained`.

>>> load_pretrained("a/b/c")
Traceback (most recent call last):
reldp.errors.EncoderError: `source` must be a model's folder, got 'a/b/c', which does not exist.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from reldp._validate import check_choice, check_path, shown
from reldp.encoders.attention import attention_options
from reldp.encoders.attention_pooling import AttentionPooling
from reldp.encoders.bounded import within_bounds
from reldp.encoders.default_model import installed_folder
from reldp.encoders.hub import hub_folder, is_hub_name
from reldp.encoders.model_files import (
    StoredWeights,
    as_encoder_error,
    check_model_files,
    check_vocabulary_files,
    refuse_adapters,
)
from reldp.encoders.model_size import refuse_oversized
from reldp.encoders.sentence_modules import DenseLayer, sentence_settings
from reldp.encoders.soundness import (
    refuse_non_finite,
    refuse_other_layers,
    refuse_unknown_words,
)
from reldp.encoders.tokenizer_growth import check_tokenizer_file, refuse_growing_tokenizer
from reldp.encoders.tokenizer_ids import check_token_ids
from reldp.encoders.tokenizer_speed import refuse_slow_tokenizer
from reldp.encoders.tokenizer_words import check_words
from reldp.errors import EncoderError, MissingDependency

__all__ = ["DenseLayer", "Pretrained", "load_pretrained", "quiet_transformers"]

# To load a tokenizer, or to convert one of another format; a large one takes a few seconds.
_SECONDS, _CONVERSION, _MEMORY = 8.0, 40.0, 4 * 2.0**30
_CHECKPOINT = re.compile(r"checkpoint-([0-9]{1,12})")
_MAX_LISTED, _NUM_SHOWN = 10_000, 3
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A loaded model and the settings of its folder.

    Attributes:
        name: The hub name, or the name of the folder.
        model: A transformers model without a task head.
        tokenizer: With a padding token, padding on the right.
        pooling: Pooling that the folder states, or None.
        max_length: Maximum length that the folder states, or None.
        dense: Settings and weights of the folder's dense layers, in order.
        normalize: Whether the folder's embeddings have length 1.
        attention: Trained pooling of the folder, in place of mean pooling, or None.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    pooling: str | None = None
    max_length: int | None = None
    dense: tuple[DenseLayer, ...] = ()
    normalize: bool = False
    attention: AttentionPooling | None = None


def load_pretrained(
    source: str | Path,
    *,
    gguf_file: str | None = None,
    dtype: str = "float32",
    attention: str | None = None,
    revision: str | None = None,
) -> Pretrained:
    """Load a model and its tokenizer.

    Args:
        source: A folder, a hub name, or the path of a ``.gguf`` file.
        gguf_file: The GGUF file inside the folder or hub repository.
        dtype: ``"float32"`` or ``"bfloat16"``.
        attention: Attention implementation (default: chosen by transformers).
        revision: Of a hub repository.
    """
    if re.search(r"(?<!\d)[48](-?bit|$)|[ui]nt[48]|fp[48]|nf4|float8", str(dtype)):
        raise EncoderError(
            f"`dtype` must be float32 or bfloat16, got {dtype}. Frozen weights of 8 or 4 bit are not supported; for a "
            "GPU that is too small use bfloat16, and several of them with shard_weights."
        )
    check_choice("dtype", dtype, DTYPES, error=EncoderError)
    place, gguf_file = _place(source, gguf_file, revision)
    options = {} if gguf_file is None else {"gguf_file": gguf_file}
    stored = check_model_files(Path(place), gguf_file=gguf_file)
    model = _load_model(place, DTYPES[dtype], attention, options, stored)
    tokenizer = _load_tokenizer(place, model, options)
    name = Path(source).name if Path(source).exists() else str(source)
    folder = Path(place)
    if gguf_file is not None or not (folder / "modules.json").is_file():
        return Pretrained(name=name, model=model, tokenizer=tokenizer)
    with as_encoder_error(folder):
        config: Any = model.config
        settings = sentence_settings(folder, int(config.hidden_size))
    return Pretrained(name=name, model=model, tokenizer=tokenizer, **settings)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no log lines from transformers inside."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _place(
    source: str | Path, gguf_file: str | None, revision: str | None
) -> tuple[str, str | None]:
    """Return the folder, and the GGUF file in it; a path that does not exist is refused."""
    fix = "Give a model's folder, or its name on the hub."
    path = check_path("source", source, error=EncoderError, fix=fix)
    if gguf_file is not None and Path(gguf_file).name != gguf_file and path.exists():
        raise EncoderError(
            f"`gguf_file` must be the name of a file in the model's folder, got {gguf_file[:80]!r}."
        )
    if path.is_file():
        if path.suffix != ".gguf":
            raise EncoderError(f"`source` must be a folder or a .gguf file, got {path.name!r}.")
        return str(path.parent), path.name
    if path.is_dir():
        if gguf_file is None and not (path / "config.json").is_file():
            refuse_adapters(path)
            raise EncoderError(
                f"`source` must hold config.json, got {path.name!r} without it.{_checkpoints(path)}"
            )
        return str(path), gguf_file
    if isinstance(source, Path) or not is_hub_name(source):
        raise EncoderError(
            f"`source` must be a model's folder, got {shown(str(source))}, which does not exist."
        )
    # A revision or a GGUF file is always the hub's: the installed package has neither.
    installed = None if revision or gguf_file else installed_folder(source)
    folder = installed or hub_folder(source, revision=revision, gguf_file=gguf_file)
    return str(folder), gguf_file


def _checkpoints(folder: Path) -> str:
    """Return a sentence with the last checkpoints that a trainer left in a folder; empty without any."""
    names = [path.name for path in islice(folder.glob("checkpoint-*"), _MAX_LISTED)]
    numbers = sorted(int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name)))
    last = ", ".join(f"checkpoint-{number}" for number in numbers[-_NUM_SHOWN:])
    return f" Give one of its checkpoints, such as {last}." if last else ""


def _load_model(
    place: str,
    dtype: torch.dtype,
    attention: str | None,
    options: dict[str, Any],
    stored: StoredWeights,
) -> nn.Module:
    """Return the model without a task head, every weight really read."""
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise MissingDependency(
            "`transformers` must be installed for text encoders. Install reldp[text]."
        ) from error

    options = {**options, **attention_options(attention)}
    if "gguf_file" in options:
        options = {**options, **_unpacked()}
    else:
        options = {**options, "use_safetensors": True}
    with quiet_transformers(), as_encoder_error(place), torch.random.fork_rng(devices=[]):
        gguf_file = options.get("gguf_file")
        refuse_oversized(place, stored, attention_options(attention), gguf_file=gguf_file)
        # A head that the checkpoint lacks (a pooler) is never used, but must not differ each time.
        torch.manual_seed(0)
        model, info = AutoModel.from_pretrained(
            place,
            dtype=dtype,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, where they can be named
            **options,
        )
    mismatched = sorted(str(entry[0]) for entry in info["mismatched_keys"])
    if mismatched:
        raise EncoderError(
            f"`source` must have weights of the sizes in its config.json, got "
            f"{os.path.basename(place)!r} with {len(mismatched)} others, the first {mismatched[0]!r}."
        )
    # Embeddings are pooled from the last layer's states: a pooler's weights are never used.
    missing = [name for name in info["missing_keys"] if "pooler" not in name.split(".")]
    if missing:
        raise EncoderError(
            f"`source` must hold every weight, got {os.path.basename(place)!r} without "
            f"{len(missing)} of them, the first {sorted(missing)[0]!r}."
        )
    refuse_other_layers(model, info["unexpected_keys"], os.path.basename(place))
    refuse_non_finite(dict(model.named_parameters()))
    _check_kind(model, os.path.basename(place))
    if "gguf_file" in options:
        _forget_packing(model)
    elif getattr(model, "hf_quantizer", None) is not None:
        raise EncoderError(
            f"`source` must have plain weights, got quantized ones in {os.path.basename(place)!r}. "
            "Use the model they were made from."
        )
    model.config.use_cache = False
    frozen: nn.Module = model.eval()
    return frozen


def _check_kind(model: Any, name: str) -> None:
    """Refuse models that are not one stack of layers over one text."""
    known = isinstance(getattr(model.config, "hidden_size", None), int)
    if not known or getattr(model.config, "is_encoder_decoder", False):
        raise EncoderError(
            f"`source` must be one encoder or one decoder of text, got {type(model).__name__} "
            f"in {name!r}."
        )


def _unpacked() -> dict[str, Any]:
    """Asks for plain weights of a GGUF file, where transformers could also keep them packed."""
    import transformers

    kind = getattr(transformers, "GgufConfig", None)
    return {} if kind is None else {"quantization_config": kind(dequantize=True)}


def _forget_packing(model: Any) -> None:
    """Make unpacked weights an ordinary model, which can be trained and saved."""
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def _load_tokenizer(place: str, model: nn.Module, options: dict[str, Any]) -> Any:
    """Return the tokenizer, padding on the right, with a padding token the model knows."""
    from transformers import AutoTokenizer

    with quiet_transformers(), as_encoder_error(place):
        check_tokenizer_file(Path(place))
        check_token_ids(Path(place))
        check_words(Path(place))
        tokenizer = within_bounds(
            lambda: AutoTokenizer.from_pretrained(place, trust_remote_code=False, **options),
            seconds=_SECONDS if (Path(place) / "tokenizer.json").is_file() else _CONVERSION,
            memory=_MEMORY,
            refusal=EncoderError(
                "`source` must have a tokenizer that is loaded in little time and memory, got one that takes more than "
                f"{_SECONDS:g} seconds ({_CONVERSION:g} without a tokenizer.json) or {_MEMORY / 2**30:g} GiB. Copy the "
                "tokenizer's files from the original model."
            ),
        )
        if "gguf_file" not in options:
            check_vocabulary_files(Path(place), tokenizer)
        refuse_growing_tokenizer(tokenizer)
        refuse_slow_tokenizer(lambda text: tokenizer.encode(text, add_special_tokens=False))
        refuse_unknown_words(tokenizer, _num_token_rows(model))
    tokenizer.padding_side = "right"
    # Not used here, and a file of the folder that would be saved with the model.
    tokenizer.chat_template = None
    if tokenizer.pad_token is None:
        for token in (tokenizer.eos_token, tokenizer.unk_token, tokenizer.bos_token):
            if token is not None:
                tokenizer.pad_token = token
                break
        else:
            raise EncoderError("`source` must have a padding token, got a tokenizer without any.")
    longest = tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or not longest >= 1:
        raise EncoderError(
            f"`source` must have a model_max_length of at least 1 in tokenizer_config.json, got "
            f"{shown(longest)}."
        )
    config: Any = model.config
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = tokenizer.pad_token_id
    return tokenizer


def _num_token_rows(model: nn.Module) -> int:
    """Rows of the table that token ids are looked up in."""
    holder: Any = model
    return int(holder.get_input_embeddings().weight.shape[0])
