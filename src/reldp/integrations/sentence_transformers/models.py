"""A SentenceTransformer as the text encoder that reldp trains, on the same weights.

The encoder and the model share their layers, so that a step changes the model itself: evaluators and
callbacks see the current weights, adapters included. The model brings its own pooling, dense layers,
normalization and maximum length. A model that `reldp.TextEncoder` cannot represent is refused by the name
of the module; whether both compute the same is then checked on public sentences.

When training is done, the model's content is hashed. A model whose content is another when it is saved is not the one
that the run released: it may have been trained further, without noise.

Inside the package: `SharedEncoder`.

>>> _kinds("Transformer Pooling Dense Normalize".split())
>>> _kinds(["Transformer", "Pooling", "LayerNorm"])
Traceback (most recent call last):
reldp.errors.EncoderError: `model` must be made of Transformer, Pooling, Dense and Normalize, in this \
order, got LayerNorm. Rebuild it from those modules.
"""

import copy
import operator
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
from torch import Tensor, nn

from reldp.encoders.adaptation import Adaptation, transformer_layers
from reldp.encoders.folders import state_hash
from reldp.encoders.loading import DTYPES, DenseLayer, Pretrained
from reldp.encoders.saving import base_model, merged_state
from reldp.encoders.soundness import PUBLIC_TEXTS, refuse_non_finite, refuse_unknown_words
from reldp.encoders.text import TextEncoder
from reldp.errors import EncoderError, RunError

__all__ = ["SharedEncoder"]

_ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
_POOLINGS = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
_ACTIVATIONS = (nn.Identity, nn.ReLU, nn.Tanh, nn.GELU)
# Settings of a Transformer module that change what it computes, and their neutral values.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "backend": ("torch",),
    "transformer_task": ("feature-extraction",),
    "query_expansion": (None,),
    "query_length": (None,),
    "document_length": (None,),
    "processing_kwargs": (None, {}),
}
_TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2}
# Models that a trainer holds or has trained: their weights are not those that they were loaded with.
_USED: "WeakSet[Any]" = WeakSet()


class SharedEncoder:
    """The text encoder of a SentenceTransformer.

    Attributes:
        model: The SentenceTransformer, whose layers are trained in place.
        encoder: The text encoder on the same layers.
    """

    def __init__(self, model: Any, how: Adaptation) -> None:
        """Freeze the model but for what is trained.

        Args:
            model: A SentenceTransformer, as it was loaded.
            how: What is trained.

        Raises:
            EncoderError: The model has adapters, was trained, or has a module that reldp does not represent.
        """
        pretrained = _pretrained(model)
        self.model = model
        self._flags = {p: p.requires_grad for p in model.parameters()}
        self._is_finished = False
        self._released: str | None = None
        self._modules = tuple(model)
        self._layers = _layers(model)
        try:
            self.encoder = TextEncoder(pretrained, how)
            self.encoder.check_finite()
            self._check_outputs()
        except BaseException:
            self._release()
            raise
        _USED.update(_parts(model))

    def release(self) -> None:
        """Give the model back as it was, for a trainer that could not be made."""
        self._release()
        _USED.difference_update(_parts(self.model))

    def finish(self, *, keep_adapters: bool) -> None:
        """Make the trained model an ordinary one again; a second call does nothing.

        Args:
            keep_adapters: Whether adapters stay beside the weights, as those that
                ``SentenceTransformer.add_adapter`` makes, instead of being added to the weights.
        """
        if self._is_finished:
            return
        self._is_finished = True
        # Of the encoder, which the run released; the model may have got other modules since it was shared.
        backbone: Any = self.encoder._text.backbone
        keeps = keep_adapters and self._has_adapters
        is_merged = self._has_adapters and not keeps
        # The same sum, in float32, as in the folder that the run saves.
        state = merged_state(backbone) if is_merged else base_model(backbone).state_dict()
        self._layers = _layers(self.model) if keeps else self._layers
        self._released = self._content(state)
        if keeps:
            base: Any = base_model(backbone)
            base.peft_config = backbone.peft_config
            base._hf_peft_config_loaded = True
            self._restore_forward(base)
        else:
            self._release(state if is_merged else None)

    def refuse_changed(self) -> None:
        """Refuse a model whose weights, modules or vocabulary are not those that the run released.

        Raises:
            RunError: It is another; what it is was not computed by the steps of the run alone.
        """
        is_same = len(self.model) == len(self._modules) and all(
            map(operator.is_, self.model, self._modules)
        )
        is_same = is_same and _layers(self.model) == self._layers
        is_same = is_same and self._has_same_words()
        if not is_same or self._content(self.model[0].auto_model.state_dict()) != self._released:
            raise RunError(
                "`model` must be the one that the run released, got one that was changed since then: other weights, "
                "modules or words. Save it with model.save_pretrained, which states no certificate, or load the "
                "released one from the folder model of the run."
            )

    def save(self, folder: Path) -> None:
        """Write the model without a card.

        PEFT looks for the base model's files, to compare vocabularies, and would ask a hub for the name of a folder;
        the vocabulary is the one that the model had when it was shared.
        """
        with warnings.catch_warnings(), _without_hub():
            warnings.filterwarnings("ignore", message="Could not find a config file")
            self.model.save_pretrained(str(folder), create_model_card=False)

    def _content(self, backbone: Mapping[str, Tensor]) -> str:
        """Return the hash of the model's weights and buffers, with those of its transformer as they are given."""
        parts = enumerate([backbone, *(module.state_dict() for module in self._modules[1:])])
        return state_hash({f"{i}.{name}": v for i, part in parts for name, v in part.items()})

    def _has_same_words(self) -> bool:
        """Return whether the tokenizer has the words that it had when the model was shared."""
        words: bool = self.model.tokenizer.get_vocab() == self.encoder.tokenizer.get_vocab()
        return words

    @property
    def is_finished(self) -> bool:
        """Whether the trained model is an ordinary one again, so that no step can follow."""
        return self._is_finished

    @property
    def _has_adapters(self) -> bool:
        return hasattr(self.encoder._text.backbone, "peft_config")

    def _release(self, merged: Mapping[str, Tensor] | None = None) -> None:
        """Take the adapters out, and load the weights that they were added to, if they are given."""
        transformer = self.model[0]
        encoder = getattr(self, "encoder", None)
        if encoder is not None and self._has_adapters:
            backbone: Any = encoder._text.backbone
            base = backbone.unload()
            if merged is not None:
                base.float().load_state_dict(merged)
            for name in ("peft_config", "_hf_peft_config_loaded"):
                vars(base).pop(name, None)
        self._restore_forward(transformer.auto_model)
        for parameter, flag in self._flags.items():
            parameter.requires_grad_(flag)

    def _restore_forward(self, base: nn.Module) -> None:
        """Remove what stood in for the forward of frozen layers (`reldp.encoders.prefix`)."""
        for layer in transformer_layers(base)[1]:
            vars(layer).pop("forward", None)

    def _check_outputs(self) -> None:
        """Refuse a model that computes something else than the encoder does."""
        theirs = self.model.encode(
            list(PUBLIC_TEXTS), prompt="", show_progress_bar=False, convert_to_numpy=True
        )
        ours = self.encoder.encode(PUBLIC_TEXTS)[:, : theirs.shape[1]]
        gap = float(np.abs(ours - theirs).max() / max(float(np.abs(theirs).max()), 1e-9))
        if not gap <= _TOLERANCE[self.encoder.describe()["dtype"]]:
            raise EncoderError(
                "`model` must embed texts as its Transformer, Pooling, Dense and Normalize modules say, got "
                f"embeddings of public sentences that differ by {gap:.2g}. Remove hooks and changes of its "
                "tokenizer or forward."
            )


@contextmanager
def _without_hub() -> Iterator[None]:
    """Let PEFT ask no hub."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before


def _layers(model: Any) -> tuple[tuple[str, type], ...]:
    """Return the names and classes of all layers."""
    return tuple((name, type(layer)) for name, layer in model.named_modules())


def _parts(model: Any) -> set[Any]:
    """Return a SentenceTransformer, its transformer and its dense layers: another one may be made of them."""
    return {model, model[0], *(module for module in model if type(module).__name__ == "Dense")}


def _pretrained(model: Any) -> Pretrained:
    """Return the parts of a SentenceTransformer, or refuse it by what it has."""
    if not hasattr(model, "encode") or not isinstance(model, nn.Sequential):
        raise EncoderError(f"`model` must be a SentenceTransformer, got {type(model).__name__}.")
    if any(part in _USED for part in model.modules()):
        raise EncoderError(
            "`model` must be as it was loaded, got one that another trainer holds or has trained. Load it "
            "again; the epsilons of two runs on the same weights add up."
        )
    modules = list(model)
    _kinds([type(module).__name__ for module in modules])
    transformer, pooling = modules[:2]
    backbone = _checked_transformer(transformer)
    return Pretrained(
        name=_name(backbone),
        model=backbone,
        tokenizer=_tokenizer(transformer, backbone),
        pooling=_pooling(pooling),
        max_length=_max_length(model),
        dense=tuple(_dense(m) for m in modules if type(m).__name__ == "Dense"),
        normalize=type(modules[-1]).__name__ == "Normalize",
    )


def _kinds(names: Sequence[str]) -> None:
    """Refuse modules of other kinds, or in another order."""
    places = [_ORDER.index(name) if name in _ORDER else -1 for name in names]
    wrong = [name for name, place in zip(names, places, strict=True) if place < 0]
    if not wrong and (places[:2] != [0, 1] or places != sorted(places) or places.count(3) > 1):
        wrong = [" then ".join(names)]
    if not wrong and (places.count(0), places.count(1)) != (1, 1):
        wrong = [" then ".join(names)]
    if wrong:
        raise EncoderError(
            f"`model` must be made of {', '.join(_ORDER[:3])} and {_ORDER[3]}, in this order, got {wrong[0]}. "
            "Rebuild it from those modules."
        )


def _checked_transformer(transformer: Any) -> Any:
    """Return the transformers model; refuse settings that reldp would not follow, and adapters."""
    for name, neutral in _NEUTRAL.items():
        value = getattr(transformer, name, neutral[0])
        if value not in neutral:
            raise EncoderError(
                f"`model` must have a Transformer module with {name} {neutral[0]!r}, got {value!r}. Load the "
                "model without it."
            )
    modalities = set(getattr(transformer, "modality_config", {"text": None}))
    if modalities != {"text"}:
        raise EncoderError(
            f"`model` must embed plain texts, got a model of {', '.join(sorted(map(str, modalities)))}."
        )
    backbone = transformer.auto_model
    _refuse_adapters(backbone)
    known = isinstance(getattr(backbone.config, "hidden_size", None), int)
    if not known or getattr(backbone.config, "is_encoder_decoder", False):
        raise EncoderError(
            f"`model` must be one encoder or one decoder of text, got {type(backbone).__name__}."
        )
    if getattr(backbone, "hf_quantizer", None) is not None:
        raise EncoderError("`model` must have plain weights, got quantized ones. Load it without.")
    types = {str(p.dtype).removeprefix("torch.") for p in backbone.parameters()}
    if len(types) != 1 or not types <= set(DTYPES):
        raise EncoderError(
            f"`model` must have weights of one type, float32 or bfloat16, got {', '.join(sorted(types))}. Load "
            'it with model_kwargs={"dtype": "float32"}.'
        )
    refuse_non_finite(dict(backbone.named_parameters()))
    return backbone


def _refuse_adapters(backbone: nn.Module) -> None:
    """Refuse adapters: those that training adds are the only ones that are clipped and noised."""
    try:
        from peft.tuners.tuners_utils import BaseTunerLayer
    except ImportError:  # without PEFT there are none
        return
    if any(isinstance(module, BaseTunerLayer) for module in backbone.modules()):
        raise EncoderError(
            "`model` must have no adapters, got some of PEFT. Merge them into the weights and load the result; "
            "the trainer adds adapters of its own, set by lora_rank, lora_alpha and lora_targets."
        )


def _tokenizer(transformer: Any, backbone: Any) -> Any:
    """Return a copy of the tokenizer that pads on the right: the model's own is left as it is."""
    tokenizer = copy.deepcopy(transformer.tokenizer)
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        raise EncoderError(
            "`model` must have a tokenizer with a padding token, got none. Set "
            "model.tokenizer.pad_token = model.tokenizer.eos_token."
        )
    refuse_unknown_words(tokenizer, int(backbone.get_input_embeddings().weight.shape[0]))
    return tokenizer


def _pooling(pooling: Any) -> str:
    """Return reldp's name of the pooling."""
    mode = pooling.pooling_mode
    if not isinstance(mode, str) or mode not in _POOLINGS:
        got = mode if isinstance(mode, str) else ", ".join(mode)
        raise EncoderError(
            f"`model` must pool by mean, cls or lasttoken, got {got}. Replace its Pooling module, model[1]."
        )
    return _POOLINGS[mode]


def _dense(module: Any) -> DenseLayer:
    """Return a Dense module's layer, which stays shared."""
    names = {module.module_input_name, module.module_output_name}
    activation = module.activation_function
    fits = names == {"sentence_embedding"} and type(activation) in _ACTIVATIONS
    if not fits or getattr(module, "use_residual", False):
        known = ", ".join(kind.__name__ for kind in _ACTIVATIONS)
        raise EncoderError(
            "`model` must have Dense modules from embedding to embedding without a residual and with one of "
            f"{known}, got another with {type(activation).__name__}."
        )
    return DenseLayer(linear=module.linear, activation=activation)


def _max_length(model: Any) -> int | None:
    """Return the maximum number of tokens, if the model states one that is real."""
    stated = model.max_seq_length
    return int(stated) if stated is not None and 0 < stated < 1e9 else None


def _name(backbone: Any) -> str:
    """Return the hub name of a model, or the name of its folder: no path of this machine."""
    stated = str(getattr(backbone, "name_or_path", "") or type(backbone).__name__)
    cached = re.search(r"models--([\w.-]+?)--([\w.-]+)", stated)
    if cached is not None:
        return "/".join(cached.groups())
    return Path(stated).name if Path(stated).exists() or Path(stated).is_absolute() else stated
