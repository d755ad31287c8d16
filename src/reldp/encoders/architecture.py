"""Properties of a model's architecture: its family, its positions and its vocabulary.

Private to the package: `adds_mask`, `is_decoder`, `num_positions`, `has_plain_positions`,
`tokenizer_hash`.

>>> is_decoder("llama"), is_decoder("bert")
(True, False)
"""

import hashlib
import sys
from typing import Any

from torch import nn

__all__ = ["adds_mask", "has_plain_positions", "is_decoder", "num_positions", "tokenizer_hash"]


def adds_mask(model: nn.Module) -> bool:
    """Return whether the model needs an additive attention mask on a GPU.

    Known by name: other models with attention that is written out read their masks in other ways.
    """
    config: Any = model.config
    return str(config.model_type) == "mpnet"


def is_decoder(model_type: str) -> bool:
    """Return whether the family is causal, so that only the last token has seen the whole text."""
    from transformers.models.auto import modeling_auto

    causal = model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return causal and model_type not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES


def tokenizer_hash(tokenizer: Any) -> str:
    """Return the hash of vocabulary and rules, where the tokenizer can be written out."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    text = fast.to_str() if fast is not None else str(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(text.encode()).hexdigest()


def num_positions(model: nn.Module) -> int:
    """Return the maximum number of tokens; position tables with a padding row start after it."""
    config: Any = model.config
    count = getattr(config, "max_position_embeddings", None) or sys.maxsize
    table = position_table(model)
    skipped = 0 if table is None or table.padding_idx is None else table.padding_idx + 1
    return int(count) - skipped


def position_table(model: nn.Module) -> nn.Embedding | None:
    """Return the table of absolute positions, where the model has one."""
    for path, module in model.named_modules():
        if path.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def has_plain_positions(model: nn.Module) -> bool:
    """Return whether positions are a table indexed 0, 1, 2, ... from the left."""
    table = position_table(model)
    return table is not None and table.padding_idx is None
