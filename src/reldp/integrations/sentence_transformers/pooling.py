"""Attention pooling as a module of sentence-transformers, for models that reldp trained with ``train="pooling"``.

``SentenceTransformer(folder)`` finds this class by the name in the folder's modules.json.

Public: `AttentionPooling`.

>>> AttentionPooling(2).get_embedding_dimension()
2
"""

from pathlib import Path
from typing import Any, Self

from sentence_transformers.base.modules import Module
from torch import Tensor

from reldp.encoders.attention_pooling import AttentionPooling as Weights
from reldp.encoders.attention_pooling import read_attention_pooling, write_attention_pooling

__all__ = ["AttentionPooling"]


class AttentionPooling(Module):  # type: ignore[misc]  # sentence-transformers has no types here
    """A weighted mean over tokens, with trained weights."""

    config_keys = ["dim"]  # noqa: RUF012  # as in the class above

    def __init__(self, dim: int) -> None:
        """Start as mean pooling."""
        super().__init__()
        self.dim = dim
        self.weights = Weights(dim)

    def forward(self, features: dict[str, Tensor], **kwargs: Any) -> dict[str, Any]:
        """Add the embeddings of texts to their features."""
        mask = features["attention_mask"]
        embeddings = self.weights(features["token_embeddings"], mask)
        return {**features, "sentence_embedding": embeddings}

    def get_embedding_dimension(self) -> int:
        """Return the length of an embedding."""
        return self.dim

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write settings and weights."""
        write_attention_pooling(Path(output_path), self.weights)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> Self:
        """Return the module that `save` wrote, from a folder or a hub name."""
        hub = {k: v for k, v in kwargs.items() if k in ("token", "cache_folder", "revision")}
        where = {"subfolder": subfolder, "local_files_only": kwargs.get("local_files_only", False)}
        config = cls.load_config(model_name_or_path, **where, **hub)
        folder = Path(cls.load_dir_path(model_name_or_path, **where, **hub))
        module = cls(int(config["dim"]))
        module.weights = read_attention_pooling(folder, module.dim)
        return module
