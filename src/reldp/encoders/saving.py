"""Saving of text encoders, so that transformers, PEFT and sentence-transformers can load it.

    folder/            config.json, model.safetensors, tokenizer: adapters merged into the weights
      modules.json, sentence_bert_config.json, config_sentence_transformers.json
      1_Pooling/ or 1_AttentionPooling/  2_Dense/ ...  N_Normalize/
      adapter/         the LoRA adapters alone, for PEFT on the base model
      encoder.json     what reldp knows about it

``AutoModel.from_pretrained(folder)`` and ``SentenceTransformer(folder)`` read the folder itself,
``PeftModel.from_pretrained(base, folder / "adapter")`` the adapters. Merging is done in float32 on
copies, so the encoder in memory does not change by a bit. The spelling of the settings is the one
that every release of sentence-transformers since 2 reads.

Private to the package: `write_text_folder`, `merged_state`.

>>> dense_config(nn.Linear(2, 3), nn.ReLU())["activation_function"]
'torch.nn.modules.activation.ReLU'
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from reldp.encoders.attention_pooling import AttentionPooling, write_attention_pooling
from reldp.encoders.folders import read_json, write_json
from reldp.encoders.loading import DenseLayer, quiet_transformers

__all__ = ["merged_state", "write_text_folder"]

_POOLING_KEYS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "last": "pooling_mode_lasttoken",
}

# Classes that sentence-transformers lacks and imports from here.
_CLASSES = {"AttentionPooling": "reldp.integrations.sentence_transformers.pooling.AttentionPooling"}


def write_text_folder(
    folder: Path,
    *,
    backbone: nn.Module,
    tokenizer: Any,
    pooling: str,
    max_length: int,
    dense: Sequence[DenseLayer],
    normalize: bool,
    described: dict[str, Any],
    attention: AttentionPooling | None = None,
) -> None:
    """Write everything into an existing empty folder."""
    model = base_model(backbone)
    config: Any = model.config
    tokenizer.model_max_length = max_length
    with quiet_transformers():
        saved: Any = model
        saved.save_pretrained(folder, state_dict=merged_state(backbone))
        tokenizer.save_pretrained(folder)
        if backbone is not model:
            adapters: Any = backbone
            adapters.save_pretrained(folder / "adapter", save_embedding_layers=False)
            (folder / "adapter" / "README.md").unlink(missing_ok=True)
    _state_single_precision(folder / "config.json")
    if attention is None:
        modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
        write_json(
            folder / "1_Pooling" / "config.json", _pooling_config(config.hidden_size, pooling)
        )
    else:
        modules = [("", "Transformer"), ("1_AttentionPooling", "AttentionPooling")]
        write_attention_pooling(folder / "1_AttentionPooling", attention)
    for layer in dense:
        modules.append((f"{len(modules)}_Dense", "Dense"))
        _write_dense(folder / modules[-1][0], layer)
    if normalize:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
        # Never an empty folder: hubs and archives drop those, and a verified run has none.
        write_json(folder / modules[-1][0] / "config.json", {})
    write_json(folder / "modules.json", [_module_entry(i, *m) for i, m in enumerate(modules)])
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False}
    )
    write_json(folder / "config_sentence_transformers.json", _sentence_config())
    write_json(folder / "encoder.json", described)


def _state_single_precision(path: Path) -> None:
    """Corrects the type that transformers notes: the model's in memory, not the one written."""
    config = read_json(path)
    for key in ("dtype", "torch_dtype"):
        if key in config:
            config[key] = "float32"
    write_json(path, config)


def base_model(backbone: nn.Module) -> nn.Module:
    """Return the transformers model itself, under PEFT's wrapping or bare."""
    wrapped: Any = backbone
    return wrapped.get_base_model() if hasattr(backbone, "peft_config") else backbone


def merged_state(backbone: nn.Module) -> dict[str, Tensor]:
    """Return the model's weights in float32 on the CPU, adapters added, named as without adapters."""
    state: dict[str, Tensor] = {}
    model = base_model(backbone)
    for name, value in model.state_dict().items():
        if ".lora_" in name:
            continue
        value = value.detach().to("cpu", copy=True)
        value = value.float() if value.is_floating_point() else value
        path, _, leaf = name.rpartition(".")
        if path.endswith(".base_layer"):
            path = path.removesuffix(".base_layer")
            if leaf == "weight":
                adapted: Any = model.get_submodule(path)
                value += adapted.get_delta_weight("default").detach().cpu().float()
        state[f"{path}.{leaf}" if path else leaf] = value
    return state


def dense_config(linear: nn.Linear, activation: nn.Module) -> dict[str, Any]:
    """Return the settings of a sentence-transformers Dense module."""
    kind = type(activation)
    return {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{kind.__module__}.{kind.__qualname__}",
    }


def _write_dense(folder: Path, layer: DenseLayer) -> None:
    """One Dense module: settings and weights."""
    from safetensors.torch import save_file

    write_json(folder / "config.json", dense_config(layer.linear, layer.activation))
    weights = layer.linear.state_dict().items()
    save_file(
        {f"linear.{name}": value.detach().cpu().contiguous() for name, value in weights},
        str(folder / "model.safetensors"),
    )


def _pooling_config(dim: int, pooling: str) -> dict[str, Any]:
    """Return the settings of a sentence-transformers Pooling module."""
    modes = {key: word == pooling for word, key in _POOLING_KEYS.items()}
    return {"word_embedding_dimension": dim, **modes, "include_prompt": True}


def _module_entry(index: int, path: str, kind: str) -> dict[str, Any]:
    return {
        "idx": index,
        "name": str(index),
        "path": path,
        "type": _CLASSES.get(kind, f"sentence_transformers.models.{kind}"),
    }


def _sentence_config() -> dict[str, Any]:
    """No prompts; similarity by cosine."""
    return {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"}
